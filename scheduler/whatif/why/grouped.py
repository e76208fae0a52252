"""Why a group waits: which of its rules and of what its members ask cannot hold together.

Called by `explain` when a member would fit on its own. A trial places the whole group beside all that is
placed, by the engine that has just simulated the queue, and takes it away again. Nobody is evicted for
a trial.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from scheduler.base.clock import perf_s
from scheduler.base.reasons import UNSCHEDULABLE
from scheduler.engine.effects import Watched
from scheduler.framework.groups import GroupReport, title
from scheduler.groups.description.rules import LevelConstraint
from scheduler.groups.problem.instance import SolveLimits
from scheduler.groups.sources import configmap
from scheduler.objects.configmap import ConfigMap
from scheduler.objects.pod import Pod
from scheduler.plugins.dynamicresources.podclaims import CLAIM
from scheduler.whatif.records import PodResult
from scheduler.whatif.simulate import SimulationRun
from scheduler.whatif.why.asks import PodAsk, asks_of, without_all
from scheduler.whatif.why.pending import listed
from scheduler.whatif.why.records import AskedField, SuggestedChange, Suggestion, Why
from scheduler.whatif.why.search import ChangeSearch
from scheduler.whatif.why.suggesting import changes_of
from scheduler.whatif.why.trials import PodTrial

# A trial plans the whole group. What the solver does not know after so long stays open, as does all that
# would be tried after the time for all trials: whoever asks waits for the answer.
MOST_TRIALS = 200
SOLVER_S = 0.25
ALL_TRIALS_S = 1.0
MOST_SUGGESTIONS = 5
# Numbers of a rule, and above which they bind.
NUMBERS = {"min": 0, "max": 0, "partitions": 0, "factor": 1}


class DroppedRule(msgspec.Struct, frozen=True):
    """One rule of a level that could be given up: a number, or that its type is hard."""

    level: str
    key: str
    text: str
    less: str


def why_with_group(
    alone: Why | None, member: PodResult, group: GroupReport | None, key: str, run: SimulationRun
) -> Why:
    """Return why `member` of the group `key` fares as it does after `run`, which is used up by it.

    `alone` is why it would, were it on its own.
    """
    name = title(key)
    if member.node is not None:
        size = "" if group is None else f"{group.size} pods of the "
        is_best = group is not None and group.optimal
        proof = ", and no placement of them is better" if is_best else ""
        text = f"{member.key} would go to {member.node} with the {size}group {name}{proof}"
        return Why(sentence=text)
    if member.victims:
        gone = ", ".join(f"{pod.namespace}/{pod.name}" for pod in member.victims)
        return Why(sentence=f"{member.key} waits with the group {name}, for which {gone} make room")
    why = Why(sentence=f"{member.key} waits: {member.message}")
    if member.reason != UNSCHEDULABLE:
        return why  # it was not tried
    tried = _conflict(why, GroupTrial(run, key), member, name)
    if tried is None and alone is not None:
        # What helps one pod is no help to its group.
        return replace(alone, sentence=why.sentence, suggestions=())
    return tried or why


def _conflict(why: Why, trial: GroupTrial, member: PodResult, name: str) -> Why | None:
    """Return why no placement is found for a group; None where it asks nothing that could be left out."""
    if not trial.members:
        return None
    asks = trial.asks
    until = perf_s() + ALL_TRIALS_S

    def fits(removed: frozenset[int]) -> bool | None:
        nodes = trial.placed(removed) if perf_s() < until else None
        return None if nodes is None else bool(nodes)

    found = ChangeSearch(range(len(asks)), fits, MOST_TRIALS).run()
    if not found.conflict:
        return None
    suggestions: list[Suggestion] = []
    for some in sorted(
        found.corrections, key=lambda some: sum(bool(asks[one].resource) for one in some)
    ):
        nodes_of = trial.placed(frozenset(some))
        if nodes_of and len(suggestions) < MOST_SUGGESTIONS:
            node = nodes_of.get(member.key, "")
            changes = tuple(change for one in some for change in trial.changes(one))
            less = listed([asks[one].less.replace(" its ", " their ", 1) for one in some])
            text = f"fits {less}; {member.name} goes to {node} then"
            suggestions.append(Suggestion(node, changes, text))
    conflict = tuple(AskedField(asks[one].field, asks[one].text) for one in found.conflict)
    text = (
        f"{member.key} waits: no placement of the {len(trial.members)} waiting pods of the group {name} "
        f"{listed([one.text for one in conflict])}"
    )
    if suggestions:
        text += f"; it {suggestions[0].text}"
    return replace(
        why,
        sentence=text,
        conflict=conflict,
        smallest=found.is_smallest,
        suggestions=tuple(suggestions),
    )


class GroupTrial:
    """Trials with all members of a group that wait; `asks` are those of the members and of the group."""

    def __init__(self, run: SimulationRun, key: str) -> None:
        self.run, self._now = run, run.clock.now()
        self._known: dict[frozenset[int], dict[str, str] | None] = {}
        run.world.solver_limits = SolveLimits(stage_s=SOLVER_S, total_s=SOLVER_S)
        self._object = _described(run, key)
        self.members: tuple[Pod, ...] = ()
        waiting = []
        for uid, pod in run.pending.items():
            now = run.world.pod(uid)
            if now is None or now.spec.node_name:
                continue
            if run.engine.group_of(pod) == key:
                waiting.append(pod)
            run.world.drop(uid, self._now)  # whoever waits could take the room
        self.members = tuple(waiting)
        self._claims = dict(run.engine.cluster.store.of(CLAIM))
        self.rules = () if self._object is None else tuple(_rules(self._object))
        own = self._own_asks()
        self._own = len(own)
        self.asks: tuple[PodAsk, ...] = (
            *own,
            *(
                PodAsk(f"data.constraints.{rule.level}.{rule.key}", rule.text, rule.less)
                for rule in self.rules
            ),
        )
        self.asks = tuple(replace(one, text=_phrase(one)) for one in self.asks)

    def _own_asks(self) -> tuple[PodAsk, ...]:
        """Return what the first member asks: the others are like it, or ask less of what it asks."""
        if not self.members:
            return ()
        first = self.members[0]
        return asks_of(first, PodTrial(self.run.engine, first, self._now).untolerated())

    def placed(self, removed: frozenset[int]) -> dict[str, str] | None:
        """Return where the members go if they do not ask `removed`; empty unless all find a place.

        None where the solver leaves open whether they do.
        """
        if removed not in self._known:
            self._known[removed] = self._tried(removed)
        return self._known[removed]

    def changes(self, number: int) -> list[SuggestedChange]:
        """Return what to change in order not to ask something."""
        ask = self.asks[number]
        if number < self._own:
            return [step for one in self.members for step in changes_of(ask, f"Pod {one.key}")]
        meta = self._object.metadata if self._object is not None else None
        name = "" if meta is None else f"{meta.namespace}/{meta.name}"
        return [SuggestedChange(f"ConfigMap {name}", ask.field, "remove")]

    def _tried(self, removed: frozenset[int]) -> dict[str, str] | None:
        run, engine = self.run, self.run.engine
        unasked = [self.asks[one] for one in sorted(removed) if one < self._own]
        given_up = [self.rules[one - self._own] for one in sorted(removed) if one >= self._own]
        if self._object is not None:
            changed = _without(self._object, given_up)
            engine.handle(Watched(configmap.KIND, "MODIFIED", changed), self._now)
        for pod in self.members:
            meek = replace(pod, spec=replace(pod.spec, preemption_policy="Never"))
            run.world.put(without_all(meek, unasked), self._now)
        run.fruitless, run.world.is_open = 0, False
        run.to_the_end()
        self._now = run.clock.now()
        found = [run.world.pod(pod.metadata.uid) for pod in self.members]
        nodes = {pod.key: pod.spec.node_name for pod in found if pod is not None}
        for pod in self.members:
            run.world.drop(pod.metadata.uid, self._now)
        self._free_claims()
        if self._object is not None:
            engine.handle(Watched(configmap.KIND, "MODIFIED", self._object), self._now)
        if all(nodes.values()) and len(nodes) == len(self.members):
            return nodes
        return None if run.world.is_open else {}

    def _free_claims(self) -> None:
        """Let claims be as they were: no controller frees here what a trial has allocated."""
        engine = self.run.engine
        for key, claim in list(engine.cluster.store.of(CLAIM).items()):
            before = self._claims.get(key)
            if before is None:
                engine.handle(Watched(CLAIM, "DELETED", claim), self._now)
            elif before is not claim:
                engine.handle(Watched(CLAIM, "MODIFIED", before), self._now)


def _phrase(ask: PodAsk) -> str:
    """Return what an ask says of a placement of many pods."""
    text = ask.text.replace("satisfies its", "satisfies their", 1)
    return text.replace("has ", "gives each ", 1) if ask.resource else text


def _described(run: SimulationRun, key: str) -> ConfigMap | None:
    """Return the ConfigMap that describes a group, as it was before the run wrote to it."""
    for found in run.engine.cluster.store.of(configmap.KIND).values():
        if isinstance(found, ConfigMap) and configmap.SOURCE.key(found) == key:
            return found
    return None


def _constraints(found: ConfigMap) -> dict[str, Any]:
    rules = json.loads((found.data or {}).get("constraints") or "{}")
    return rules if isinstance(rules, dict) else {}


def _rules(found: ConfigMap) -> list[DroppedRule]:
    rules = []
    for level, rule in _constraints(found).items():
        for key, least in NUMBERS.items():
            if rule.get(key, 0) > least:
                rules.append(
                    DroppedRule(
                        level,
                        key,
                        f"keeps {level} {key} {rule[key]}",
                        f"without {level} {key} {rule[key]}",
                    )
                )
        if rule.get("hard"):
            kind = rule.get("type", LevelConstraint().type)
            rules.append(
                DroppedRule(
                    level,
                    "hard",
                    f"keeps the hard {kind} of {level}",
                    f"without the hard {kind} of {level}",
                )
            )
    return rules


def _without(found: ConfigMap, given_up: Sequence[DroppedRule]) -> ConfigMap:
    rules = _constraints(found)
    for one in given_up:
        # A time stands beside a hard type only.
        gone = {one.key, "for"} if one.key == "hard" else {one.key}
        rules[one.level] = {key: v for key, v in rules[one.level].items() if key not in gone}
    return replace(found, data={**(found.data or {}), "constraints": json.dumps(rules)})
