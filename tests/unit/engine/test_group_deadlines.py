"""A hard rule with a time: it binds until then, and is a wish afterwards, whatever was
restarted.
"""

import json

import pytest
from msgspec.structs import replace

from scheduler.base.clock import rfc3339
from scheduler.base.errors import ObjectError
from scheduler.engine.effects import Evict, SetStatus, Solve, Watched
from scheduler.groups.description.deadlines import Deadline
from scheduler.groups.description.rules import constraints
from scheduler.objects.configmap import GROUP_KEY, ConfigMap, ConfigMapMeta
from tests.property.making import make_node, make_pod
from tests.unit.engine.test_groups import LABELS, NOW, Floor, bound

RULE = {"node": {"type": "pack", "hard": True, "for": "10m"}}
MEMBERS = {f"g-{number}" for number in range(6)}


def floor(*, now: float = NOW, nodes: int = 2, rule: object = RULE) -> Floor:
    """Return an engine that receives at time `now` a group of six, created at NOW."""
    made = Floor(nodes, 0)
    made.now = now
    data = {"name": "g", "size": "6", "constraints": json.dumps(rule)}
    about = ConfigMapMeta(name="g", namespace="default", uid="cm-g", labels={GROUP_KEY: ""})
    made.handle(Watched("GroupConfigMap", "MODIFIED", ConfigMap(about, data)))
    for name in sorted(MEMBERS):
        pod = make_pod(name, labels=LABELS)
        meta = replace(pod.metadata, creation_timestamp=rfc3339(NOW))
        made.handle(Watched("Pod", "ADDED", replace(pod, metadata=meta)))
    return made


def settle(one: Floor) -> list[str]:
    """Run the engine until no work is left; return the messages of conditions."""
    effects = one.run()
    done = list(effects)
    while effects:
        for solve in [effect for effect in effects if isinstance(effect, Solve)]:
            one.solve(solve)
        effects = one.run()
        done += effects
    conditions = [effect.condition for effect in done if isinstance(effect, SetStatus)]
    return [condition.message for condition in conditions if condition is not None]


def test_a_rule_holds_for_its_time_and_is_a_wish_then():
    """Six members need two nodes of four; they wait ten minutes for one, and the message has the
    end time.
    """
    here = floor()
    (reported,) = set(settle(here))
    assert not bound(here.effects)
    assert reported.endswith(
        f" Node hard pack holds until {rfc3339(NOW + 600)} (10m0s more), as a wish after that."
    )
    here.now = NOW + 599
    settle(here)
    assert not bound(here.effects)
    assert (here.engine.next_wakeup() or 0) <= NOW + 600
    here.now = NOW + 600
    settle(here)
    here.now = NOW + 620  # its back-off
    settle(here)
    assert MEMBERS == bound(here.effects)


def test_the_sentence_about_a_deadline_names_all_rules_and_at_least_a_second():
    """Rules that end together share a sentence; the time left is rounded, and never 0s."""
    for rules, verb in ((("rack hard pack",), "holds"), (("a", "b"), "hold")):
        for left_s, text in ((0.1, "1s"), (1.6, "2s"), (600.0, "10m0s")):
            sentence = Deadline(NOW + left_s, rules).text(NOW)
            assert sentence.startswith(f"{' and '.join(rules)} {verb} until ")
            assert f" ({text} more)," in sentence


def test_a_restart_changes_nothing():
    """A process that receives the group six minutes later waits for four.

    One that is too late places it at once.
    """
    here = floor(now=NOW + 360)
    (reported,) = set(settle(here))
    assert "(4m0s more)" in reported
    late = floor(now=NOW + 601)
    settle(late)
    assert MEMBERS == bound(late.effects)


def test_capacity_that_comes_in_time_is_used():
    """The rule is kept where it can be, before and after."""
    for now in (NOW, NOW + 900):
        here = floor(now=now, nodes=0)
        for name, cpu in (("small-a", 4), ("large", 8), ("small-b", 4)):
            here.handle(Watched("Node", "ADDED", make_node(name, cpu=cpu)))
        settle(here)
        binds = [effect for effect in here.effects if getattr(effect, "name", "") in MEMBERS]
        assert {"large"} == {effect.node for effect in binds if hasattr(effect, "node")}


@pytest.mark.parametrize("timed", [True, False])
def test_no_pod_is_evicted_before_the_deadline_of_a_rule(timed: bool):
    """Less important pods stay where only the rule keeps the group waiting.

    For a rule without a time they go.
    """
    here = floor(nodes=0, rule=RULE if timed else {"node": {"type": "pack", "hard": True}})
    for name in ("a", "b"):
        here.handle(Watched("Node", "ADDED", make_node(name, cpu=8)))
        low = make_pod(f"low-{name}", cpu=4, node=name, priority=-10)
        here.handle(Watched("Pod", "ADDED", low))
    settle(here)
    gone = [effect for effect in here.effects if isinstance(effect, Evict)]
    assert (0 if timed else 1) == len(gone)
    here.now = NOW + 620
    settle(here)
    assert (MEMBERS if timed else set()) == bound(here.effects)


@pytest.mark.parametrize(
    ("rule", "wrong"),
    [
        ({"hard": True, "for": "soon"}, 'a time like "10m" is needed'),
        ({"hard": True, "for": 10}, 'a time like "10m" is needed'),
        ({"hard": True, "for": "-1m"}, 'a time like "10m" is needed'),
        ({"hard": True, "for": "9000000h"}, 'a time like "10m" is needed'),
        ({"for": "10m"}, "only a hard type, without numbers, becomes a wish"),
        ({"hard": True, "max": 2, "for": "10m"}, "only a hard type, without numbers"),
    ],
)
def test_a_time_that_says_nothing_is_refused(rule: dict[str, object], wrong: str):
    """The error names the key and the needed value."""
    with pytest.raises(ObjectError, match=wrong) as found:
        constraints({"rack": rule}, "data.constraints")
    assert "data.constraints.rack.for" in str(found.value)
