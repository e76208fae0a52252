"""Alpha fields of devices that an API server of 1.37 stores and schedulers meet with gates off.

kube-scheduler 1.37 and ours each decide about pods of their own, on nodes of their own with the
same devices: node and condition must be equal.
"""

from functools import partial
from typing import Any

import pytest

from scheduler.base.release import V1_37
from tests.apiserver.patience import asked
from tests.apiserver.realcluster import assets, release_of, start_cluster
from tests.real.api import Api
from tests.real.schedulers import KubeSchedulerPeer, Trellis

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

Json = dict[str, Any]
GATES = ("DRAListTypeAttributes", "DRADeviceCompatibilityGroups", "DRADerivedAttributes")
GROUP = "/apis/resource.k8s.io/v1"
CLAIMS = f"{GROUP}/namespaces/default/resourceclaims"
PODS = "/api/v1/namespaces/default/pods"
DRIVER = "gpu.example.com"
TAGS = f'device.attributes["{DRIVER}"].tags'
TWO_LISTS = [
    {"name": "g0", "attributes": {"tags": {"strings": ["a", "b"]}}},
    {"name": "g1", "attributes": {"tags": {"strings": ["c"]}}},
]
COUNTERS = [{"name": "s", "counters": {"c": {"value": "1"}}}]
USED = {"counterSet": "s", "counters": {"c": {"value": "1"}}}
DERIVED = [{"name": "example.com/x", "expression": "device.driver"}]


def selecting(selector: str) -> Json:
    """Return the devices of a claim that selects one."""
    ask = {"deviceClassName": "gpu", "selectors": [{"cel": {"expression": selector}}]}
    return {"requests": [{"name": "r", "exactly": ask}]}


def several(count: int, **constraint: str) -> Json:
    """Return the `devices` field of a claim for `count` devices with one constraint."""
    ask = {"deviceClassName": "gpu", "count": count}
    return {"requests": [{"name": "r", "exactly": ask}], "constraints": [constraint]}


# The slices of a node (fields of their specs), and what the claim of its pod requests.
CASES: dict[str, tuple[list[Json], Json]] = {
    "includes": ([{"devices": TWO_LISTS}], selecting(f'{TAGS}.includes("c")')),
    "includes-none": ([{"devices": TWO_LISTS}], selecting(f'{TAGS}.includes("d")')),
    "macro": ([{"devices": TWO_LISTS}], selecting(f'{TAGS}.exists(x, x == "b")')),
    "no-bool": ([{"devices": TWO_LISTS}], selecting(TAGS)),
    "match-one": ([{"devices": TWO_LISTS}], several(1, matchAttribute=f"{DRIVER}/tags")),
    "match-two": ([{"devices": TWO_LISTS}], several(2, matchAttribute=f"{DRIVER}/tags")),
    "distinct-two": ([{"devices": TWO_LISTS}], several(2, distinctAttribute=f"{DRIVER}/tags")),
    "groups": (
        [
            {"sharedCounters": COUNTERS},
            {
                "devices": [
                    {"name": "g0", "consumesCounters": [USED | {"compatibilityGroups": ["x"]}]},
                    {"name": "g1", "consumesCounters": [USED]},
                ]
            },
        ],
        selecting("true"),
    ),
    "groups-elsewhere": (
        [
            {"sharedCounters": COUNTERS},
            {"devices": [{"name": "g0", "consumesCounters": [USED]}]},
            {
                "devices": [
                    {"name": "g1", "consumesCounters": [USED | {"compatibilityGroups": ["x"]}]}
                ]
            },
        ],
        selecting("true"),
    ),
    "derived": (
        [{"devices": [{"name": "g0"}]}],
        {
            "requests": [
                {"name": "r", "exactly": {"deviceClassName": "gpu", "derivedAttributes": DERIVED}}
            ],
            "constraints": [{"matchAttribute": "example.com/x"}],
        },
    ),
}


async def make(api: Api, scheduler: str, case: str) -> None:
    """Create node, slices, claim and pod of a case for one scheduler."""
    slices, devices = CASES[case]
    name = f"{scheduler}-{case}"
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    meta = {"name": name, "labels": {"case": name}}
    status = {"capacity": amounts, "allocatable": amounts}
    await api.expect("POST", "/api/v1/nodes", {"metadata": meta, "status": status})
    for at, fields in enumerate(slices):
        pool = {"name": name, "generation": 1, "resourceSliceCount": len(slices)}
        spec = {"driver": DRIVER, "nodeName": name, "pool": pool, **fields}
        made = {"metadata": {"name": f"{name}-{at}"}, "spec": spec}
        await api.expect("POST", f"{GROUP}/resourceslices", made)
    made = {"metadata": {"name": name}, "spec": {"devices": devices}}
    await api.expect("POST", CLAIMS, made)
    spec = {
        "schedulerName": scheduler,
        "nodeSelector": {"case": name},
        "tolerations": [{"operator": "Exists"}],
        "containers": [{"name": "c", "image": "i"}],
        "resourceClaims": [{"name": "d", "resourceClaimName": name}],
    }
    await api.expect("POST", PODS, {"metadata": {"name": name}, "spec": spec})


async def decided(api: Api, scheduler: str, case: str) -> tuple[str, ...]:
    """Return node, reason and message of a case, without the scheduler's name."""
    name = f"{scheduler}-{case}"

    def is_decided(pod: Json) -> bool:
        return bool(pod["spec"].get("nodeName") or pod["status"].get("conditions"))

    pod = await asked(partial(api.expect, "GET", f"{PODS}/{name}"), is_decided, name)
    conditions = pod["status"].get("conditions", [{}])
    found = (pod["spec"].get("nodeName", ""), conditions[0].get("reason", ""))
    message = "" if found[0] else conditions[0].get("message", "")
    return tuple(text.replace(f"{scheduler}-", "") for text in (*found, message))


async def test_alpha_fields_with_gates_off():
    """Lists, compatibility groups and derived attributes, stored while the API server's gates are
    on.
    """
    if release_of(assets()) < V1_37:
        pytest.skip("needs kube-scheduler 1.37: set KUBEBUILDER_ASSETS to its folder")
    gates = ",".join(f"{gate}=true" for gate in GATES)
    peer, ours = KubeSchedulerPeer(), Trellis(scheduler_name="trellis")
    with start_cluster([f"--feature-gates={gates}"], name="alpha-fields") as cluster:
        async with Api(cluster) as api:
            selectors = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
            made = {"metadata": {"name": "gpu"}, "spec": {"selectors": selectors}}
            await api.expect("POST", f"{GROUP}/deviceclasses", made)
            names = [one.scheduler_name for one in (peer, ours)]
            for case in CASES:
                for name in names:
                    await make(api, name, case)
            with peer.start(cluster), ours.start(cluster):
                found = {
                    name: {case: await decided(api, name, case) for case in CASES} for name in names
                }
    expected, got = (found[name] for name in names)

    assert expected == got
    assert {"includes", "macro", "match-one"} == {case for case, (node, *_) in got.items() if node}
