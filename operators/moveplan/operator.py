"""Plan MovePlans and execute the approved ones, one move at a time.

Plans and pods are those of the scheduler's own store, so the engine has a reservation in force as
soon as this operator sees it. The rules are in `deciding`; this gathers, writes and waits.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from typing import Any
from urllib.parse import quote

import msgspec
import structlog

from operators.api import CONFLICT, NOT_FOUND
from operators.cooperative import in_turns
from operators.moveplan import deciding
from operators.moveplan.deciding import (
    CalculatePlan,
    CheckMoves,
    EvictRest,
    RecordDepartures,
    Situation,
    WaitFor,
)
from operators.moveplan.departures import departure, is_owned
from operators.moveplan.owners import owner_of
from operators.moveplan.reading import cluster_pages
from operators.moveplan.status import (
    ABORTED,
    IMPOSSIBLE,
    INVALID,
    PROPOSED,
    Step,
    departed,
    events,
    merge_patch,
    moved_on,
    planned,
)
from operators.operator import OperatorSurroundings, Recipe
from scheduler.base import reasons
from scheduler.base.clock import parse_rfc3339
from scheduler.base.errors import ApiError
from scheduler.objects.kinds import MOVE_PLAN
from scheduler.objects.moves.moveplan import (
    DONE,
    EVICTED,
    EXECUTING,
    MovePlan,
    MovePlanStatus,
    PlannedMove,
    serves,
)
from scheduler.objects.moves.movewire import (
    CHECK,
    PLAN,
    MoveAnswer,
    MoveCheck,
    MoveQuestion,
    packed,
)
from scheduler.objects.pod import Pod

WHERE = MOVE_PLAN.group, MOVE_PLAN.version, MOVE_PLAN.plural
RETRY_S = 10.0
HELPER_S = 60.0  # to read the cluster, beside the time of the search
RESULTS = {
    reasons.MOVE_EVICTED: "evicted",
    reasons.MOVE_DONE: "done",
    reasons.MOVE_PLAN_ABORTED: "aborted",
}

_log = structlog.get_logger("operators.moveplan")


class MovePlanOperator:
    """Executes MovePlans; all state is in the objects, except the times before which an action is
    not repeated.
    """

    def __init__(self, around: OperatorSurroundings) -> None:
        self._around = around
        self._settings = around.settings.move_plan
        self._wake = asyncio.Event()
        self._not_before: dict[str, float] = {}
        # The version from which a plan was written last: the view may still show it.
        self._written: dict[str, str] = {}
        # Since when the current step of a plan lacks a replacement; a restart resets it.
        self._missing: dict[str, tuple[str, float]] = {}
        # By plan and uid, for pods that this process saw before their eviction: whether it evicted
        # them.
        self._sent: dict[str, dict[str, bool]] = {}
        around.meters.move_plans.read_from(self._phases)

    def seen(self, type_: str | None, raw: dict[str, Any]) -> None:
        """Do nothing: plans are read from the view."""

    async def work(self) -> None:
        """Keep the plans until cancelled."""
        stop = self._around.view.changes((MOVE_PLAN.kind, "Pod"), self._wake.set)
        self._wake.set()
        try:
            while True:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._pause_s()):
                        await self._wake.wait()
                self._wake.clear()
                await self.look()
                await asyncio.sleep(self._around.settings.status_interval_s)
        finally:
            stop()
            if self._around.planner is not None:
                await self._around.planner.close()

    async def look(self) -> None:
        """Take the next action of every plan."""
        plans = self._plans()
        self._not_before = {n: at for n, at in self._not_before.items() if n in plans}
        self._written = {n: at for n, at in self._written.items() if n in plans}
        self._missing = {n: at for n, at in self._missing.items() if n in plans}
        self._sent = {n: uids for n, uids in self._sent.items() if n in plans}
        for name, plan in plans.items():
            if self._written.get(name) != plan.metadata.resource_version:
                await self._act(plan)
        is_open = any(one.status.phase in ("", EXECUTING) for one in plans.values())
        if not is_open and self._around.planner is not None:
            await self._around.planner.close()

    def _plans(self) -> dict[str, MovePlan]:
        found: dict[str, MovePlan] = dict(self._around.view.objects(MOVE_PLAN.kind))
        return dict(sorted(found.items(), key=lambda one: _age(one[1])))

    def _pause_s(self) -> float | None:
        """Return the seconds until a plan's next action is due; None if there is none."""
        now = self._around.clock.now()
        left = [at - now for at in self._not_before.values()]
        return max(0.0, min(left)) if left else None

    async def _act(self, plan: MovePlan) -> None:
        name = plan.metadata.name
        now = self._around.clock.now()
        try:
            action = deciding.next_action(plan, await self._situation(plan))
            is_large = isinstance(action, CheckMoves | CalculatePlan | EvictRest)
            if is_large and now < self._not_before.get(name, 0.0):
                return
            self._not_before.pop(name, None)
            if isinstance(action, CheckMoves):
                action = await self._check_and_evict(plan, action.moves)
            elif isinstance(action, RecordDepartures):
                action = await self._departed(plan, action.moves)
            elif isinstance(action, EvictRest):
                action = await self._evict_all(plan, action.moves)
            elif isinstance(action, CalculatePlan):
                action = await self._calculated(plan)
            if isinstance(action, Step):
                await self._write(plan, action)
            elif isinstance(action, WaitFor) and action.until is not None:
                self._not_before[name] = action.until
        except ApiError as error:
            _log.warning("the plan waits", plan=name, error=str(error))
            self._around.report(str(error))
            self._not_before[name] = self._around.clock.now() + RETRY_S

    async def _situation(self, plan: MovePlan) -> Situation:
        step = deciding.current(plan) if plan.status.phase == EXECUTING else ()
        seen = await self._pods_of(step) if step else Situation(self._around.clock.now())
        for move in step:
            old = seen.old.get(move.uid)
            if move.state != EVICTED and old is not None and not old.is_terminating:
                self._sent.setdefault(plan.metadata.name, {}).setdefault(move.uid, False)
        missing_since = self._missing_since(plan, step, seen)
        return seen._replace(
            missing_since=missing_since,
            is_owed=await self._is_owed(step, missing_since, seen.now),
            blocked_by=self._blocked_by(plan),
            approves=self._settings.approves,
        )

    async def _is_owed(
        self, step: tuple[PlannedMove, ...], missing_since: float | None, now: float
    ) -> bool:
        """Return whether a Job will create a replacement that is late."""
        if missing_since is None or now < missing_since + deciding.REPLACEMENT_S:
            return False
        if step[0].owner.kind != "Job":
            return False
        owner = await owner_of(self._around.api, step[0])
        return owner is not None and owner.owes_pods

    def _missing_since(
        self, plan: MovePlan, step: tuple[PlannedMove, ...], seen: Situation
    ) -> float | None:
        """Return since when this step has lacked a replacement; None if it lacks none."""
        name = plan.metadata.name
        if not step or not deciding.is_missing(step, seen):
            self._missing.pop(name, None)
            return None
        if self._missing.get(name, ("", 0.0))[0] != step[0].uid:
            self._missing[name] = step[0].uid, seen.now
        return self._missing[name][1]

    async def _pods_of(self, step: tuple[PlannedMove, ...]) -> Situation:
        """Return the pods of a step, and those of their owners on both of their nodes."""
        old: dict[str, Pod] = {}
        arrived: dict[str, tuple[Pod, ...]] = {}
        siblings: dict[str, tuple[str, ...]] = {}
        moves = {move.uid: move for move in step}
        nodes = {node for move in step for node in (move.source, move.target)}
        async for handful in in_turns(list(self._around.view.pods())):
            for placed in handful:
                uid = placed.pod.metadata.uid
                if uid in moves:
                    old[uid] = placed.pod
                for move in step if placed.node in nodes else ():
                    is_near = placed.node in (move.source, move.target)
                    if not is_near or not serves(move, placed.pod):
                        continue
                    siblings[move.uid] = (*siblings.get(move.uid, ()), uid)
                    if placed.node == move.target:
                        arrived[move.uid] = (*arrived.get(move.uid, ()), placed.pod)
        return Situation(self._around.clock.now(), old, arrived, siblings)

    def _blocked_by(self, plan: MovePlan) -> str:
        """Return the plan that is executed now, or before this one; '' for none."""
        if plan.status.phase != PROPOSED:
            return ""
        others = self._plans()
        for name, other in others.items():
            if name != plan.metadata.name and other.status.phase == EXECUTING:
                return name
        starting = (
            n for n, one in others.items() if deciding.may_start(one, self._settings.approves)
        )
        first = next(starting, "")
        return "" if first == plan.metadata.name else first

    # Planning

    async def _calculated(self, plan: MovePlan) -> Step:
        for_spec = deciding.spec_hash(plan.spec)
        question = MoveQuestion(
            PLAN,
            plan.spec,
            self._around.clock.now(),
            self._settings.config,
            tuple(sorted(self._cooling(plan))),
            plan=plan.metadata.name,
        )
        found, error = await self._query_planner(question)
        status = found.status
        if error:
            status = MovePlanStatus(phase=INVALID, statement=error[:1000])
        own = deciding.plan_hash(for_spec, status.moves)
        return planned(plan, status, (for_spec, own), self._around.clock.now())

    def _cooling(self, plan: MovePlan) -> set[str]:
        """Return the owners whose pods other plans moved within the cool-down of this plan.

        A plan may have been calculated before the moves of another one, and be approved after them.
        """
        since = self._around.clock.now() - plan.spec.limits.cooldown_seconds
        return {
            move.owner_key
            for name, other in self._plans().items()
            for move in other.status.moves
            if name != plan.metadata.name and move.state in (EVICTED, DONE)
            if (parse_rfc3339(move.since) or 0.0) > since
        }

    async def _query_planner(self, question: MoveQuestion) -> tuple[MoveAnswer, str]:
        """Return the planner's result, or the reason for none; ApiError if the cluster cannot be
        read.
        """
        planner = self._around.planner
        if planner is None:
            return MoveAnswer(), "no helper process is available for plans"
        pages = await cluster_pages(self._around.api)
        payload = await asyncio.to_thread(packed, question, pages)
        limit_s = question.spec.limits.search_seconds + HELPER_S
        outcome = await planner.run("moves", payload, limit_s)
        if not outcome.ok:
            return MoveAnswer(), outcome.message.removeprefix("moves: ") or "the planner has ended"
        return msgspec.json.decode(outcome.blob, type=MoveAnswer), ""

    # Executing

    async def _check_and_evict(
        self, plan: MovePlan, step: tuple[PlannedMove, ...]
    ) -> deciding.Action:
        left = tuple(move for move in plan.status.moves if move.state != DONE)
        question = MoveQuestion(
            CHECK,
            plan.spec,
            self._around.clock.now(),
            self._settings.config,
            tuple(sorted(self._cooling(plan))),
            left,
            plan.metadata.name,
        )
        found, error = await self._query_planner(question)
        check = MoveCheck(later=f"the check failed: {error}") if error else found.check
        action = deciding.after_check(plan, check, self._around.clock.now())
        if action is not None:
            return action
        after = deciding.next_action(plan, await self._situation(plan))
        if self._plans().get(plan.metadata.name) != plan or after != CheckMoves(step):
            return WaitFor(self._around.clock.now())  # changed during the check
        return await self._evict_all(plan, step)

    async def _evict_all(self, plan: MovePlan, step: tuple[PlannedMove, ...]) -> deciding.Action:
        """Evict pods that restart together, up to the first one that is refused."""
        gone: list[PlannedMove] = []
        for move in step:
            code, message = await self._evict(move)
            if not 400 <= code < 500:  # other failures may have been carried out
                self._sent.setdefault(plan.metadata.name, {})[move.uid] = True
            if not 200 <= code < 300 and not gone:
                now = self._around.clock.now()
                return deciding.after_refusal(plan, move.pod, code, message, now)
            if not 200 <= code < 300:
                break
            gone.append(move)
        now = self._around.clock.now()
        return moved_on(plan, deciding.evicted(gone, now), now)

    async def _departed(self, plan: MovePlan, gone: tuple[PlannedMove, ...]) -> Step:
        """Return the step of pods that left before their eviction was recorded."""
        first, owned, pod = gone[0], [], None
        async for handful in in_turns(list(self._around.view.pods())):
            for placed in handful:
                if placed.pod.metadata.uid == first.uid:
                    pod = placed.pod
                elif is_owned(first, placed.pod):
                    owned.append(placed.pod)
        is_sent = self._sent.get(plan.metadata.name, {}).get(first.uid)
        why = departure(first, pod, await owner_of(self._around.api, first), owned, is_sent)
        now = self._around.clock.now()
        return departed(plan, deciding.evicted(gone, now), why, now)

    async def _evict(self, move: PlannedMove) -> tuple[int, str]:
        """Evict a pod through the Eviction API, so that budgets apply; return code and message."""
        where = f"/api/v1/namespaces/{quote(move.namespace)}/pods/{quote(move.name)}/eviction"
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": move.name, "namespace": move.namespace},
            "deleteOptions": {"preconditions": {"uid": move.uid}},
        }
        try:
            await self._around.api.post(where, body)
        except ApiError as error:
            return error.code or 0, error.message
        return 201, ""

    # Writing

    async def _write(self, plan: MovePlan, step: Step) -> None:
        """Write a status that rests on this version of the plan, then its events."""
        meta = plan.metadata
        body = {
            "metadata": {"resourceVersion": meta.resource_version},
            "status": merge_patch(plan.status, step.status),
        }
        patch = self._around.api.custom.patch_cluster_custom_object_status
        try:
            written = await patch(*WHERE, meta.name, body)
        except ApiError as error:
            if error.code not in (CONFLICT, NOT_FOUND):
                raise
            return  # changed or deleted meanwhile: the view shows it soon
        if written["metadata"]["resourceVersion"] != meta.resource_version:
            self._written[meta.name] = meta.resource_version
        if step.reason in RESULTS:
            self._around.meters.moves_done.labels(RESULTS[step.reason]).inc(len(step.moves) or 1)
        _log.info("plan of moves", plan=meta.name, reason=step.reason, message=step.message)
        for path, event in events(plan, step, self._around.clock.now()):
            with contextlib.suppress(ApiError):  # the status states the same
                await self._around.api.post(path, event)

    def _phases(self) -> dict[str, float]:
        phases = Counter(one.status.phase or "Planning" for one in self._plans().values())
        known = ("Planning", PROPOSED, EXECUTING, "Completed", ABORTED, IMPOSSIBLE, INVALID)
        return {phase: float(phases[phase]) for phase in known}


def _age(plan: MovePlan) -> tuple[str, str]:
    return plan.metadata.creation_timestamp or "", plan.metadata.name


RECIPE = Recipe("moveplan", MOVE_PLAN, MovePlanOperator, watches=False)
