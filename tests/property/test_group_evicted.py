"""A group that is evicted for a single pod gets an event before, and its ConfigMap has the
result.
"""

from collections.abc import Iterator

from scheduler.engine.effects import Evict, Record
from scheduler.objects.configmap import GROUP_KEY, ConfigMap, ConfigMapMeta
from tests.property.engines import build
from tests.property.making import make_node, make_pod
from tests.property.rig import Rig

MEMBERS = 3


def whole_group() -> Rig:
    """Return a cluster of one node that a group fills."""
    rig = Rig(build)
    rig.api.put("Node", make_node("n0", cpu=MEMBERS))
    data = {"name": "ga", "size": str(MEMBERS), "constraints": "{}"}
    meta = ConfigMapMeta(name="ga", namespace="default", uid="ga", labels={GROUP_KEY: ""})
    rig.api.put("GroupConfigMap", ConfigMap(meta, data))
    for number in range(MEMBERS):
        labels = {"sakkara.group.name": "ga"}
        rig.api.put("Pod", make_pod(f"ga-{number}", uid=f"ga-{number}", labels=labels))
    rig.calm()
    assert "Bound" == status(rig)
    return rig


def status(rig: Rig) -> str:
    """Return the status in the ConfigMap."""
    data = rig.api.objects["GroupConfigMap"]["default/ga"].data
    assert "preemptor" not in data
    return str(data["status"])


def evictions(rig: Rig) -> Iterator[int]:
    """Return the places of evictions on the wire."""
    return (place for place, effect in enumerate(rig.wire) if isinstance(effect, Evict))


def test_it_is_preempted():
    """All members are evicted, the event names the pod, and a new run of the group is bound
    again.
    """
    rig = whole_group()
    rig.api.put("Pod", make_pod("boss", uid="boss", priority=10))
    rig.watch("Pod")
    effects = rig.run()
    (reported,) = [e for e in effects if isinstance(e, Record) and e.reason == "GroupPreempted"]
    assert (
        "Pods of the group are evicted for the pod default/boss: ga-0, ga-1, ga-2" == reported.note
    )
    assert "ga" == reported.uid
    rig.calm()
    assert "n0" == rig.api.pods["default/boss"].spec.node_name
    assert "Preempted" == status(rig)

    rig.api.put("Node", make_node("n1", cpu=MEMBERS))
    for number in range(MEMBERS):
        labels = {"sakkara.group.name": "ga"}
        rig.api.put("Pod", make_pod(f"ga-{number}", uid=f"new-{number}", labels=labels))
    rig.calm()
    assert "Bound" == status(rig)


def test_an_eviction_that_fails_leaves_it_bound():
    """No member is evicted: whatever was written meanwhile, the group is reported as bound."""
    rig = whole_group()
    rig.api.put("Pod", make_pod("boss", uid="boss", priority=10))
    rig.watch("Pod")
    rig.run()
    refused = list(evictions(rig))
    assert MEMBERS == len(refused)
    for place in reversed(refused):
        rig.refuse(place, 403)
    rig.api.remove("Pod", "default/boss")
    rig.calm()
    assert MEMBERS == len(rig.api.placed)
    assert "Bound" == status(rig)
