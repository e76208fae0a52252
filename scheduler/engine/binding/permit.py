"""Pods that wait at permit: listed, allowed, rejected, timed out."""

import msgspec

from scheduler.engine.queue.pod import QueuedPod


class Waiting(msgspec.Struct):
    """A pod at permit: for each plugin that waits, when its patience ends; `timeouts_s` for texts."""

    queued: QueuedPod
    since: float
    until: dict[str, float]
    timeouts_s: dict[str, float]


class PermitWord(msgspec.Struct, frozen=True):
    """What a plugin says of a pod at permit: without a `reason` it may pass, else it is rejected."""

    uid: str
    plugin: str
    reason: str | None = None


class WaitingPods(dict[str, Waiting]):
    """The pods at permit by uid."""

    def add(self, queued: QueuedPod, waits: dict[str, float], now: float) -> None:
        """Let a pod wait; `waits` gives each waiting plugin's timeout in seconds."""
        until = {plugin: now + timeout for plugin, timeout in waits.items()}
        self[queued.uid] = Waiting(queued, now, until, dict(waits))

    def waits_only_for(self, uid: str, plugin: str) -> bool:
        """Whether a pod is at permit and `plugin` alone holds it."""
        waiting = self.get(uid)
        return waiting is not None and waiting.until.keys() == {plugin}

    def allow(self, uid: str, plugin: str) -> bool:
        """Take one plugin's hold away; return whether the pod is free to go."""
        waiting = self.get(uid)
        if waiting is None:
            return False
        waiting.until.pop(plugin, None)
        return not waiting.until

    def drop(self, uid: str) -> Waiting | None:
        """Forget a pod; return it, or None if it did not wait."""
        return self.pop(uid, None)

    def expired(self, now: float) -> list[tuple[str, str, float]]:
        """Return (uid, plugin, timeout) of the pods whose time is up, the first plugin of each."""
        found = []
        for waiting in self.values():
            late = [plugin for plugin, end in waiting.until.items() if end <= now]
            if late:
                plugin = min(late, key=lambda name: waiting.until[name])
                found.append((waiting.queued.uid, plugin, waiting.timeouts_s[plugin]))
        return found

    def next_deadline(self) -> float | None:
        """Return when the next pod's time is up, or None."""
        return min((end for w in self.values() for end in w.until.values()), default=None)
