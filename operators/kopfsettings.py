"""kopf's settings for a guest in our process: it leaves objects, cluster and process alone.

Nothing is stored in objects (no finalizers, no annotations), no events are posted, no definitions or
namespaces are watched; the runner knows when a kind is there. Used by `operators.life` alone.
"""

from typing import Any, cast

import kopf

PAGE = 50  # objects per page of a list: each page is parsed in one go, on the scheduler's loop
REQUEST_TIMEOUT_S = 10.0
RECONNECT_S = 1.0


class NoDiffBase(kopf.DiffBaseStorage):
    """Remembers no last handled state: our handlers take every event as it comes."""

    def build(self, **_: Any) -> Any:
        """Return nothing, instead of copying the whole object at every event."""
        return {}

    def fetch(self, *, body: kopf.Body) -> None:
        """Know of nothing."""

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: Any) -> None:
        """Keep nothing."""


class NoProgress(kopf.ProgressStorage):
    """Remembers no progress of handlers: ours are done when they return."""

    def fetch(self, *, key: Any, body: kopf.Body) -> None:
        """Know of nothing."""

    def store(self, *, key: Any, record: Any, body: kopf.Body, patch: kopf.Patch) -> None:
        """Keep nothing."""

    def purge(self, *, key: Any, body: kopf.Body, patch: kopf.Patch) -> None:
        """Have nothing to forget."""

    def touch(self, *, body: kopf.Body, patch: kopf.Patch, value: str | None) -> None:
        """Leave the object alone."""

    def clear(self, *, essence: Any) -> Any:
        """Return it as it is: there is nothing of ours in it."""
        return essence


def quiet_settings() -> kopf.OperatorSettings:
    """Return settings of their own for one start of kopf."""
    settings = kopf.OperatorSettings()
    # By default kopf kills the process some time after its tasks are cancelled.
    settings.process.ultimate_exiting_timeout = None
    settings.posting.enabled = False
    settings.scanning.disabled = True
    settings.watching.chunk_size = PAGE
    # Lost connections are watched again; anything else ends kopf, and the runner does the retrying.
    settings.networking.error_backoffs = ()
    settings.networking.request_timeout = REQUEST_TIMEOUT_S
    settings.watching.reconnect_backoff = RECONNECT_S
    settings.persistence.diffbase_storage = NoDiffBase()
    settings.persistence.progress_storage = cast("Any", NoProgress())
    return settings
