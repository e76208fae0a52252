"""Devices: valid publications, requests and allocations, with a real server's messages."""

from typing import Any

import pytest

from tests.apiserver.api import MERGE_PATCH, Api
from tests.apiserver.test_rights import grant, robot, turned

DRIVER = "gpu.example.com"


def claim(*requests: dict[str, Any], name: str = "c", **devices: Any) -> dict[str, Any]:
    """Return a claim of these requests."""
    return {
        "metadata": {"name": name},
        "spec": {"devices": {"requests": list(requests), **devices}},
    }


def exactly(name: str = "r", **more: Any) -> dict[str, Any]:
    """Return a request for one device of a class."""
    return {"name": name, "exactly": {"deviceClassName": "gpu", **more}}


def chosen(expression: str) -> dict[str, Any]:
    """Return a request with a selector."""
    return exactly(selectors=[{"cel": {"expression": expression}}])


def published(api: Api, *devices: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """Return a slice of a node's devices."""
    pool = {"name": "node-1", "generation": 1, "resourceSliceCount": 1}
    whole = {"driver": DRIVER, "nodeName": "node-1", "pool": pool, "devices": list(devices)}
    whole = {name: value for name, value in (whole | spec).items() if value is not None}
    return {"metadata": {"name": f"slice-{api.mark}"}, "spec": whole}


CLAIMS = {
    "no kind of request": claim({"name": "r"}),
    "both kinds": claim({**exactly(), "firstAvailable": [{"name": "a", "deviceClassName": "gpu"}]}),
    "no class": claim(exactly(deviceClassName="")),
    "a bad class": claim(exactly(deviceClassName="GPU")),
    "a bad name": claim(exactly("R_1")),
    "a name twice": claim(exactly(), exactly()),
    "all with a count": claim(exactly(allocationMode="All", count=2)),
    "an unknown mode": claim(exactly(allocationMode="Some")),
    "no devices": claim(exactly(count=-1)),
    "no expression": claim(exactly(selectors=[{}])),
    "many alternatives": claim(
        {
            "name": "r",
            "firstAvailable": [{"name": f"a{n}", "deviceClassName": "gpu"} for n in range(9)],
        }
    ),
    "many requests": claim(*(exactly(f"r{n}") for n in range(33))),
    "a broken expression": claim(chosen("device.driver ==")),
    "an unknown field": claim(chosen("device.nope == 1")),
    "no truth": claim(chosen("device.driver")),
    "a dear expression": claim(chosen("type(device.attributes['a'].b) == int")),
    "a long expression": claim(chosen("true" + " " * 10240)),
    "a bad literal": claim(chosen("duration('x') > duration('1s')")),
    "a bad pattern": claim(chosen("device.driver.find('[') == ''")),
    "an operator": claim(exactly(tolerations=[{"operator": "Is", "key": "k"}])),
    "a value too many": claim(exactly(tolerations=[{"operator": "Exists", "value": "v"}])),
    "an effect": claim(exactly(tolerations=[{"operator": "Exists", "effect": "No"}])),
    "an empty constraint": claim(exactly(), constraints=[{}]),
    "an attribute without domain": claim(exactly(), constraints=[{"matchAttribute": "numa"}]),
    "an unknown request": claim(
        exactly(), constraints=[{"requests": ["x"], "matchAttribute": f"{DRIVER}/numa"}]
    ),
    "too long a reference": claim(
        exactly(), constraints=[{"requests": ["r/a/b"], "matchAttribute": f"{DRIVER}/numa"}]
    ),
    "a config without driver": claim(exactly(), config=[{}]),
    "a config of a list": claim(
        exactly(), config=[{"opaque": {"driver": DRIVER, "parameters": [1]}}]
    ),
}


@pytest.mark.parametrize("body", CLAIMS.values(), ids=CLAIMS)
async def test_wrong_claims_are_refused(api: Api, body: dict[str, Any]):
    """The server responds 422 with the field and the reason."""
    assert 422 == (await api.post("resourceclaims", body)).code


async def test_a_claim_is_filled_in_and_stays(api: Api):
    """Mode, count and operators are defaulted; the spec never changes."""
    request = exactly(tolerations=[{"key": "k"}])
    alternatives = {"name": "s", "firstAvailable": [{"name": "a", "deviceClassName": "gpu"}]}
    assert 201 == (await api.post("resourceclaims", claim(request, alternatives))).code
    changed = {"spec": {"devices": {"requests": [exactly(count=2)]}}}

    # The message contains the whole spec as Go prints it, which the sandbox does not reproduce.
    refused = await api.patch("resourceclaims/c", changed, MERGE_PATCH, record=False)
    assert (422, "spec") == (refused.code, refused.body["details"]["causes"][0]["field"])


async def test_a_template_is_checked_as_a_claim(api: Api):
    """The path of the field begins within the template."""
    bad = {"metadata": {"name": "t"}, "spec": {"spec": claim(chosen("1"))["spec"]}}
    good = {"metadata": {"name": "t"}, "spec": {"spec": claim(chosen("true"))["spec"]}}

    assert 422 == (await api.post("resourceclaimtemplates", bad)).code
    assert 201 == (await api.post("resourceclaimtemplates", good)).code


@pytest.mark.parametrize(
    "spec",
    [
        {"selectors": [{"cel": {"expression": "device.driver == 1"}}]},
        {"selectors": [{"cel": {"expression": "device.attributes['d'].model"}}]},
        {"extendedResourceName": "gpu"},
        {"config": [{"opaque": {"driver": "D", "parameters": {}}}]},
        {"config": [{"opaque": {"driver": "d_", "parameters": {}}}]},
    ],
)
async def test_classes_are_checked(api: Api, spec: dict[str, Any]):
    """Selectors compile, names are names."""
    body = {"metadata": {"name": f"class-{api.mark}"}, "spec": spec}

    await api.post("deviceclasses", body)


SLICES: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
    "no place": ([{"name": "d"}], {"nodeName": None}),
    "two places": ([{"name": "d"}], {"allNodes": True}),
    "nowhere": ([{"name": "d"}], {"nodeName": None, "allNodes": False}),
    "no pool": ([{"name": "d"}], {"pool": {"name": "", "resourceSliceCount": 0}}),
    "a bad pool": ([], {"pool": {"name": "a//b", "resourceSliceCount": 1, "generation": -1}}),
    "a bad driver": ([{"name": "d"}], {"driver": "Gpu_"}),
    "a bad device": ([{"name": "D"}, {"name": "x"}, {"name": "x"}], {}),
    "counters and devices": (
        [{"name": "d"}],
        {"sharedCounters": [{"name": "s", "counters": {"c": {"value": "1"}}}]},
    ),
    "an empty attribute": ([{"name": "d", "attributes": {"a": {}}}], {}),
    "a bad version": ([{"name": "d", "attributes": {"a": {"version": "1.2"}}}], {}),
    "a long value": ([{"name": "d", "attributes": {"a": {"string": "x" * 65}}}], {}),
    "bad identifiers": (
        # One attribute per device: the real server reads several in random order.
        [
            {"name": f"d{n}", "attributes": {name: {"int": 1}}}
            for n, name in enumerate(("1a", "A.b/c", "/c"))
        ],
        {},
    ),
    "many attributes": (
        [{"name": "d", "attributes": {f"a{n}": {"int": n} for n in range(33)}}],
        {},
    ),
    "a policy": (
        [{"name": "d", "capacity": {"m": {"value": "1", "requestPolicy": {"default": "1"}}}}],
        {},
    ),
    "a taint": ([{"name": "d", "taints": [{"key": "k", "effect": "Never"}]}], {}),
    "no effect": ([{"name": "d", "taints": [{"key": "k"}]}], {}),
    "no counters": ([{"name": "d", "consumesCounters": [{"counterSet": "s"}]}], {}),
    "a device elsewhere": ([{"name": "d", "allNodes": True}], {}),
    "devices of no node": ([{"name": "d"}], {"nodeName": None, "perDeviceNodeSelection": True}),
    "many devices": ([{"name": f"d{n}"} for n in range(129)], {}),
    "many with taints": (
        [{"name": f"d{n}", "taints": [{"key": "k", "effect": "NoSchedule"}]} for n in range(65)],
        {},
    ),
}


@pytest.mark.parametrize(("devices", "spec"), SLICES.values(), ids=SLICES)
async def test_wrong_slices_are_refused(
    api: Api, devices: list[dict[str, Any]], spec: dict[str, Any]
):
    """The server responds 422 with the field and the reason."""
    assert 422 == (await api.post("resourceslices", published(api, *devices, **spec))).code


async def test_a_slice_keeps_its_pool(api: Api):
    """Generation and devices change; node, driver and pool do not."""
    body = published(api, {"name": "d", "attributes": {"a": {"version": "1.2.3-rc.1"}}})
    where = f"resourceslices/slice-{api.mark}"
    assert 201 == (await api.post("resourceslices", body)).code
    newer = {"spec": {"pool": {"generation": 2}, "devices": [{"name": "e"}]}}
    assert 200 == (await api.patch(where, newer, MERGE_PATCH)).code
    moved = {"spec": {"nodeName": "node-2"}}
    assert 422 == (await api.patch(where, moved, MERGE_PATCH)).code
    renamed = {"spec": {"pool": {"name": "other"}}}
    assert 422 == (await api.patch(where, renamed, MERGE_PATCH)).code
    assert 200 == (await api.delete(where)).code


ALLOCATION = {
    "devices": {
        "results": [{"request": "r", "driver": DRIVER, "pool": "node-1", "device": "gpu-0"}]
    }
}
USER = {"resource": "pods", "name": "p", "uid": "00000000-0000-0000-0000-000000000001"}


async def test_an_allocation_is_written_once(api: Api):
    """An allocation is set, reserved and released; until then it is immutable."""
    await api.post("resourceclaims", claim(exactly()), record=False)
    where = "resourceclaims/c/status"
    unknown = {"devices": {"results": [{**ALLOCATION["devices"]["results"][0], "request": "x"}]}}
    other = {"devices": {"results": [{**ALLOCATION["devices"]["results"][0], "device": "gpu-1"}]}}
    for status, code in (
        ({"reservedFor": [USER]}, 422),
        ({"allocation": unknown}, 422),
        ({"allocation": ALLOCATION, "reservedFor": [{"resource": "pods"}]}, 422),
        ({"allocation": ALLOCATION, "reservedFor": [USER]}, 200),
        ({"allocation": other}, 422),
        ({"reservedFor": [USER, USER]}, 422),
        ({"allocation": None, "reservedFor": None}, 200),
    ):
        # otherwise the message has Go's print of the value
        whole = status.get("allocation") is not other
        body = {"status": status}
        assert code == (await api.patch(where, body, MERGE_PATCH, record=whole)).code


async def test_binding_a_claim_needs_a_right_of_its_own(api: Api):
    """The right to write a claim's status alone does not permit an allocation."""
    headers = await robot(api)
    group = "resource.k8s.io"
    status = {
        "apiGroups": [group],
        "resources": ["resourceclaims/status"],
        "verbs": ["patch", "get"],
    }
    await api.post("resourceclaims", claim(exactly()), record=False)
    await grant(api, "ClusterRole", status)
    where = "resourceclaims/c/status"
    await turned(api, headers, where, refused=False)
    body = {"status": {"allocation": ALLOCATION}}

    refused = await api.patch(where, body, MERGE_PATCH, headers=headers)
    assert 422 == refused.code
