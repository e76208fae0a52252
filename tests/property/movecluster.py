"""A cluster for MovePlans: engine, API server with budgets, ReplicaSets, and the operator.

The daemon, engine and operator, can be killed at any write, before or after the API server has
carried it out: statuses of the plan, evictions, bindings. The next one has the objects alone.
Helper process and solver are replaced by the simplest rules that make plans; all other parts are
real.
"""

from __future__ import annotations

import copy
from collections import Counter
from random import Random
from typing import Any

import msgspec

from operators.moveplan.operator import MovePlanOperator
from operators.operator import OperatorSurroundings
from operators.settings import MovePlanSettings, OperatorsSettings
from scheduler.base.clock import ManualClock
from scheduler.base.errors import ApiError
from scheduler.config import default_config
from scheduler.engine.effects import Answer, Bind, Solve, Watched
from scheduler.engine.engine import Engine
from scheduler.framework.registry import Registry
from scheduler.groups.solver.questions import answer
from scheduler.intree import IN_TREE
from scheduler.objects.groups.podgroup import PodGroup, PodGroupSpec
from scheduler.objects.meta import AnnotatedMeta
from scheduler.objects.moves.moveplan import (
    PLANNED,
    MoveOwner,
    MovePlan,
    MovePlanStatus,
    PlannedMove,
)
from scheduler.objects.moves.movewire import PLAN, MoveAnswer, MoveCheck, unpacked
from scheduler.objects.plain import read_node, read_pod
from scheduler.testing import node, pod

START = 1_800_000_000.0
CPUS = 4


class KilledError(Exception):
    """The daemon's process ends at this line."""


class Outcome(msgspec.Struct):
    """The end of a job."""

    blob: bytes
    ok: bool = True
    message: str = ""


class MoveCluster:
    """`nodes` nodes of 4 cpu; `random` chooses the faults, if there are any."""

    def __init__(self, random: Random, nodes: int = 3) -> None:
        self.random, self.clock = random, ManualClock(START)
        self.nodes = [f"n{number}" for number in range(nodes)]
        self.pods: dict[str, dict[str, Any]] = {}
        self.owners: dict[str, int] = {}  # replicas that have to be Ready
        self.gangs: dict[str, int] = {}  # owners whose pods restart together, and their sizes
        self.workloads: dict[str, dict[str, Any]] = {}  # spec and status of owners
        self.hides_workloads = False  # whether they may not be listed
        self.dying: dict[str, float] = {}
        self.plans: dict[str, dict[str, Any]] = {}
        self.version = 0
        self.evicted: list[str] = []  # by accepted evictions
        self.events: list[tuple[str, str, str]] = []  # kind, reason and note
        self.excluded: set[str] = set()
        self.kills = 0.0  # share of writes at which the daemon is killed
        self.writes = 0
        self.kill_at: tuple[int, bool] | None = None  # number of a write, whether it is carried out
        self.check = MoveCheck()
        self.is_broken = False  # whether new pods never become Ready
        self.is_rollout = False  # whether owners create no replacements
        self.custom = self
        self.name = "defragment"  # of the plan
        self.approves: tuple[str, ...] = ()
        self.start()

    # The daemon and its surroundings.

    def start(self) -> None:
        """Start engine and operator without any memory, and show them the objects."""
        registry = Registry(IN_TREE)
        self.engine = Engine(default_config(registry).profiles, registry)
        for name in self.nodes:
            self._show_node(name)
        for owner in self.gangs:
            self._show_gang(owner)
        for raw in self.pods.values():
            self._show("Pod", "ADDED", read_pod(raw))
        for name in self.plans:
            self._show_plan(name)
        self.operator = MovePlanOperator(
            OperatorSurroundings(
                self.engine.watched,
                self,  # type: ignore[arg-type]
                False,
                OperatorsSettings(move_plan=MovePlanSettings(approves=self.approves)),
                self.clock,
                lambda _: None,
                planner=self,
            )
        )

    async def run(self, kind: str, payload: bytes, limit_s: float) -> Outcome:
        """Answer as the helper process does."""
        del kind, limit_s
        question, _ = unpacked(payload)
        found = MoveAnswer(check=self.check)
        if question.what == PLAN:
            moves = tuple(one for one in self.moves() if one.owner_key not in question.cooling)
            found = MoveAnswer(status=MovePlanStatus(phase="Proposed", moves=moves))
        elif any(move.owner_key in question.cooling for move in question.moves):
            found = MoveAnswer(check=MoveCheck(stale="a pod of its owner was moved recently"))
        elif any(move.uid not in self.pods for move in question.moves):
            found = MoveAnswer(check=MoveCheck(stale="a pod is gone"))
        return Outcome(msgspec.json.encode(found))

    async def close(self) -> None:
        """End the helper process."""

    async def fetch(self, path: str) -> bytes:
        """Return an owner with its size, or an empty list: this simulation needs no others."""
        items = []
        if "fieldSelector=metadata.name%3D" in path:
            if self.hides_workloads:
                raise ApiError("forbidden", code=403)
            name = path.rpartition("%3D")[2]
            known = {"metadata": {"uid": name}}
            items = [known | self.workloads[name]] if name in self.workloads else []
        return msgspec.json.encode({"items": items})

    async def post(self, path: str, body: dict[str, Any]) -> bytes:
        """Create an event or an eviction."""
        if path.endswith("/events"):
            self.events.append((body["regarding"]["kind"], body["reason"], body["note"]))
            return b"{}"
        self._write(lambda: self._evict(path.rsplit("/", 2)[1], body))
        return b"{}"

    async def patch_cluster_custom_object_status(
        self, group: str, version: str, plural: str, name: str, body: dict[str, Any]
    ) -> dict[str, Any]:
        """Patch the status of the plan, if its version is the current one."""
        del group, version, plural
        self._write(lambda: self._patch(name, body))
        return copy.deepcopy(self.plans[name])

    def _write(self, carry: Any) -> None:
        """Carry a write out, and kill the daemon before or after it where that is due."""
        self.writes += 1
        is_due = self.kill_at is not None and self.kill_at[0] == self.writes
        is_due |= self.random.random() < self.kills
        after = self.kill_at[1] if self.kill_at else self.random.random() < 0.5
        if is_due and not after:
            raise KilledError
        carry()
        if is_due:
            raise KilledError

    def _patch(self, name: str, body: dict[str, Any]) -> None:
        plan = self.plans.get(name)
        if plan is None:
            raise ApiError("not found", code=404)
        if body["metadata"]["resourceVersion"] != plan["metadata"]["resourceVersion"]:
            raise ApiError("conflict", code=409)
        status = plan.setdefault("status", {})
        for key, value in body["status"].items():
            status[key] = value
            if value is None:
                del status[key]
        self._changed_plan(name)

    def _evict(self, name: str, body: dict[str, Any]) -> None:
        uid = body["deleteOptions"]["preconditions"]["uid"]
        raw = self.pods.get(uid)
        if raw is None or raw["metadata"]["name"] != name:
            raise ApiError("not found", code=404)
        self.evicted.append(uid)  # a pod that terminates passes, as on the API server
        if uid in self.dying:
            return
        owner = raw["metadata"]["ownerReferences"][0]["uid"]
        if self.ready(owner) - 1 < self.owners[owner]:
            self.evicted.pop()
            raise ApiError("Cannot evict pod as it would violate the pod's budget.", code=429)
        mark = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
        raw["status"] = {"conditions": [*raw["status"].get("conditions", ()), mark]}
        self.delete(uid)

    # The cluster.

    def _show(self, kind: str, verb: str, obj: Any) -> None:
        self.engine.handle(Watched(kind, verb, obj), self.clock.now())

    @property
    def plan(self) -> dict[str, Any] | None:
        """Return the plan that is named by `name`."""
        return self.plans.get(self.name)

    def put_plan(self, **spec: Any) -> None:
        """Create the plan, or change fields of its spec."""
        meta = {"name": self.name, "uid": self.name}
        new = {"metadata": meta, "spec": {"goal": {"repair": {}}}}
        self.plans.setdefault(self.name, new)["spec"] |= spec
        self._changed_plan(self.name)

    def _changed_plan(self, name: str) -> None:
        self.version += 1
        self.plans[name]["metadata"] |= {"resourceVersion": str(self.version)}
        self._show_plan(name)

    def _show_plan(self, name: str) -> None:
        found = msgspec.convert(copy.deepcopy(self.plans[name]), MovePlan)
        self._show("MovePlan", "MODIFIED", found)

    def drop_plan(self, name: str = "") -> None:
        """Delete a plan."""
        found = msgspec.convert(self.plans.pop(name or self.name), MovePlan)
        self._show("MovePlan", "DELETED", found)

    @property
    def status(self) -> MovePlanStatus:
        """Return the status of the plan."""
        return self.status_of(self.name)

    def status_of(self, name: str) -> MovePlanStatus:
        """Return the status of a plan."""
        return msgspec.convert(self.plans[name].get("status", {}), MovePlanStatus)

    def add_node(self, name: str) -> None:
        """Add a node."""
        self.nodes.append(name)
        self._show_node(name)

    def _show_node(self, name: str) -> None:
        self._show("Node", "ADDED", read_node(node(name, cpu=str(CPUS))))

    def gang(self, owner: str, cpu: int, *nodes: str) -> None:
        """Create a gang of a Job on these nodes; no budget protects it."""
        self.owners[owner], self.gangs[owner] = 0, len(nodes)
        self._show_gang(owner)
        for name in nodes:
            self.create(owner, cpu, name)

    def _show_gang(self, owner: str) -> None:
        meta = AnnotatedMeta(name=owner, namespace="default", uid=f"group-{owner}")
        self._show("PodGroup", "ADDED", PodGroup(meta, PodGroupSpec(self.gangs[owner])))

    def create(self, owner: str, cpu: int, on: str = "") -> str:
        """Create a pod of an owner; on a node it is Ready."""
        self.version += 1
        uid = f"{owner}-{self.version}"
        raw = pod(uid, requests={"cpu": str(cpu)}, node_name=on)
        kind = "Job" if owner in self.gangs else "ReplicaSet"
        raw["metadata"] |= {
            "uid": uid,
            "labels": {"scheduling.x-k8s.io/pod-group": owner} if owner in self.gangs else {},
            "ownerReferences": [{"kind": kind, "name": owner, "uid": owner, "controller": True}],
        }
        raw["spec"]["schedulerName"] = "trellis"
        if on:
            raw["status"] = {"conditions": [{"type": "Ready", "status": "True"}]}
        self.pods[uid] = raw
        self._show("Pod", "ADDED", read_pod(raw))
        return uid

    def show_pod(self, uid: str) -> None:
        """Show a pod as it is now."""
        self._show("Pod", "MODIFIED", read_pod(self.pods[uid]))

    def delete(self, uid: str) -> None:
        """Terminate a pod, which stays for a while; its ReplicaSet creates another one at once."""
        raw = self.pods[uid]
        raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        self.dying[uid] = self.clock.now() + self.random.choice((0, 3, 30))
        self._show("Pod", "MODIFIED", read_pod(raw))
        owner = raw["metadata"]["ownerReferences"][0]["uid"]
        if not self.is_rollout:
            self.create(owner, cpu_of(raw))

    def ready(self, owner: str) -> int:
        """Return the number of Ready pods of an owner that do not terminate."""
        return sum(
            bool(raw["status"].get("conditions")) and uid not in self.dying
            for uid, raw in self.pods.items()
            if raw["metadata"]["ownerReferences"][0]["uid"] == owner
        )

    def used(self) -> Counter[str]:
        """Return the requested cpu by node."""
        found: Counter[str] = Counter()
        for raw in self.pods.values():
            found[raw["spec"]["nodeName"]] += cpu_of(raw)
        return found

    def moves(self) -> tuple[PlannedMove, ...]:
        """Return moves whose destinations fit while all sources still run."""
        used = self.used()
        found: list[PlannedMove] = []
        for uid, raw in self.pods.items():
            source, cpu = raw["spec"]["nodeName"], cpu_of(raw)
            fits = [n for n in self.nodes if n != source and used[n] + cpu <= CPUS]
            if not source or uid in self.excluded or uid in self.dying or not fits:
                continue
            target = self.random.choice(fits)
            used[target] += cpu
            reference = raw["metadata"]["ownerReferences"][0]
            owner = reference["uid"]
            found.append(
                PlannedMove(
                    "default", uid, uid, source, target,
                    MoveOwner(reference["kind"], owner, owner),
                    unit=f"default/{owner}" if owner in self.gangs else "",
                    requests={"cpu": str(cpu)}, state=PLANNED,
                )
            )  # fmt: skip
        planned = Counter(move.unit for move in found)
        whole = {f"default/{owner}" for owner, size in self.gangs.items()}
        whole = {unit for unit in whole if planned[unit] == self.gangs[unit.partition("/")[2]]}
        single = [move for move in found if not move.unit]
        return (*single[:3], *(move for move in found if move.unit in whole))

    # Time.

    async def step(self, seconds: float = 5.0) -> None:
        """Run one step of the daemon and of the cluster; a killed daemon starts again."""
        try:
            await self.operator.look()
            self.turn(seconds)
        except KilledError:
            self.start()

    def turn(self, seconds: float) -> None:
        """Advance the time: pods end, are bound and become Ready."""
        self.clock.advance(seconds)
        for uid, end in list(self.dying.items()):
            if self.clock.now() >= end:
                del self.dying[uid]
                self._show("Pod", "DELETED", read_pod(self.pods.pop(uid)))
        for raw in self.pods.values():
            is_new = raw["spec"]["nodeName"] and not raw["status"].get("conditions")
            if is_new and not self.is_broken:
                raw["status"] = {"conditions": [{"type": "Ready", "status": "True"}]}
                self._show("Pod", "MODIFIED", read_pod(raw))
        effects = self.engine.run(self.clock.now(), 64)
        for solve in [one for one in effects if isinstance(one, Solve)]:
            found = Answer(solve.id, 200, body=answer(solve.instance))
            self.engine.handle(found, self.clock.now())
            effects += self.engine.run(self.clock.now(), 64)
        for effect in effects:
            if isinstance(effect, Bind) and effect.uid in self.pods:
                self._write(lambda one=effect: self._bind(one.uid, one.node))

    def _bind(self, uid: str, on: str) -> None:
        raw = self.pods[uid]
        raw["spec"]["nodeName"] = on
        self._show("Pod", "MODIFIED", read_pod(raw))


def cpu_of(raw: dict[str, Any]) -> int:
    """Return the requested cpu of a pod."""
    return int(raw["spec"]["containers"][0]["resources"]["requests"]["cpu"])
