"""Groups of scheduling.k8s.io, recorded from kube-scheduler 1.36.3 with its gates on, through
`simulate`.

The invariants hold in every phase; a recorded outcome has to be met where it is the only right one,
until a tie was decided differently. Where kube-scheduler leaves a feasible gang waiting, it is
placed here.
"""

import pytest

from tests.vectors.workloadinvariants import agree, compare, invariants
from tests.vectors.workloadphases import phases_of

FOLDER = "workload"
RUNNERS = {
    f"{name}.json"
    for name in ("basic", "gang", "life", "order", "preemption", "topology", "unlike")
}


def test_case(vector):
    """All invariants hold in all phases, and right outcomes of the record are met."""
    if vector.file not in RUNNERS:
        pytest.fail(f"no runner for {vector.path}")
    case, before, is_same = vector.case, None, True
    for index, seen in enumerate(phases_of(case)):
        verdict, recorded = case["verdicts"][index], case["expected"][index]
        found = invariants(case, index, seen, before)
        if is_same:
            either, floor = set(verdict["either"]), verdict["floor"]
            found |= compare(case, index, seen, recorded, either, floor=floor)
        assert not found, f"phase {index}: {found}"
        is_same = is_same and agree(case, index, seen, recorded)
        before = seen


BREAKS = {
    "gang": lambda seen: seen["pods"]["default/g-0"].update(node=None),
    "fit": lambda seen: [one.update(node="n1") for one in seen["pods"].values()],
}


@pytest.mark.parametrize("invariant", BREAKS)
def test_the_invariants_notice_what_breaks_them(root, invariant):
    """The invariants find a falsified answer."""
    from tests.vectors.frame import vectors

    (case,) = (one.case for one in vectors(root, "workload/gang.json") if "exactly" in one.id)
    (seen,) = phases_of(case)
    assert not invariants(case, 0, seen, None)
    BREAKS[invariant](seen)
    assert invariant in invariants(case, 0, seen, None)
