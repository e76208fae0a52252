"""`PageFeed`: one changing document for many readers, sent as a whole first and as patches
afterwards.

The owner of the document publishes it; `ui.py` forwards it to readers. A document consists of
sections of records by key; a patch states which records are set and which are removed. Every event
is encoded once for all readers. A reader that is too slow loses its patches and gets the whole
document again, so it delays neither the publisher nor the other readers. Does no I/O.
"""

import asyncio
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec

# The maximum of queued patches per reader; beyond it a whole document is smaller.
MOST_WAITING = 16

_NONE = object()
Document = Mapping[str, Mapping[str, Any]]


def patch(before: Document, after: Document) -> dict[str, dict[str, Any]]:
    """Return per section that differs what to `set` and what to `drop`."""
    found = {}
    for section in before.keys() | after.keys():
        old, new = before.get(section, {}), after.get(section, {})
        wanted = {
            key: one
            for key, one in new.items()
            if (had := old.get(key, _NONE)) is not one and had != one
        }
        gone = [key for key in old if key not in new]
        if wanted or gone:
            found[section] = {"set": wanted, "drop": gone}
    return found


class FeedReader:
    """The messages queued for one reader; created by `PageFeed.reader`."""

    def __init__(self, feed: "PageFeed") -> None:
        self._feed = feed
        self._waiting: deque[bytes] = deque()
        self._is_behind = True
        self._has_event = asyncio.Event()
        self._has_event.set()

    def put(self, event: bytes) -> None:
        """Add a patch; if too many wait, drop them all."""
        if not self._is_behind:
            self._waiting.append(event)
            if len(self._waiting) > MOST_WAITING:
                self._waiting.clear()
                self._is_behind = True
        self._has_event.set()

    async def next(self) -> bytes:
        """Return the next event; the whole document for a reader that is new or fell behind."""
        await self._has_event.wait()
        if self._is_behind:
            self._is_behind = False
            event = self._feed.whole()
        else:
            event = self._waiting.popleft()
        if not self._waiting:
            self._has_event.clear()
        return event


class PageFeed:
    """The document as published last, and its readers."""

    def __init__(self, document: Document | None = None) -> None:
        self._document: Document = document or {}
        self._whole: bytes | None = None
        self._readers: set[FeedReader] = set()

    @property
    def readers(self) -> int:
        """Return the number of readers."""
        return len(self._readers)

    def publish(self, document: Document) -> None:
        """Replace the document; readers receive the differences, if any."""
        changed = patch(self._document, document) if self._readers else {}
        self._document, self._whole = document, None
        if changed:
            event = _event("patch", changed)
            for reader in self._readers:
                reader.put(event)

    def whole(self) -> bytes:
        """Return the event that carries the whole document."""
        if self._whole is None:
            self._whole = _event("view", self._document)
        return self._whole

    @contextmanager
    def reader(self) -> Iterator[FeedReader]:
        """Yield a reader's queue; it is removed at the end of the block."""
        reader = FeedReader(self)
        self._readers.add(reader)
        try:
            yield reader
        finally:
            self._readers.discard(reader)


def _event(name: str, record: object) -> bytes:
    # JSON contains no bare line breaks, so it fits one `data:` line.
    return b"event: " + name.encode() + b"\ndata: " + msgspec.json.encode(record) + b"\n\n"
