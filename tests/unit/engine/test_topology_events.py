"""The topology ConfigMap's own events: a key without effect, a rejected change."""

from __future__ import annotations

import json

from scheduler.base import reasons
from scheduler.engine.effects import Record, Solve, Watched
from scheduler.objects.configmap import ConfigMap, ConfigMapMeta
from tests.unit.engine.test_groups import Floor, bound

TREE = json.dumps({"r0": {"n0": {}, "n1": {}}, "r1": {"n2": {}, "n3": {}}})


def topology(version: int, **data: str) -> ConfigMap:
    """Return a version of the tree's ConfigMap."""
    labels = {"sakkara.topology": ""}
    meta = ConfigMapMeta(
        name="tree", namespace="default", uid="t", resource_version=str(version), labels=labels
    )
    return ConfigMap(meta, {"tree": TREE, **data})


def planned(floor: Floor) -> list[tuple[str, str, str]]:
    """Plan the waiting groups; return the events on ConfigMaps named `tree`."""
    effects = floor.run()
    for solve in [one for one in effects if isinstance(one, Solve)]:
        floor.solve(solve)
        effects += floor.run()
    return [
        (one.type, one.reason, one.note)
        for one in effects
        if isinstance(one, Record) and (one.kind, one.name) == ("ConfigMap", "tree")
    ]


def test_a_key_that_chooses_nothing_is_named_once():
    """Sakkara's trees have `resource-names`: the event states that it has no effect here."""
    floor = Floor(4, 2)
    floor.handle(
        Watched("TopologyConfigMap", "ADDED", topology(1, **{"resource-names": '["cpu"]'}))
    )
    reported = planned(floor)
    floor.another("h", 2)

    assert [("Normal", reasons.TOPOLOGY_KEY_IGNORED)] == [one[:2] for one in reported]
    assert "data.resource-names chooses nothing" in reported[0][2]
    assert "the key can go" in reported[0][2]
    assert [] == planned(floor)


def test_an_unreadable_change_is_reported_and_the_previous_tree_stays():
    """No pod waits for it, so only its own event states that the change is not in use."""
    floor = Floor(4, 2)
    floor.handle(Watched("TopologyConfigMap", "ADDED", topology(1)))
    assert [] == planned(floor)
    floor.handle(Watched("TopologyConfigMap", "MODIFIED", topology(2, tree="{")))
    floor.another("h", 2)
    reported = planned(floor)

    assert [("Warning", reasons.TOPOLOGY_NOT_USED)] == [one[:2] for one in reported]
    assert reported[0][2].startswith("data.tree is no JSON")
    assert reported[0][2].endswith("groups are placed in the tree as it was before")
    assert {"h-0", "h-1"} <= bound(floor.effects)
