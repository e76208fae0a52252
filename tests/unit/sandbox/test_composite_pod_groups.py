"""CompositePodGroups in the sandbox: valid fields, changes, and deletion."""

from typing import Any

import pytest

from scheduler.sandbox.api.status import StatusError
from scheduler.sandbox.kinds.kinds import COMPOSITE_POD_GROUPS, POD_GROUPS_1_37
from tests.unit.plugins.compositeobjects import RACK, composite, leaf
from tests.unit.sandbox.cluster import SimulatedCluster


def cluster() -> SimulatedCluster:
    return SimulatedCluster(release="1.37")


def test_omitted_fields_are_defaulted():
    """Disruption mode, priority and preemption are set; it is kept while it contains groups."""
    here = cluster()
    made = here.store.create(COMPOSITE_POD_GROUPS, composite("app", 2), "default")

    assert {"single": {}} == made.obj["spec"]["disruptionMode"]
    assert 0 == made.obj["spec"]["priority"]
    assert "PreemptLowerPriority" == made.obj["spec"]["preemptionPolicy"]
    assert ["scheduling.k8s.io/podgroup-protection"] == made.obj["metadata"]["finalizers"]


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no-policy": ({"schedulingPolicy": {}}, "must specify one of: `basic`, `gang`"),
    "both": (
        {"schedulingPolicy": {"basic": {}, "gang": {"minGroupCount": 1}}},
        "must specify exactly one of: `basic`, `gang`",
    ),
    "none": ({"schedulingPolicy": {"gang": {"minGroupCount": 0}}}, "Required value"),
    "below": (
        {"schedulingPolicy": {"gang": {"minGroupCount": -1}}},
        "must be greater than or equal to 1",
    ),
    "no-workload": ({"workloadRef": None}, "spec.workloadRef: Required value"),
    "two-keys": (
        {"schedulingConstraints": {"topology": [{"key": "a"}, {"key": "b"}]}},
        "must have at most 1 item",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_it_may_not_say(what: str):
    """The message is that of the server for PodGroups."""
    more, text = REFUSED[what]
    one = composite("app", 2)
    one["spec"] |= more
    with pytest.raises(StatusError) as refused:
        cluster().store.create(COMPOSITE_POD_GROUPS, one, "default")
    assert text in str(refused.value.status["message"])


def test_nothing_of_it_changes():
    """Neither the number of groups nor the topology key may change."""
    here = cluster()
    made = here.store.create(COMPOSITE_POD_GROUPS, composite("app", 2), "default").obj
    for more in (
        {"schedulingPolicy": {"gang": {"minGroupCount": 3}}},
        {"schedulingConstraints": {"topology": [{"key": RACK}]}},
    ):
        with pytest.raises(StatusError) as refused:
            here.store.update(COMPOSITE_POD_GROUPS, {**made, "spec": made["spec"] | more})
        assert "field is immutable" in str(refused.value.status["message"])


def test_it_goes_when_no_group_is_in_it_any_more():
    """Children first: a PodGroup without pods is deleted at once, its parent after it."""
    here = cluster()
    here.store.create(COMPOSITE_POD_GROUPS, composite("app", 1), "default")
    here.store.create(COMPOSITE_POD_GROUPS, composite("inner", 1, "app"), "default")
    here.store.create(POD_GROUPS_1_37, leaf("g", 1, "inner"), "default")
    for name in ("app", "inner"):
        here.store.delete(COMPOSITE_POD_GROUPS, "default", name)
        here.tick()
    assert 2 == len(here.store.list(COMPOSITE_POD_GROUPS))

    here.store.delete(POD_GROUPS_1_37, "default", "g")
    here.tick()
    assert [] == here.store.list(COMPOSITE_POD_GROUPS)


def test_the_release_before_does_not_serve_them():
    """CompositePodGroups were added in 1.37."""
    kinds = SimulatedCluster().store.kinds
    assert kinds.of_storage(COMPOSITE_POD_GROUPS.storage) is None
