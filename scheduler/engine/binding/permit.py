"""Pods that wait at permit: listed, allowed, rejected."""

import msgspec

from scheduler.engine.queue.pod import QueuedPod


class PermitWait(msgspec.Struct):
    """A pod at permit: for each plugin that waits, when its patience ends; `timeouts_s` for
    texts.
    """

    queued: QueuedPod
    since: float
    until: dict[str, float]
    timeouts_s: dict[str, float]

    @property
    def ends_at(self) -> float:
        """Return when the first plugin's patience ends."""
        return min(self.until.values())

    @property
    def first(self) -> tuple[str, float]:
        """Return the plugin whose timeout ends first, and this timeout in seconds."""
        plugin = min(self.until, key=self.until.__getitem__)
        return plugin, self.timeouts_s[plugin]


class PermitDecision(msgspec.Struct, frozen=True):
    """A plugin's verdict on a pod at permit: rejected with a `reason`, allowed without one."""

    uid: str
    plugin: str
    reason: str | None = None


class WaitingPods(dict[str, PermitWait]):
    """The pods at permit by uid."""

    def add(self, queued: QueuedPod, waits: dict[str, float], now: float) -> float:
        """Add a pod and return its deadline; `waits` gives each waiting plugin's timeout in
        seconds.
        """
        until = {plugin: now + timeout for plugin, timeout in waits.items()}
        waiting = self[queued.uid] = PermitWait(queued, now, until, dict(waits))
        return waiting.ends_at

    def waits_only_for(self, uid: str, plugin: str) -> bool:
        """Return whether a pod is at permit and `plugin` is the only one that keeps it there."""
        waiting = self.get(uid)
        return waiting is not None and waiting.until.keys() == {plugin}

    def allow(self, uid: str, plugin: str) -> bool:
        """Record that one plugin allows the pod; return whether no other plugin keeps it."""
        waiting = self.get(uid)
        if waiting is None:
            return False
        waiting.until.pop(plugin, None)
        return not waiting.until

    def drop(self, uid: str) -> PermitWait | None:
        """Remove a pod; return it, or None if it did not wait."""
        return self.pop(uid, None)
