"""MovePlans without approvals for a long time: the real planner, a random workload.

Whenever no plan is open, the next one is created: for a pending pod, otherwise for a free node.
"""

import json
from random import Random

import msgspec
import pytest

from scheduler.base.clock import parse_rfc3339, rfc3339
from scheduler.base.errors import InputError
from scheduler.cli.jobs.movejobs import run_moves
from scheduler.moves.solver import search  # noqa: F401 - loads CP-SAT before the first test
from scheduler.objects.moveplan import DONE, MovePlan, MovePlanStatus
from scheduler.objects.movewire import packed, unpacked
from scheduler.objects.plain import read_pod
from scheduler.testing import node
from tests.property.moveworld import CPUS, MoveCluster, Outcome

pytestmark = pytest.mark.allow_blocking("the planner reads files of the installation")
COOLDOWN_S, MIN_AGE_S, MOST_MOVES = 1800, 300, 4
LIMITS = {"maxMoves": MOST_MOVES, "cooldownSeconds": COOLDOWN_S, "minAgeSeconds": MIN_AGE_S}
ENDED = ("Completed", "Aborted", "Impossible", "Invalid")


class PolicyCluster(MoveCluster):
    """A cluster whose plans are approved by configuration, and the pods that they moved."""

    def __init__(self, random: Random) -> None:
        super().__init__(random, nodes=6)
        self.approves = ("waiting", "freeNodes")
        self.start()
        self.plans = 0
        self.left: dict[str, int] = {}  # minutes until an owner ends
        self.ended: list[MovePlanStatus] = []
        self._kept: list[tuple[float, MovePlan]] = []

    async def run(self, kind: str, payload: bytes, limit_s: float) -> Outcome:
        """Answer by the real planner, about the objects of this cluster."""
        del kind, limit_s
        question, _ = unpacked(payload)
        budgets = map(self._budget, self.owners)
        items = [*self._nodes(), *self._pods(), *budgets]
        page = {"apiVersion": "v1", "kind": "List", "items": items}
        try:
            _, found = run_moves(packed(question, [json.dumps(page).encode()]))
        except InputError as error:
            return Outcome(b"", ok=False, message=str(error))
        return Outcome(found)

    def _nodes(self):
        return [node(name, cpu=str(CPUS)) for name in self.nodes]

    def _pods(self):
        return [{"apiVersion": "v1", "kind": "Pod", **raw} for raw in self.pods.values()]

    def _budget(self, owner):
        return {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": owner, "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": owner}}},
            "status": {"disruptionsAllowed": max(0, self.ready(owner) - self.owners[owner])},
        }

    def create(self, owner: str, cpu: int, on: str = "") -> str:
        """Create a pod with a creation time and the label of its owner."""
        uid = super().create(owner, cpu, on)
        meta = self.pods[uid]["metadata"]
        meta |= {"creationTimestamp": rfc3339(self.clock.now()), "labels": {"app": owner}}
        return uid

    def workload(self) -> None:
        """Create and delete owners."""
        for owner in [one for one, left in self.left.items() if left <= 0]:
            del self.left[owner], self.owners[owner]
            for uid in [uid for uid, raw in self.pods.items() if owner_of(raw) == owner]:
                self.dying.pop(uid, None)
                self._show("Pod", "DELETED", read_pod(self.pods.pop(uid)))
        self.left = {owner: left - 1 for owner, left in self.left.items()}
        if self.random.random() < 0.1 and len(self.pods) < 16:
            self.version += 1
            owner, replicas = f"app{self.version}", self.random.choice((1, 2, 2, 3))
            self.owners[owner] = replicas - 1
            self.left[owner] = self.random.choice((20, 60, 200, 600))
            cpu = self.random.choice((1, 1, 2, 3))
            for _ in range(replicas):
                self.create(owner, cpu)

    def policy(self) -> None:
        """Create the next plan once the last one has ended."""
        if self.plan is not None:
            if self.status.phase not in ENDED:
                return
            self.ended.append(self.status)
            self._kept.append((self.clock.now(), msgspec.convert(self.plan, MovePlan)))
            self.plan = None
        while self._kept and self._kept[0][0] < self.clock.now() - COOLDOWN_S:
            self._show("MovePlan", "DELETED", self._kept.pop(0)[1])
        waiting = [uid for uid, raw in self.pods.items() if not raw["spec"]["nodeName"]]
        goal = {"waiting": f"default/{waiting[0]}"} if waiting else {"freeNodes": {"number": 2}}
        self.plans += 1
        self.name = f"plan-{self.plans}"
        self.put_plan(goal=goal, limits=LIMITS)


def owner_of(raw):
    """Return the uid of the owner of a pod."""
    return raw["metadata"]["ownerReferences"][0]["uid"]


async def policy_left_on(seed: int, minutes: int, rest: int) -> PolicyCluster:
    """Run the policy for this many minutes, then for two rests without changes of owners.

    No pod moves in the second one.
    """
    world = PolicyCluster(Random(seed))
    for _ in range(minutes):
        world.workload()
        await passed(world)
    for _ in range(rest):
        await passed(world)
    before = len(world.evicted)
    for _ in range(rest):
        await passed(world)
    assert len(world.evicted) == before, "moves without a change of the workload"
    return world


async def passed(world: PolicyCluster) -> None:
    """Advance the clock by a minute."""
    world.policy()
    for _ in range(4):
        await world.step(15)
        assert all(world.used()[name] <= CPUS for name in world.nodes)
    at_rest = not any(raw["spec"]["nodeName"] == "" for raw in world.pods.values())
    assert not at_rest or all(world.ready(o) >= least for o, least in world.owners.items())


def check_history(world: PolicyCluster) -> None:
    """No owner is moved by two plans within the cool-down; the moves of a plan are bounded."""
    last: dict[str, tuple[int, float]] = {}
    for number, status in enumerate(world.ended):
        done = [move for move in status.moves if move.state == DONE]
        assert len(done) <= MOST_MOVES
        for move in done:
            now = parse_rfc3339(move.since) or 0.0
            plan, before = last.get(move.owner.uid, (number, now))
            assert plan == number or now - before >= COOLDOWN_S
            last[move.owner.uid] = number, now


async def test_a_policy_moves_no_pod_twice_within_its_cool_down():
    """Two hours: pods move, and all rules hold."""
    world = await policy_left_on(1, 120, 60)
    check_history(world)
    assert world.evicted


@pytest.mark.long
@pytest.mark.timeout(1800)
async def test_a_policy_is_left_on_for_ten_thousand_minutes():
    """The same for a week, then a day without changes."""
    world = await policy_left_on(2, 10_000, 720)
    check_history(world)
    print(len(world.ended), "plans,", len(world.evicted), "moves")  # the figure of the report
    assert len(world.evicted) > 50
