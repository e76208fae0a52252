"""Reported properties of a group's placement are proven for the whole group."""

import pytest

from scheduler.groups.problem.answer import NOTHING, SolvedStage
from scheduler.groups.status.lifecycle import GroupRecord, PlacementProof, proof_of, proven
from tests.unit.plugins.groupobjects import member, tree
from tests.unit.simulate.asking import place, setup

STAGES = (SolvedStage("", "leftOut", 1, 1), SolvedStage("rack", "units", 2, 1))
WHOLE = PlacementProof(False, (1, 2), (1, 1), ("leftOut", "rack units"))


def test_a_solve_of_the_whole_group_is_kept():
    """Values, bounds and terms are kept, stage by stage."""
    assert WHOLE == PlacementProof().after("placed", STAGES, optimal=False, is_partial=False)


@pytest.mark.parametrize("outcome", ["infeasible", "unknown"])
def test_a_later_try_for_the_rest_leaves_the_proof_of_the_whole(outcome):
    """The members in place stay where they are."""
    assert WHOLE is WHOLE.after(outcome, (), optimal=True, is_partial=True)


def test_members_placed_beside_others_are_no_proof_for_the_whole():
    """Values count all members; that no better placement exists is proven for the newest alone."""
    best = tuple(SolvedStage(one.level, one.measure, one.value, one.value) for one in STAGES)
    found = WHOLE.after("placed", best, optimal=True, is_partial=True)

    assert PlacementProof(False, (1, 2), (), ("leftOut", "rack units")) == found
    assert proof_of(GroupRecord(proof=found)) is None  # not whole


def test_what_is_not_proven_has_no_number():
    """The unproven value of the solver is written nowhere, and read as unknown."""
    stages = (SolvedStage("rack", "units", 2, NOTHING),)
    found = PlacementProof().after("placed", stages, optimal=False, is_partial=False)
    text = proof_of(GroupRecord(proof=found, is_whole=True))

    assert (None,) == found.bound
    assert text is not None
    assert "-" not in text
    assert found == proven(text)
    assert (None,) == proven(f'{{"objective":[2],"bound":[{NOTHING}]}}').bound


def cluster():
    """Return nodes for four of five members, one of them in use by a pod of lower priority."""
    racks = {"r0": {"a": 2}, "r1": {"b": 2, "c": 1}}
    group = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 4}}, "priority": 50},
    }
    pods = []
    for number, cpu in enumerate((1, 1, 1, 1, 2)):
        pod = member(f"g-{number}", "")
        pod["metadata"].pop("labels", None)
        pod["spec"] |= {"priority": 50, "schedulingGroup": {"podGroupName": "g"}}
        pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": str(cpu)}}
        pods.append(pod)
    other = member("low", "", on="a")
    other["metadata"].pop("labels", None)
    other["spec"]["priority"] = 1
    return [*tree(racks), group, other, *pods]


def test_a_try_for_a_surplus_member_leaves_the_report_of_the_group():
    """An elastic group evicts for its minimum; the fifth member has no capacity and no effect."""
    done = place(*cluster())
    (report,) = done.groups

    assert ("Bound", True, ()) == (report.status, report.optimal, report.conflict)
    assert report.terms[0] == "leftOut"
    assert report.objective == report.bound
    assert report.objective[0] == 1


def test_a_group_placed_in_steps_is_not_called_optimal():
    """With a limit that ends each search early, a placement called optimal is as good as without
    limit.
    """
    best = place(*cluster()).groups[0].objective
    for limit in (0.02, 0.1, 0.5):
        report = place(*cluster(), using=setup(config=config(limit))).groups[0]
        assert not report.optimal or not report.objective or report.objective == best, limit


def config(limit):
    """Return a configuration with a time limit for the solver."""
    return f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: trellis
  plugins: {{preEnqueue: {{enabled: [{{name: ClusterTopologyPlacementGroup}}]}}}}
  pluginConfig:
  - name: ClusterTopologyPlacementGroup
    args: {{solverTimeLimitSeconds: {limit}}}
"""


@pytest.mark.parametrize("optimal", [False, True])
@pytest.mark.parametrize("is_partial", [False, True])
@pytest.mark.parametrize("before", [PlacementProof(), WHOLE])
def test_only_a_second_step_beside_placed_members_loses_the_proof(
    before: PlacementProof, is_partial: bool, optimal: bool
):
    """The first step, and any placement of the whole group, are proven as the solver says."""
    is_step = is_partial and before == WHOLE
    found = before.after("placed", STAGES, optimal=optimal, is_partial=is_partial)
    assert (optimal and not is_step, () if is_step else (1, 1)) == (found.optimal, found.bound)
    failed = before.after("unknown", (), optimal=False, is_partial=is_partial)
    assert failed == (before if is_step else PlacementProof())
