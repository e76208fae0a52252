"""AppGroups that are gangs, in the engine: membership, the AppGroup's status, and placements."""

from __future__ import annotations

from typing import Any

import msgspec

from scheduler.engine.effects import Bind, Call, Evict, Listed, Record
from scheduler.groups.planning.roles import heterogeneous
from scheduler.objects.groups.appgroup import GROUP_LABEL, WORKLOAD_LABEL, AppGroup
from scheduler.objects.network import REGION_LABEL, ZONE_LABEL, NetworkTopology
from tests.property.engines import build
from tests.property.making import make_node, make_pod, with_meta
from tests.property.model_api import KINDS
from tests.property.rig import Rig

ALL = (*KINDS, "AppGroup", "NetworkTopology")


def floor(*zones: str, cpu: int = 2) -> Rig:
    """Return a cluster with a node in each of these zones, with path costs of 7."""
    rig = Rig(build, ALL)
    for number, zone in enumerate(zones):
        node = make_node(f"n{number}", cpu=cpu)
        rig.api.put("Node", with_meta(node, labels={ZONE_LABEL: zone, REGION_LABEL: "r"}))
    origins = [
        {"origin": one, "costList": [{"destination": two, "networkCost": 7}]}
        for one in sorted(set(zones))
        for two in sorted(set(zones))
        if one < two
    ]
    levels = [{"topologyKey": ZONE_LABEL, "originList": origins}]
    raw = {
        "metadata": {"name": "nt-default", "namespace": "default", "uid": "nt"},
        "spec": {"weights": [{"name": "UserDefined", "topologyList": levels}]},
    }
    rig.api.put("NetworkTopology", msgspec.convert(raw, NetworkTopology))
    return rig


def describe(rig: Rig, least: int = 2, *, gang: bool = True, limit: int = 10) -> None:
    """Write an AppGroup of two workloads, the first of which depends on the second.

    Its status stays.
    """
    known = rig.api.objects["AppGroup"].get("default/shop")
    raw = {
        "metadata": {"name": "shop", "namespace": "default", "uid": "app"},
        "spec": {
            "gang": gang,
            "workloads": [
                {
                    "workload": {"selector": "web"},
                    "minMembers": least,
                    "dependencies": [{"workload": {"selector": "db"}, "maxNetworkCost": limit}],
                },
                {"workload": {"selector": "db"}, "minMembers": least},
            ],
        },
    }
    made = msgspec.convert(raw, AppGroup)
    if known is not None:
        made = msgspec.structs.replace(made, status=known.status)
    rig.api.put("AppGroup", made)


def add(rig: Rig, *names: str, **more: Any) -> None:
    """Add pods, whose names begin with their workloads'."""
    for name in names:
        labels = {GROUP_LABEL: "shop", WORKLOAD_LABEL: name.partition("-")[0]}
        rig.api.put("Pod", make_pod(name, labels=labels | more.pop("labels", {}), **more))


def placed(rig: Rig) -> dict[str, str]:
    """Return the nodes of the pods that have one."""
    pods = rig.api.pods.values()
    return {one.metadata.name: one.spec.node_name for one in pods if one.spec.node_name}


def reported(rig: Rig) -> tuple[str, str]:
    """Return phase and message in the AppGroup's status."""
    gang = rig.api.objects["AppGroup"]["default/shop"].status.gang
    return ("", "") if gang is None else (gang.phase, gang.message)


def reason(rig: Rig, name: str) -> str:
    """Return the message of a pod's condition."""
    found = rig.api.pods[f"default/{name}"].condition("PodScheduled")
    return "" if found is None else found.message


def test_no_member_is_planned_before_all_exist():
    """Three of four wait, with the missing number.

    With the fourth all are bound, and the AppGroup reports it once.
    """
    rig = floor("a", "a")
    describe(rig)
    add(rig, "web-0", "web-1", "db-0")
    rig.calm()
    assert not placed(rig)
    assert "the group default/shop is not complete: it needs 4 members" == reason(rig, "web-0")

    add(rig, "db-1")
    rig.calm()
    assert 4 == len(placed(rig))
    assert ("Scheduled", "") == reported(rig)
    stated = [one for one in rig.api.records if one.kind == "AppGroup"]
    assert ["Scheduled"] == [one.reason for one in stated]
    assert "bound 4 pods of the group to 2 nodes; no placement is better" == stated[0].note


def test_of_the_right_number_each_workload_needs_its_own():
    """Four pods, but three of one workload: the message names the other's lack."""
    rig = floor("a", "a")
    describe(rig)
    add(rig, "web-0", "web-1", "web-2", "db-0")
    rig.calm()
    assert not placed(rig)
    assert "its class db has 1 members, at least 2 are needed" in reason(rig, "web-0")
    assert ("Pending", reason(rig, "web-0")) == reported(rig)


def test_a_path_above_the_limit_blocks_the_gang_until_the_limit_is_raised():
    """Two nodes in two zones with a path cost of 7: with a limit of 5 no pod is placed, with 7 all
    are.
    """
    rig = floor("a", "b")
    describe(rig, limit=5)
    add(rig, "web-0", "web-1", "db-0", "db-1")
    rig.calm()
    assert not placed(rig)
    assert "network cost from web to db at most 5 cannot hold" in reason(rig, "db-0")
    assert ("Pending", reason(rig, "db-0")) == reported(rig)
    (stated,) = [one for one in rig.api.records if one.kind == "AppGroup"]
    assert ("FailedScheduling", reason(rig, "db-0")) == (stated.reason, stated.note)

    describe(rig, limit=7)
    rig.pass_time(60.0)
    rig.calm()
    assert 4 == len(placed(rig))
    assert ("Scheduled", "") == reported(rig)


def test_pods_that_wait_become_members_when_the_application_is_a_gang():
    """Only some pods of the application fit. As a gang, these wait too."""
    rig = floor("a", cpu=1)
    describe(rig, gang=False)
    add(rig, "web-0", "web-1", cpu=2)
    rig.calm()
    assert "Insufficient cpu" in reason(rig, "web-0")

    describe(rig)
    add(rig, "db-0")
    rig.calm()
    assert not placed(rig)
    assert "not complete" in reason(rig, "web-0")
    assert "not complete" in reason(rig, "db-0")
    rig.api.put("Node", make_node("n9", cpu=8))
    add(rig, "db-1")
    rig.calm()
    rig.pass_time(60.0)
    assert 4 == len(placed(rig))


def test_waiting_members_are_scheduled_alone_when_the_application_is_no_gang_any_more():
    """Waiting members are scheduled one by one if `gang` is removed or the AppGroup deleted."""
    for is_deleted in (False, True):
        rig = floor("a", "a")
        describe(rig)
        add(rig, "web-0", "db-0")
        rig.calm()
        assert not placed(rig)
        if is_deleted:
            rig.api.remove("AppGroup", "default/shop")
        else:
            describe(rig, gang=False)
        rig.calm()
        assert {"web-0", "db-0"} == placed(rig).keys()


def test_pods_that_stand_count_when_their_application_becomes_a_gang():
    """Two pods were placed one by one; the other two complete the gang."""
    rig = floor("a", "a")
    describe(rig, gang=False)
    add(rig, "web-0", "db-0")
    rig.calm()
    describe(rig)
    rig.calm()
    assert ("", "") == reported(rig)
    add(rig, "web-1", "db-1")
    rig.calm()
    assert 4 == len(placed(rig))
    assert ("Scheduled", "") == reported(rig)


def test_a_member_that_is_lost_is_replaced_where_it_costs_least():
    """Two zones have capacity: the replacement is placed beside the pods that it has traffic with,
    also one beyond the minimum.
    """
    rig = floor("a", "a", "b", cpu=3)
    describe(rig)
    add(rig, "web-0", "web-1", "db-0", "db-1")
    rig.calm()
    before = placed(rig)
    assert {"n0", "n1"} == set(before.values())
    rig.api.remove("Pod", "default/db-1")
    add(rig, "db-2", "web-2")
    rig.calm()
    assert placed(rig)["db-2"] in ("n0", "n1")
    assert placed(rig)["web-2"] in ("n0", "n1")
    assert not [one for one in rig.wire if isinstance(one, Evict)]


def test_two_groups_that_claim_a_pod_hold_it():
    """The pod has a label of a PodGroup beside that of the gang: it waits, and the condition names
    both. Without the gang it belongs to the PodGroup.
    """
    rig = floor("a", "a")
    describe(rig)
    add(rig, "web-0", labels={"scheduling.x-k8s.io/pod-group": "g"})
    rig.calm()
    assert not placed(rig)
    wanted = (
        "several groups claim the pod: label appgroup.diktyo.x-k8s.io (shop, a gang) "
        "and the group default/g"
    )
    assert wanted == reason(rig, "web-0")
    describe(rig, gang=False)
    rig.calm()
    assert "no ConfigMap or PodGroup describes the group default/g" == reason(rig, "web-0")


def test_the_message_names_the_resources_that_may_not_be_listed():
    """Without the right to list PodGroups the group may be described, and the pod's message states
    it.
    """
    rig = floor("a", "a")
    rig.handle(Listed("PodGroup", is_denied=True))
    add(rig, "web-0", labels={"scheduling.x-k8s.io/pod-group": "g"})
    rig.calm()
    text = "no ConfigMap or PodGroup describes the group default/g"
    denied = "this scheduler may not list podgroups.scheduling.x-k8s.io"
    assert f"{text}; {denied}" == reason(rig, "web-0")


def test_pods_of_another_namespace_are_no_members():
    """The label names no namespace: a gang has the pods of its own, others are placed as single
    pods.
    """
    rig = floor("a", "a")
    describe(rig)
    pod = make_pod("web-0", labels={GROUP_LABEL: "shop", WORKLOAD_LABEL: "web"})
    rig.api.put("Pod", with_meta(pod, namespace="elsewhere"))
    rig.calm()
    assert {"web-0"} == placed(rig).keys()


def test_errors_of_an_application_are_reported():
    """A dependency on an unknown workload blocks the gang; the pods' conditions and the AppGroup's
    status name the field.
    """
    rig = floor("a", "a")
    raw = {
        "metadata": {"name": "shop", "namespace": "default", "uid": "app"},
        "spec": {
            "gang": True,
            "workloads": [
                {
                    "workload": {"selector": "web"},
                    "dependencies": [{"workload": {"selector": "missing"}}],
                }
            ],
        },
    }
    rig.api.put("AppGroup", msgspec.convert(raw, AppGroup))
    add(rig, "web-0")
    rig.calm()
    wanted = 'spec.workloads[0].dependencies[0].workload: "missing" is no workload of the group'
    assert wanted in reason(rig, "web-0")
    assert "Pending" == reported(rig)[0]
    assert wanted in reported(rig)[1]


def test_others_go_for_a_gang_of_higher_priority_with_an_event_each():
    """Pods of lower priority are evicted for the members that it needs, and for no further ones."""
    rig = floor("a", "a")
    for number in range(4):
        rig.api.put("Pod", make_pod(f"low-{number}", node=f"n{number % 2}"))
    describe(rig)
    add(rig, "web-0", "web-1", "db-0", "db-1", priority=5)
    rig.watch("Node")
    rig.calm()
    rig.pass_time(60.0)
    assert {"web-0", "web-1", "db-0", "db-1"} == placed(rig).keys()
    gone = {one.name for one in rig.api.records if one.reason == "Preempted"}
    assert {f"low-{number}" for number in range(4)} == gone


def test_a_link_that_is_too_narrow_is_planned_around():
    """The cheapest placement would send 100 M over a link of 60: the next cheapest, without traffic
    over it, is taken.
    """
    rig = floor("a", "b", cpu=4)
    sizes = {"web": 2, "db": 2, "log": 1, "queue": 1}
    on = {"web": ["db", "log", "log"], "db": ["queue"]}
    entries = [
        {
            "workload": {"selector": one},
            "dependencies": [
                {"workload": {"selector": other}, "maxNetworkCost": 50}
                | ({"minBandwidth": "100M"} if other == "db" else {})
                for other in on.get(one, ())
            ],
        }
        for one in sizes
    ]
    raw = {
        "metadata": {"name": "shop", "namespace": "default", "uid": "app"},
        "spec": {"gang": True, "workloads": entries},
    }
    rig.api.put("AppGroup", msgspec.convert(raw, AppGroup))
    rig.api.put("Pod", make_pod("other", node="n1", cpu=2))
    table = rig.api.objects["NetworkTopology"]["default/nt-default"]
    text = msgspec.json.encode(table).replace(
        b'"networkCost"', b'"bandwidthCapacity":"60M","networkCost"'
    )
    rig.api.put("NetworkTopology", msgspec.json.decode(text, type=NetworkTopology))
    for name, cpu in sizes.items():
        add(rig, f"{name}-0", cpu=cpu)
    rig.calm()
    where = placed(rig)
    assert 5 == len(where)
    assert where["web-0"] == where["db-0"]


def test_a_limit_and_a_bandwidth_that_no_placement_keeps_are_named():
    """Two pods that send more than the only link takes: the one rule in conflict is reported."""
    rig = floor("a", "b", cpu=1)
    on = {"workload": {"selector": "db"}, "maxNetworkCost": 50, "minBandwidth": "100M"}
    raw = {
        "metadata": {"name": "shop", "namespace": "default", "uid": "app"},
        "spec": {
            "gang": True,
            "workloads": [
                {"workload": {"selector": "web"}, "dependencies": [on]},
                {"workload": {"selector": "db"}},
            ],
        },
    }
    rig.api.put("AppGroup", msgspec.convert(raw, AppGroup))
    table = rig.api.objects["NetworkTopology"]["default/nt-default"]
    text = msgspec.json.encode(table).replace(
        b'"networkCost"', b'"bandwidthCapacity":"60M","networkCost"'
    )
    rig.api.put("NetworkTopology", msgspec.json.decode(text, type=NetworkTopology))
    add(rig, "web-0", "db-0")
    rig.calm()
    assert not placed(rig)
    assert "bandwidth from web to db 100000000 bit/s cannot hold" in reason(rig, "web-0")


def test_zones_beyond_the_most_hold_a_gang(monkeypatch):
    """With too many zones paths are not counted: the gang waits, with their number in the
    message.
    """
    monkeypatch.setattr(heterogeneous, "MOST_AREAS", 1)
    rig = floor("a", "b")
    describe(rig, 1)
    add(rig, "web-0", "db-0")
    rig.calm()
    assert not placed(rig)
    assert "its nodes are in 2 zones" in reason(rig, "web-0")


def test_writes_are_about_its_own_field_alone():
    """Writes to the AppGroup name its uid and change `status.gang` only, which the operator does
    not write.
    """
    rig = floor("a", "a")
    describe(rig)
    add(rig, "web-0", "web-1", "db-0", "db-1")
    for kind in ALL:
        rig.watch(kind)
    seen: list[Any] = []
    for _ in range(20):
        seen += rig.run(50)
        while rig.wire:
            rig.perform(0)
        while rig.answers:
            rig.deliver(0)
        for kind in ALL:
            rig.watch(kind)
    calls = [one for one in seen if isinstance(one, Call)]
    assert 4 == len([one for one in seen if isinstance(one, Bind)])
    assert calls
    for one in calls:
        assert one.path.endswith("/namespaces/default/appgroups/shop/status")
        assert {"uid": "app"} == one.body["metadata"]
        assert {"gang"} == one.body["status"].keys()
    assert [one.kind for one in seen if isinstance(one, Record)].count("AppGroup") == 1
