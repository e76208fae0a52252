"""A group that is evicted for a more important pod, with the daemon killed (SIGKILL) at every
write.

It is evicted as a whole, and each member and the group get an event with the preemptor before any
of them is deleted. A daemon that dies meanwhile may leave members behind; the next one deletes none
of them without an event.
"""

import pytest

from tests.apiserver.realcluster import Reachable
from tests.real.test_group_lifecycle import SIZE, SOURCES, Lifecycle, is_bound, prepared

pytestmark = [pytest.mark.real, pytest.mark.timeout(3600), pytest.mark.allow_blocking("files")]
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
# The writes at which a daemon dies in the short run: none, and one among the evictions.
SOME_WRITES = (0, 12)


class Taken(Lifecycle):
    """A cluster of two nodes that a group fills, and a pod of higher priority."""

    uids: dict[str, str]

    async def live(self) -> None:
        """Run until the pod is bound."""
        body = {"metadata": {"name": "boss"}, "value": 1000}
        await self.api.request("POST", CLASSES, body)  # it may exist already
        await self.begin()
        members = await self.pods()
        self.uids = {name: pod["metadata"]["uid"] for name, pod in members.items()}
        await self._pod("boss", {}, {"priorityClassName": "boss"})
        await self.until(lambda pods: is_bound(pods["boss"]), "the more important pod")

    async def check_rules(self, cut_at: int) -> None:
        """Check that all are deleted, each after an event on it and on its group."""
        gone = self.uids.keys() - (await self.pods()).keys()
        events, _ = await self.api.list(EVENTS)
        reported = {one["regarding"]["uid"] for one in events if one["reason"] == "Preempted"}
        assert {self.uids[name] for name in gone} <= reported, cut_at
        notes = [one["note"] for one in events if one["reason"] == "GroupPreempted"]
        start = "Pods of the group are evicted for the pod default/boss: "
        named = {name for note in notes for name in note.removeprefix(start).split(", ")}
        assert gone <= named, (notes, cut_at)
        if not cut_at:
            assert SIZE == len(gone)

    async def clean(self) -> None:
        """Delete all objects, including events."""
        await super().clean()
        await self.api.request("DELETE", EVENTS)


@pytest.mark.parametrize("kind", SOURCES)
async def test_taken_and_killed_at_some_writes(server: Reachable, kind: str):
    """The leader is killed at none of the writes, and among the evictions."""
    async with prepared(server, kind, 1, Taken) as lifecycles:
        for cut_at in SOME_WRITES:
            await lifecycles.lived(cut_at, arrives=True)


@pytest.mark.long
@pytest.mark.parametrize("daemons", [1, 2])
@pytest.mark.parametrize("kind", SOURCES)
async def test_taken_and_killed_at_every_write(server: Reachable, kind: str, daemons: int):
    """The lifecycle ends correctly if the daemon is killed at its n-th write, for each n, whether
    that write arrives or not.
    """
    async with prepared(server, kind, daemons, Taken) as lifecycles:
        await lifecycles.killed_at_every_write()
