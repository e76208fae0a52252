"""Preemptors that arrive while pods terminate: of equal nodes, the one whose victims terminate
already.
"""

import pytest

from scheduler.engine.effects import Evict
from scheduler.engine.engine import Engine
from tests.property.engines import PROFILES, REGISTRY
from tests.property.making import make_node, make_pod
from tests.property.rig import Rig


def evicted(rig: Rig) -> list[str]:
    """Return the names of the pods of the evictions on the wire."""
    return [effect.name for effect in rig.wire if isinstance(effect, Evict)]


@pytest.mark.parametrize("known_by", ["request", "confirmation", "deletion timestamp"])
@pytest.mark.parametrize("number", range(6))
def test_a_second_preemptor_prefers_victims_that_leave_already(number: int, known_by: str):
    """One eviction frees capacity for both; otherwise the tie is decided by chance."""
    rig = Rig(lambda: Engine(PROFILES, REGISTRY))
    for node in range(6):
        rig.api.put("Node", make_node(f"n{node}", cpu=4))
        rig.api.put("Pod", make_pod(f"low-{node}", cpu=3, node=f"n{node}"))
    rig.calm()
    rig.api.put("Pod", make_pod(f"first-{number}", cpu=2, priority=9))
    rig.watch("Pod")
    rig.run(1)
    (first,) = evicted(rig)
    if known_by != "request":
        while rig.wire:
            rig.perform(0)
        if known_by == "deletion timestamp":
            rig.restart()
            rig.lead(active=True)
        while rig.answers:
            rig.deliver(0)

    leaving = {n for n in range(6) if rig.engine.preemptions.is_evicting(f"uid-low-{n}")}
    # After a restart the watch shows it, by the deletion timestamp.
    assert (set() if known_by == "deletion timestamp" else {int(first[4:])}) == leaving
    rig.api.put("Pod", make_pod(f"second-{number}", cpu=2, priority=9))
    rig.watch("Pod")
    rig.run(4)
    assert set(evicted(rig)) <= {first}
    assert rig.queued(f"second-{number}") is not None
    rig.calm()
    nodes = {pod.spec.node_name for pod in rig.api.pods.values() if pod.spec.priority == 9}
    assert 1 == len(nodes)
    assert 7 == len(rig.api.pods)
