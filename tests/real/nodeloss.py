"""`NodeLoss`: the common part of lifecycles in which a heterogeneous group loses a node with its
pods.
"""

from typing import Any, ClassVar

from tests.real.test_group_lifecycle import CORE, Lifecycle, is_bound

Json = dict[str, Any]
# The write at which the daemon dies first, and whether it arrives: of words to members, and of
# binds.
SOME_WRITES = ((2, True), (7, False))


class NodeLoss(Lifecycle):
    """A cluster of nodes that differ in their labels only, and the placement before a node was
    lost.
    """

    nodes: ClassVar[int]
    amounts: ClassVar[dict[str, str]]
    gone: frozenset[str]
    before: dict[str, Json]

    def labels(self, number: int) -> dict[str, str]:
        """Return the labels of a node."""
        raise NotImplementedError

    def holds(self, pods: dict[str, Json]) -> bool:
        """Return whether all members are bound and the group's rules hold."""
        raise NotImplementedError

    async def check_rules(self, cut_at: int) -> None:
        """Check that all rules hold again, and that no pod moved except those of the lost node."""
        pods = await self.pods()
        assert self.holds(pods), (cut_at, pods)
        for name in self.before.keys() - self.gone:
            was, now = self.before[name], pods[name]
            assert was["metadata"]["uid"] == now["metadata"]["uid"], (name, cut_at)
            assert was["spec"]["nodeName"] == now["spec"]["nodeName"], (name, cut_at)
            assert "deletionTimestamp" not in now["metadata"], (name, cut_at)

    async def clean(self) -> None:
        """Delete all objects of the lifecycle."""
        await super().clean()
        for number in range(self.nodes):
            await self.api.request("DELETE", f"/api/v1/nodes/n{number}")

    async def furnish(self) -> None:
        """Create the nodes."""
        status = {"capacity": self.amounts, "allocatable": self.amounts}
        for number in range(self.nodes):
            meta = {"name": f"n{number}", "labels": self.labels(number)}
            body = {"kind": "Node", "metadata": meta, "status": status}
            await self.api.expect("POST", "/api/v1/nodes", body)

    async def whole(self, what: str) -> None:
        """Wait until all members are bound; then the rules hold."""
        await self.until(lambda pods: all(map(is_bound, pods.values())), what)
        pods = await self.pods()
        assert self.holds(pods), pods

    async def lose_node_of(self, name: str) -> list[str]:
        """Delete a member's node with all its pods.

        Return their names, so that the caller can recreate them.
        """
        self.before = await self.pods()
        node = self.before[name]["spec"]["nodeName"]
        lost = sorted(key for key, pod in self.before.items() if pod["spec"]["nodeName"] == node)
        self.gone = frozenset(lost)
        await self.api.expect("DELETE", f"/api/v1/nodes/{node}")
        for key in lost:
            await self.api.expect("DELETE", f"{CORE}/pods/{key}", {"gracePeriodSeconds": 0})
        return lost


def waits_for_a_member(pods: dict[str, Json]) -> bool:
    """Return whether all members state that they wait for their group: at its gate, or for a class
    when it was tried.
    """
    return all(
        any(
            one.get("reason") == "WaitingForGroup" or " waits: " in one.get("message", "")
            for one in pod["status"].get("conditions") or ()
        )
        for pod in pods.values()
    )
