"""PodGroups of scheduling.k8s.io as Kubernetes 1.36 serves them: defaults, validation, immutable
fields, and deletion.

On a server of 1.37, cases of a version that it no longer serves are skipped: their counterparts in
test_podgroups_since_1_37.py ask for its versions.
"""

from typing import Any

import pytest

from scheduler.base.release import V1_37
from scheduler.sandbox.api.server import ApiServer
from tests.apiserver.api import STRATEGIC_PATCH, Api
from tests.apiserver.manifests import container
from tests.apiserver.realcluster import RealCluster

GANG = {"schedulingPolicy": {"gang": {"minCount": 2}}}
BASIC: dict[str, Any] = {"schedulingPolicy": {"basic": {}}}
WHERE = "podgroups"
ACCEPTED: dict[str, dict[str, Any]] = {
    "gang": GANG,
    "basic": BASIC,
    "rack": {**GANG, "schedulingConstraints": {"topology": [{"key": "example.com/rack"}]}},
    "whole": {**GANG, "disruptionMode": "PodGroup"},
}
REFUSED: dict[str, dict[str, Any]] = {
    "no-policy": {},
    "both-policies": {"schedulingPolicy": {"basic": {}, "gang": {"minCount": 1}}},
    "no-number": {"schedulingPolicy": {"gang": {"minCount": 0}}},
    "two-keys": {**GANG, "schedulingConstraints": {"topology": [{"key": "a"}, {"key": "b"}]}},
    "no-key": {**GANG, "schedulingConstraints": {"topology": [{"key": ""}]}},
    "mode": {**GANG, "disruptionMode": "All"},
}


def group(spec: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": "g"}, "spec": spec}


def member() -> dict[str, Any]:
    spec = {"schedulingGroup": {"podGroupName": "g"}, "containers": [container()]}
    return {"metadata": {"name": "p"}, "spec": spec}


def stated(status: str, reason: str) -> dict[str, Any]:
    condition = {
        "type": "PodGroupScheduled",
        "status": status,
        "reason": reason,
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    return {"status": {"conditions": [condition]}}


@pytest.fixture
def serves_v1alpha2(server: ApiServer | RealCluster) -> None:
    """Skip the case on a server that does not serve v1alpha2."""
    if isinstance(server, RealCluster) and server.release >= V1_37:
        pytest.skip("Kubernetes 1.37 removed v1alpha2: test_podgroups_since_1_37.py")


@pytest.mark.usefixtures("serves_v1alpha2")
@pytest.mark.parametrize("what", ACCEPTED)
async def test_a_group_is_completed(api: Api, what: str):
    """Mode and priority are filled in, and a finalizer protects it."""
    assert 201 == (await api.post(WHERE, group(ACCEPTED[what]))).code


@pytest.mark.usefixtures("serves_v1alpha2")
@pytest.mark.parametrize("what", REFUSED)
async def test_an_invalid_group_is_refused(api: Api, what: str):
    """The response is 422 with the server's message."""
    assert 422 == (await api.post(WHERE, group(REFUSED[what]))).code


@pytest.mark.usefixtures("serves_v1alpha2")
async def test_a_groups_spec_does_not_change(api: Api):
    """Not even the required number of pods changes; conditions do, by their type."""
    await api.post(WHERE, group(GANG), record=False)
    grown = await api.patch(f"{WHERE}/g", {"spec": {"schedulingPolicy": {"gang": {"minCount": 3}}}})
    await api.patch(f"{WHERE}/g/status", stated("False", "Unschedulable"), STRATEGIC_PATCH)
    reported = await api.patch(f"{WHERE}/g/status", stated("True", "Scheduled"), STRATEGIC_PATCH)

    assert 422 == grown.code
    (condition,) = reported.body["status"]["conditions"]
    assert "True" == condition["status"]


async def test_a_pod_names_its_group(api: Api):
    """The group need not exist; a reference without a name is refused."""
    made = await api.post("pods", member(), record=False)
    nameless = member()
    nameless["metadata"]["name"] = "q"
    nameless["spec"]["schedulingGroup"] = {}

    assert {"podGroupName": "g"} == made.body["spec"]["schedulingGroup"]
    assert 422 == (await api.post("pods", nameless)).code


@pytest.mark.usefixtures("serves_v1alpha2")
async def test_a_group_with_pods_stays_when_it_is_deleted(api: Api):
    """The group is only marked: a finalizer keeps it while it has pods."""
    await api.post(WHERE, group(GANG), record=False)
    await api.post("pods", member(), record=False)
    await api.delete(f"{WHERE}/g", record=False)
    found = await api.get(f"{WHERE}/g", record=False)

    assert 200 == found.code
    assert "deletionTimestamp" in found.body["metadata"]
