"""What members of groups are promised, and who takes it back."""

from scheduler.objects.meta import AnnotatedMeta
from scheduler.objects.podgroup import PodGroup, PodGroupSpec
from tests.property.making import make_node, make_pod
from tests.property.rig import Rig
from tests.property.test_objects_alone import build

LABELS = {"scheduling.x-k8s.io/pod-group": "g"}


def test_all_members_of_a_less_important_group_give_way():
    """Their group counts as its least member; those left alone would count for more, and stay."""
    rig = Rig(build)
    rig.api.put("Node", make_node("n0", cpu=3))
    rig.api.put("Pod", make_pod("low", uid="low", cpu=3, node="n0"))
    meta = AnnotatedMeta(name="g", namespace="default", uid="g")
    rig.api.put("PodGroup", PodGroup(meta, PodGroupSpec(4)))
    for name, priority in (("a", 2), ("b", 1), ("c", 2)):
        member = make_pod(name, uid=name, priority=priority, labels=LABELS, nominated="n0")
        rig.api.put("Pod", member)
    rig.api.put("Pod", make_pod("boss", uid="boss", cpu=3, priority=2))
    for kind in rig.kinds:
        rig.watch(kind)
    assert {"a", "b", "c"} == set(rig.engine.nominations.on("n0"))

    rig.run()
    assert {"boss"} == set(rig.engine.nominations.on("n0"))
