"""The status of an AppGroup: counts, hosts, order, times, and conditions that name the field."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.appgroup.status import (
    LISTED_PODS,
    ObservedGroup,
    ObservedPod,
    faults,
    merge_patch,
    status_of,
)
from scheduler.objects.groups.appgroup import AppGroup, AppGroupSpec, AppGroupStatus, GangStatus
from scheduler.objects.network import Statistics

EMPTY = AppGroupStatus()


def spec(workloads, algorithm="KahnSort", **needs):
    """Return a spec from workload → its dependencies; `needs` are fields of each dependency."""
    raw = {
        "topologySortingAlgorithm": algorithm,
        "workloads": [
            {
                "workload": {"kind": "Deployment", "name": f"{label}-d", "selector": label},
                "dependencies": [{"workload": {"selector": on}, **needs} for on in others],
            }
            for label, others in workloads.items()
        ],
    }
    return msgspec.convert(raw, AppGroupSpec)


def judged(given_spec, pods=(), previous=EMPTY, now="now", **more):
    """Return the status for these pods."""
    return status_of(given_spec, ObservedGroup(1, previous, now, tuple(pods), **more))


def conditions(status):
    """Return the conditions as type → (status, reason, message)."""
    return {one.type: (one.status, one.reason, one.message) for one in status.conditions}


def test_pods_are_counted_and_listed_with_their_hosts():
    """Running ones in both counts, those with a node in the list, sorted and capped."""
    pods = [
        ObservedPod("default", f"b-{n:04}", "b", "Running" if n % 2 else "Pending", f"n{n}")
        for n in range(LISTED_PODS + 10)
    ]
    status = judged(spec({"a": ["b"], "b": []}), [*pods, ObservedPod("x", "a-0", "a", "Pending")])

    assert (255, 255) == (status.running_pods, status.running_workloads)
    assert LISTED_PODS == len(status.pods_scheduled)
    assert ("b", "b-0000", "n0") == msgspec.structs.astuple(status.pods_scheduled[0])


def test_the_times_tell_when_it_began_and_when_the_order_was_last_another():
    """Counting pods again moves neither."""
    first = judged(spec({"a": ["b"], "b": []}), now="1")
    placed = judged(spec({"a": ["b"], "b": []}), [ObservedPod("d", "p", "a", "", "n")], first, "2")
    turned = judged(spec({"b": ["a"], "a": []}), (), placed, "3")

    times = [(s.schedule_start_time, s.topology_calculation_time) for s in (first, placed, turned)]
    assert [(None, "1"), ("2", "1"), ("2", "3")] == times


def test_all_is_well_in_words():
    """The status has three conditions, each with a reason."""
    assert {"Ready": "True", "Cyclic": "False", "UnknownWorkloads": "False"} == {
        name: status for name, (status, _, _) in conditions(judged(spec({"a": []}))).items()
    }


def test_a_ring_is_named():
    """The order is that of the listing then."""
    status = judged(spec({"a": ["b"], "b": ["c"], "c": ["a"], "z": []}))

    assert "a -> b -> c -> a" in conditions(status)["Cyclic"][2]
    assert ("False", "Cyclic") == conditions(status)["Ready"][:2]
    assert ["a", "b", "c", "z"] == [entry.workload.selector for entry in status.topology_order]
    assert [1, 2, 3, 4] == [entry.index for entry in status.topology_order]


def test_unknown_workloads_and_labels_are_named():
    """A dependency on an unknown workload, pods with a misspelt label, and the operator's other
    findings.
    """
    pods = [ObservedPod("d", "p", "cart-servce"), ObservedPod("d", "q")]
    status = judged(
        spec({"front": ["elsewhere"], "cart-service": []}), pods, oddities=("pod d/r: odd label",)
    )
    state, _, message = conditions(status)["UnknownWorkloads"]

    assert "True" == state
    assert 'spec.workloads[0].dependencies[0].workload: "elsewhere"' in message
    assert "1 pod(s) name nothing as their workload" in message
    assert 'did you mean "cart-service"?' in message or "and 1 more" in message


@pytest.mark.parametrize(
    ("given_spec", "field"),
    [
        (spec({"a": []}, algorithm="KahnSrt"), "spec.topologySortingAlgorithm"),
        (spec({"a": ["a"]}, maxNetworkCost=-1), "dependencies[0].maxNetworkCost"),
        (spec({"a": ["a"]}, maxNetworkCost=10**6), "dependencies[0].maxNetworkCost"),
        (spec({"a": ["a"]}, minBandwidth="-1M"), "dependencies[0].minBandwidth"),
        (spec({"a": ["a"]}, minBandwidth="much"), "dependencies[0].minBandwidth"),
        (spec({"": []}), None),
        (spec({f"w{n}": [] for n in range(10_000)}), "spec.workloads: 10000 entries"),
    ],
)
def test_bad_input_names_its_field(given_spec, field):
    """Invalid input is reported with its field, and the status is written nevertheless."""
    status = judged(given_spec)

    if field is not None:
        assert any(field in text for text in faults(given_spec))
        assert ("False", "InvalidSpec") == conditions(status)["Ready"][:2]
    assert len(status.topology_order) <= 1000


def test_costs_stand_beside_the_order():
    """The costs are in the status where they are known."""
    cost = Statistics(min_cost=1, avg_cost=2, max_cost=3)
    status = judged(spec({"a": [], "b": []}), costs={"b": cost}, total=cost)

    assert [None, cost] == [entry.workload_statistics for entry in status.topology_order]
    assert cost == status.app_group_statistics


@given(
    st.dictionaries(st.sampled_from("abcd"), st.lists(st.sampled_from("abcde"), max_size=3)),
    st.lists(st.sampled_from("abx"), max_size=5),
    st.booleans(),
)
def test_a_second_pass_has_nothing_to_write(graph, labels, legacy):
    """The status that was written and read back needs no further change."""
    pods = [ObservedPod("d", f"p{n}", label, "Running", "n") for n, label in enumerate(labels)]
    wanted = judged(spec(graph), pods)
    patch = merge_patch(EMPTY, wanted, legacy=legacy)
    stored = msgspec.json.decode(json.dumps({"status": patch}), type=AppGroup).status
    again = judged(spec(graph), pods, stored, "later")

    assert {} == merge_patch(stored, again, legacy=legacy)


def gang(**least):
    """Return the spec of a gang by workload and the pods that it needs of each."""
    made = spec(dict.fromkeys(least, ()))
    workloads = tuple(
        msgspec.structs.replace(one, min_members=least[one.workload.label])
        for one in made.workloads
    )
    return msgspec.structs.replace(made, gang=True, workloads=workloads)


def placed(*names, namespace="default"):
    """Return pods that have nodes, whose names begin with their workloads'."""
    return [ObservedPod(namespace, name, name[0], "Running", "n0") for name in names]


def test_a_gang_says_whom_it_lacks_and_why_it_waits():
    """The condition counts the bound pods of each workload. Once the scheduler has reported a
    message, the condition has that message, and the status field keeps it.
    """
    wanted = gang(a=2, b=1)
    lacking = judged(wanted, placed("a-0"), namespace="default")
    text = '"a" has 1 of 2 pod(s) on nodes; "b" has 0 of 1 pod(s) on nodes'
    assert ("False", "Incomplete", text) == conditions(lacking)["GangScheduled"]

    waits = AppGroupStatus(gang=GangStatus("Pending", "no capacity"))
    reported = judged(wanted, placed("a-0"), waits, namespace="default")
    assert ("False", "Unschedulable", "no capacity") == conditions(reported)["GangScheduled"]
    assert waits.gang == reported.gang
    assert "gang" not in merge_patch(waits, reported)


def test_a_gang_is_scheduled_when_each_workload_has_its_own_on_nodes():
    """Pods of other namespaces do not count; the earlier message is outdated then."""
    wanted, before = gang(a=2, b=1), AppGroupStatus(gang=GangStatus("Pending", "no capacity"))
    elsewhere = placed("b-0", namespace="other")
    near = judged(wanted, [*placed("a-0", "a-1"), *elsewhere], before, namespace="default")
    assert "False" == conditions(near)["GangScheduled"][0]
    whole = judged(wanted, placed("a-0", "a-1", "b-0"), before, namespace="default")
    text = "all 3 pod(s) that it needs have nodes"
    assert ("True", "Scheduled", text) == conditions(whole)["GangScheduled"]


def test_a_plain_application_has_no_gang_status():
    """An earlier message is removed when it is no gang any more."""
    wanted = gang(a=1)
    before = judged(wanted, placed("a-0"), namespace="default")
    after = judged(msgspec.structs.replace(wanted, gang=False), placed("a-0"), before)
    assert "GangScheduled" in conditions(before)
    assert "GangScheduled" not in conditions(after)
