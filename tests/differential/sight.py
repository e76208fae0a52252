"""The objects that kube-scheduler has seen, by its log and its metrics, and waiting for more.

Nodes and pods are in the log; storage is only counted, by kind. For changes without a trace it
waits `settle_s` seconds. Does not use the API server.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from time import monotonic

from tests.apiserver.patience import pause
from tests.apiserver.realcluster import KubeScheduler
from tests.differential.kinds import COUNTED, Manifest, key_of
from tests.differential.klog import Follower

POLL_S = 0.003
PATIENCE_S = 10.0
SETTLE_S = 0.02
FINISHED = {"Succeeded", "Failed"}
_HANDLED = re.compile(
    r'^scheduler_event_handling_duration_seconds_count\{event="(?:[^"]+/)?(\w+)"\} (\d+)',
    re.MULTILINE,
)


class CaseError(AssertionError):
    """The cluster did not reach the state that a case needs; the case has no result."""


class Sight:
    """Follows one kube-scheduler.

    `updates` are the versions of each pod that it has not seen yet.
    """

    def __init__(self, scheduler: KubeScheduler) -> None:
        self.settle_s = SETTLE_S
        self.log = Follower(scheduler.program.log)
        self.updates: Counter[str] = Counter()
        self._scheduler = scheduler
        self._expected: Counter[str] = Counter()
        self._counted: Counter[str] = Counter()

    def begin(self) -> None:
        """Drop the observations of the previous case."""
        self.log.read()
        self.log.forget()
        self.updates.clear()

    def expect(self, event: str, times: int = 1) -> None:
        """Expect an event like "NodeAdd"; events without a counter are not awaited."""
        if event in COUNTED:
            self._expected[event] += times

    def saw(self, event: str, key: str) -> bool:
        """Return whether an event like "Add node" of an object was seen."""
        return self.log.seen[(event, key)] > 0

    async def until(self, is_so: Callable[[], bool], what: str) -> None:
        """Read the log until `is_so`; StageError when it takes too long."""
        deadline = monotonic() + PATIENCE_S
        self.log.read()
        while not is_so():
            if monotonic() > deadline:
                raise CaseError(f"waited in vain for {what}")
            await pause(POLL_S)
            self.log.read()

    async def until_there(self, nodes: Iterable[Manifest], pods: Iterable[Manifest]) -> None:
        """Wait until these were seen as they are now, and the storage that was expected."""
        names = [key_of(node) for node in nodes]
        pods = list(pods)

        def has_all() -> bool:
            return all(self.saw("Add node", name) for name in names) and all(
                map(self._is_up_to_date, pods)
            )

        await self.until(has_all, "nodes and pods to be seen")
        await self.settle()

    async def until_gone(self, kind: str, objects: Iterable[Manifest]) -> None:
        """Wait until deletions of nodes or pods were seen; other kinds leave no trace."""
        # A pod may be bound in its last moment.
        events = {
            "Node": ("Delete node",),
            "Pod": ("Delete scheduled pod", "Delete unscheduled pod"),
        }.get(kind)
        if events is None:
            return
        keys = [key_of(obj) for obj in objects]
        await self.until(
            lambda: all(any(self.saw(event, key) for event in events) for key in keys),
            f"{kind}s to go: {keys}",
        )

    async def settle(self) -> None:
        """Wait until the metrics have counted the expected events, and shortly for the others."""
        deadline = monotonic() + PATIENCE_S
        while any(self._counted[name] < count for name, count in self._expected.items()):
            found = _HANDLED.findall(self._scheduler.get("/metrics"))
            self._counted = Counter({name: int(count) for name, count in found})
            if monotonic() > deadline:
                raise CaseError(f"events not handled: {self._expected} {self._counted}")
            await pause(POLL_S)
        await pause(self.settle_s)

    def _is_up_to_date(self, pod: Manifest) -> bool:
        key, state = key_of(pod), _state(pod)
        came = self.saw(f"{'Delete' if is_finished(pod) else 'Add'} {state} pod", key)
        return came and self.log.seen[(f"Update {state} pod", key)] >= self.updates[key]


def is_finished(pod: Manifest) -> bool:
    """Return whether a pod has finished: the scheduler's watch then reports it as deleted."""
    return pod.get("status", {}).get("phase") in FINISHED


def _state(pod: Manifest) -> str:
    return "scheduled" if pod["spec"].get("nodeName") else "unscheduled"
