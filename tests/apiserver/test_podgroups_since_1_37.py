"""PodGroups of scheduling.k8s.io as Kubernetes 1.37 serves them, and Jobs' fields about them."""

from typing import Any

import pytest

from tests.apiserver.api import STRATEGIC_PATCH, Api
from tests.apiserver.manifests import container
from tests.apiserver.realcluster import LATER

RELEASE = LATER
ROOT = "/apis/scheduling.k8s.io/{version}/namespaces/{ns}/podgroups"
GANG: dict[str, Any] = {"schedulingPolicy": {"gang": {"minCount": 2}}}
REFERENCE = {"workloadName": "w", "templateName": "t"}
ACCEPTED: dict[str, dict[str, Any]] = {
    "gang": GANG,
    "basic": {"schedulingPolicy": {"basic": {}}},
    "rack": {**GANG, "schedulingConstraints": {"topology": [{"key": "example.com/rack"}]}},
    "whole": {**GANG, "disruptionMode": {"all": {}}},
    "policy": {**GANG, "preemptionPolicy": "PreemptLowerPriority"},
}
REFUSED: dict[str, dict[str, Any]] = {
    "no-policy": {},
    "both-policies": {"schedulingPolicy": {"basic": {}, "gang": {"minCount": 1}}},
    "no-number": {"schedulingPolicy": {"gang": {"minCount": 0}}},
    "two-keys": {**GANG, "schedulingConstraints": {"topology": [{"key": "a"}, {"key": "b"}]}},
    "no-key": {**GANG, "schedulingConstraints": {"topology": [{"key": ""}]}},
    "both-modes": {**GANG, "disruptionMode": {"single": {}, "all": {}}},
    "no-mode": {**GANG, "disruptionMode": {}},
    "never": {**GANG, "preemptionPolicy": "Never"},
    "text-mode": {**GANG, "disruptionMode": "PodGroup"},
}
JOBS: dict[str, dict[str, Any]] = {
    "gang": {"schedulingPolicy": {"gang": {}}, "disruptionMode": {"all": {}}},
    "number": {"schedulingPolicy": {"gang": {"minCount": 2}}},
    "too-many": {"schedulingPolicy": {"gang": {"minCount": 5}}},
    "empty": {},
}


def where(api: Api, name: str = "", version: str = "v1beta1") -> str:
    """Return the path of the groups, or of one group."""
    root = ROOT.format(version=version, ns=api.ns)
    return f"{root}/{name}" if name else root


def group(spec: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": "g"}, "spec": spec}


def stated(status: str, reason: str) -> dict[str, Any]:
    """Return the condition of a group."""
    condition = {
        "type": "PodGroupInitiallyScheduled",
        "status": status,
        "reason": reason,
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    return {"status": {"conditions": [condition]}}


@pytest.mark.parametrize("version", ["v1beta1", "v1alpha3"])
@pytest.mark.parametrize("what", ACCEPTED)
async def test_a_group_is_completed(api: Api, what: str, version: str):
    """Mode, priority and disruption mode are filled in."""
    assert 201 == (await api.post(where(api, version=version), group(ACCEPTED[what]))).code


@pytest.mark.parametrize("what", REFUSED)
async def test_an_invalid_group_is_refused(api: Api, what: str):
    """The error has the server's text."""
    assert (await api.post(where(api), group(REFUSED[what]))).code in (400, 403, 422)


async def test_only_the_number_of_a_gang_changes(api: Api):
    """Neither the policy nor any other field changes."""
    await api.post(where(api), group(GANG), record=False)
    one = where(api, "g")
    grown = await api.patch(one, {"spec": {"schedulingPolicy": {"gang": {"minCount": 3}}}})
    other = await api.patch(one, {"spec": {"schedulingPolicy": {"gang": None, "basic": {}}}})
    whole = await api.patch(one, {"spec": {"disruptionMode": {"single": None, "all": {}}}})

    assert [200, 422, 422] == [grown.code, other.code, whole.code]


async def test_conditions_are_merged_by_their_type(api: Api):
    """A condition has the type that this release uses."""
    await api.post(where(api), group(GANG), record=False)
    await api.patch(f"{where(api, 'g')}/status", stated("False", "Unschedulable"), STRATEGIC_PATCH)
    reported = await api.patch(
        f"{where(api, 'g')}/status", stated("True", "Scheduled"), STRATEGIC_PATCH
    )

    (condition,) = reported.body["status"]["conditions"]
    assert "True" == condition["status"]


async def test_a_group_with_pods_stays_when_it_is_deleted(api: Api):
    """The group is only marked: a finalizer keeps it while it has pods."""
    await api.post(where(api), group(GANG), record=False)
    spec = {"schedulingGroup": {"podGroupName": "g"}, "containers": [container()]}
    await api.post("pods", {"metadata": {"name": "p"}, "spec": spec}, record=False)
    await api.delete(where(api, "g"), record=False)
    found = await api.get(where(api, "g"), record=False)

    assert 200 == found.code
    assert "deletionTimestamp" in found.body["metadata"]


async def test_the_first_version_is_gone(api: Api):
    """The version of 1.36 is answered with 404."""
    assert 404 == (await api.get(where(api, version="v1alpha2"), record=False)).code


@pytest.mark.parametrize("what", JOBS)
async def test_what_a_job_says_of_its_group(api: Api, what: str):
    """A gang of a Job must not be larger than its parallelism."""
    template = {"spec": {"restartPolicy": "Never", "containers": [container()]}}
    spec = {"parallelism": 3, "completions": 3, "scheduling": JOBS[what], "template": template}
    made = await api.post("jobs", {"metadata": {"name": "j"}, "spec": spec})

    assert (422 if what == "too-many" else 201) == made.code
