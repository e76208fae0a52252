"""MovePlans without approvals for a long time: the real planner, a random workload.

Whenever no plan is open, the next one is created: for a pending pod, otherwise for free nodes. A
policy with two plans keeps one of each goal open, so that one is planned while the other waits.
"""

import json
import math
from collections import Counter
from random import Random
from typing import NamedTuple

import pytest

from scheduler.base.clock import rfc3339
from scheduler.base.errors import InputError
from scheduler.cli.jobs.movejobs import run_moves
from scheduler.moves.solver import search  # noqa: F401 - loads CP-SAT before the first test
from scheduler.objects.moves.moveplan import EXECUTING
from scheduler.objects.moves.movewire import packed, unpacked
from scheduler.objects.plain import read_pod
from scheduler.testing import node
from tests.property.movecluster import CPUS, MoveCluster, Outcome

pytestmark = pytest.mark.allow_blocking("the planner reads files of the installation")
COOLDOWN_S, MIN_AGE_S, MOST_MOVES = 1800, 300, 4
LIMITS = {"maxMoves": MOST_MOVES, "cooldownSeconds": COOLDOWN_S, "minAgeSeconds": MIN_AGE_S}
ENDED = ("Completed", "Aborted", "Impossible", "Invalid")
WAITING, FREE = "waiting", "freeNodes"


class Eviction(NamedTuple):
    """An accepted eviction; `workload` counts the changes of the set of owners before it."""

    at: float
    plan: str
    owner: str
    source: str
    target: str
    workload: int


class PolicyCluster(MoveCluster):
    """A cluster whose plans are approved by configuration, and the pods that they moved.

    `most_open` plans are open at a time.
    """

    def __init__(self, random: Random, most_open: int = 1) -> None:
        super().__init__(random, nodes=6)
        self.approves = (WAITING, FREE)
        self.most_open = most_open
        self.start()
        self.made = 0  # plans
        self.workloads_seen = 0
        self.left: dict[str, int] = {}  # minutes until an owner ends
        self.sizes: dict[str, tuple[int, int]] = {}  # replicas and minutes of all owners
        self.history: list[Eviction] = []
        self._ended: dict[str, float] = {}  # when the plans ended that are kept

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

    def _evict(self, name, body):
        """Record an eviction with the plan that is executed."""
        uid, before = body["deleteOptions"]["preconditions"]["uid"], len(self.evicted)
        raw = self.pods.get(uid, {})
        super()._evict(name, body)
        assert uid not in self.evicted[:before]
        (plan,) = (one for one in self.plans if self.status_of(one).phase == EXECUTING)
        (move,) = (one for one in self.status_of(plan).moves if one.uid == uid)
        assert move.source == raw["spec"]["nodeName"]
        now, owner = self.clock.now(), owner_of(raw)
        found = Eviction(now, plan, owner, move.source, move.target, self.workloads_seen)
        self.history.append(found)

    def workload(self) -> None:
        """Create and delete owners."""
        for owner in [one for one, left in self.left.items() if left <= 0]:
            self.workloads_seen += 1
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
            self.sizes[owner] = replicas, self.left[owner] + 1
            self.workloads_seen += 1
            cpu = self.random.choice((1, 1, 2, 3))
            for _ in range(replicas):
                self.create(owner, cpu)

    def policy(self) -> None:
        """Create the next plan of each goal that may have one more."""
        now = self.clock.now()
        goals = []
        for name, raw in list(self.plans.items()):
            if self.status_of(name).phase not in ENDED:
                goals += raw["spec"]["goal"]
            elif now - self._ended.setdefault(name, now) > COOLDOWN_S:
                del self._ended[name]
                self.drop_plan(name)
        waiting = [uid for uid, raw in self.pods.items() if not raw["spec"]["nodeName"]]
        if waiting and WAITING not in goals and len(goals) < self.most_open:
            goals.append(WAITING)
            self._create(goal={WAITING: f"default/{waiting[0]}"})
        if FREE not in goals and len(goals) < self.most_open:
            self._create(goal={FREE: {"number": 2}})

    def _create(self, **spec) -> None:
        self.made += 1
        self.name = f"plan-{self.made}"
        self.put_plan(**spec, limits=LIMITS)


def owner_of(raw):
    """Return the uid of the owner of a pod."""
    return raw["metadata"]["ownerReferences"][0]["uid"]


async def policy_left_on(seed: int, minutes: int, rest: int, most_open: int = 1) -> PolicyCluster:
    """Run the policy for this many minutes, then for two rests without changes of owners.

    No pod moves in the second one.
    """
    cluster = PolicyCluster(Random(seed), most_open)
    for _ in range(minutes):
        cluster.workload()
        await passed(cluster)
    for _ in range(rest):
        await passed(cluster)
    before = len(cluster.evicted)
    for _ in range(rest):
        await passed(cluster)
    assert len(cluster.evicted) == before, "moves without a change of the workload"
    return cluster


async def passed(cluster: PolicyCluster) -> None:
    """Advance the clock by a minute."""
    cluster.policy()
    for _ in range(4):
        await cluster.step(15)
        assert all(cluster.used()[name] <= CPUS for name in cluster.nodes)
    at_rest = not any(raw["spec"]["nodeName"] == "" for raw in cluster.pods.values())
    assert not at_rest or all(cluster.ready(o) >= least for o, least in cluster.owners.items())


def check_history(cluster: PolicyCluster) -> int:
    """Check the limits that docs/howto/defragment.md states; return the bound on all moves.

    A plan has at most `maxMoves` moves. Pods of one owner are moved by at most one plan within the
    cool-down, each pod once: so r replicas that exist for t seconds are moved at most
    min(r, maxMoves) x ceil(t / cool-down) times. While the workload is unchanged, no owner returns
    to a node that another plan moved it from.
    """
    of_plan = Counter(one.plan for one in cluster.history)
    assert max(of_plan.values(), default=0) <= MOST_MOVES
    last: dict[str, Eviction] = {}
    for one in cluster.history:
        before = last.get(one.owner, one)
        assert before.plan == one.plan or one.at - before.at >= COOLDOWN_S
        last[one.owner] = one
    left = {(one.owner, one.workload, one.source): one.plan for one in cluster.history}
    for one in cluster.history:
        assert left.get((one.owner, one.workload, one.target), one.plan) == one.plan
    bounds = {
        owner: min(replicas, MOST_MOVES) * math.ceil(minutes * 60 / COOLDOWN_S)
        for owner, (replicas, minutes) in cluster.sizes.items()
    }
    moved = Counter(one.owner for one in cluster.history)
    assert all(count <= bounds[owner] for owner, count in moved.items())
    return sum(bounds.values())


async def test_a_policy_moves_no_pod_twice_within_its_cool_down():
    """One hour: pods move, and all rules hold."""
    cluster = await policy_left_on(1, 60, 30)
    check_history(cluster)
    assert cluster.evicted


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("seed", "most_open"), [(1, 1), (2, 1), (3, 2)])
async def test_a_policy_is_left_on_for_ten_thousand_minutes(seed, most_open):
    """Pods move and all rules hold for a week, and then for a day without changes."""
    cluster = await policy_left_on(seed, 10_000, 720, most_open)
    bound = check_history(cluster)
    print(cluster.made, "plans,", len(cluster.evicted), "moves of at most", bound)  # for the report
    assert len(cluster.evicted) > 50
