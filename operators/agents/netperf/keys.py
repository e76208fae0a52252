"""The key that all agents share: read from a file, used for proofs, never shown.

The file has one key per line. The first one makes proofs, every one is accepted, so that a key is
replaced without a gap: add the new one below, then put it first, then drop the old one.
"""

import hmac
from pathlib import Path

from scheduler.base.errors import ConfigError

LEAST_BYTES = 16
PROOF_BYTES = 32


class Keys:
    """The keys of one file, reloaded when the file changes (such as a mounted Secret)."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: tuple[int, int] | None = None
        self._keys: tuple[bytes, ...] = ()
        self._read()

    def __repr__(self) -> str:
        """Return a text without the keys, because logs may contain it."""
        return f"Keys({str(self._path)!r})"

    def refresh(self) -> None:
        """Read the file if it has changed; one that cannot be used leaves the old keys in place."""
        try:
            self._read()
        except ConfigError:
            return

    def prove(self, text: bytes, key: bytes | None = None) -> bytes:
        """Return the proof that the author of `text` has a key, by default the first."""
        return hmac.digest(self._keys[0] if key is None else key, text, "sha256")

    def which(self, text: bytes, proof: bytes) -> bytes | None:
        """Return the key that made a proof, None for none; in constant time."""
        keys = self._keys
        fits = [hmac.compare_digest(self.prove(text, key), proof) for key in keys]
        return keys[fits.index(True)] if any(fits) else None

    def _read(self) -> None:
        try:
            found = self._path.stat()
            stamp = (found.st_mtime_ns, found.st_ino)
            if stamp == self._stamp:
                return
            lines = [one.strip() for one in self._path.read_bytes().splitlines() if one.strip()]
        except OSError as error:
            raise ConfigError(
                f"the key cannot be read: {error.strerror}", where=str(self._path)
            ) from error
        if not lines or min(map(len, lines)) < LEAST_BYTES:
            raise ConfigError(
                f"a key has at least {LEAST_BYTES} characters and stands on a line of its own",
                where=str(self._path),
            )
        self._stamp, self._keys = stamp, tuple(lines)
