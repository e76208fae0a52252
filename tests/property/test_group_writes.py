"""Each write about a group is sent once, however late the watch shows it.

Each label that a member gets is a change of its group. While a group's ConfigMap does not show the
last write yet, checks of the group must not repeat it.
"""

from collections import Counter

import pytest

from scheduler.engine.effects import Call
from scheduler.objects.configmap import GROUP_KEY, ConfigMap, ConfigMapMeta
from scheduler.objects.groups.podgroup import PodGroup, PodGroupSpec
from scheduler.objects.meta import AnnotatedMeta
from tests.property.engines import build
from tests.property.making import make_node, make_pod
from tests.property.rig import Rig

MEMBERS = 30
LATEST = ("GroupConfigMap", "Pod")


@pytest.mark.parametrize("late", LATEST)
def test_each_object_is_written_once(late: str):
    """Events arrive one by one, and those of one kind last."""
    rig = Rig(build)
    rig.api.put("Node", make_node("n0", cpu=MEMBERS))
    data = {"name": "ga", "size": str(MEMBERS), "constraints": "{}"}
    meta = ConfigMapMeta(name="ga", namespace="default", uid="ga", labels={GROUP_KEY: ""})
    rig.api.put("GroupConfigMap", ConfigMap(meta, data))
    for number in range(MEMBERS):
        labels = {"sakkara.group.name": "ga"}
        rig.api.put("Pod", make_pod(f"ga-{number}", uid=f"ga-{number}", labels=labels))
    for kind in rig.kinds:
        rig.watch(kind)
    writes = Counter[str]()
    soon = [kind for kind in rig.kinds if kind != late]
    for _ in range(20 * MEMBERS):
        for effect in rig.run():
            if isinstance(effect, Call):
                writes[effect.path] += 1
        while rig.wire:
            rig.perform(0)
        while rig.answers:
            rig.deliver(0)
        behind = [kind for kind in soon if rig.behind(kind)]
        rig.watch(behind[0] if behind else late, 1)
    rig.calm()

    assert "Bound" == rig.api.objects["GroupConfigMap"]["default/ga"].data["status"]
    assert MEMBERS + 1 == len(writes)
    assert {1} == set(writes.values())


def test_that_a_group_is_not_complete_is_written_once():
    """The members of a group arrive one by one, each changes the report, and the write is not
    visible yet.
    """
    rig = Rig(build)
    meta = AnnotatedMeta(name="gb", namespace="default", uid="gb")
    rig.api.put("PodGroup", PodGroup(meta, PodGroupSpec(MEMBERS)))
    rig.watch("PodGroup")
    writes = 0
    for number in range(MEMBERS - 1):
        labels = {"scheduling.x-k8s.io/pod-group": "gb"}
        rig.api.put("Pod", make_pod(f"gb-{number}", uid=f"gb-{number}", labels=labels))
        rig.watch("Pod")
        writes += sum(isinstance(effect, Call) for effect in rig.run())
        while rig.wire:
            rig.perform(0)
        while rig.answers:
            rig.deliver(0)

    assert "Pending" == rig.api.objects["PodGroup"]["default/gb"].status.phase
    assert 1 == writes
