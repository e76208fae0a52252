"""Devices in a snapshot: private values are removed, and selectors choose the same devices."""

import json

import pytest

from scheduler.cel import CelCompileError, DeviceInput, Quantity, Version, compile_selector
from scheduler.snapshot.anonymous.anonymize import Anonymizer
from scheduler.snapshot.export import exported

GROUP = "resource.k8s.io/v1"
DRIVER = "gpu.example.com"


def device(name, model, uuid):
    return {
        "name": name,
        "attributes": {
            "model": {"string": model},
            "uuid": {"string": uuid},
            "index": {"int": 1},
            "driverVersion": {"version": "1.2.3"},
            "fabric.example.com/clique": {"string": "clique-secret"},
            "tags": {"strings": ["secret-tag", model]},
        },
        "capacity": {"memory": {"value": "80Gi"}},
        "taints": [{"key": "secret.example/broken", "value": "private", "effect": "NoSchedule"}],
    }


SLICES = [
    {
        "metadata": {"name": f"slice-{node}", "uid": "u", "managedFields": []},
        "spec": {
            "driver": DRIVER,
            "nodeName": f"secret-{node}",
            "pool": {"name": f"secret-{node}", "generation": 3, "resourceSliceCount": 1},
            "devices": [device("secret-gpu-0", "h100", "u-0"), device("secret-gpu-1", "a1", "u-1")],
        },
    }
    for node in ("b", "a")
]
CLASS = {
    "metadata": {"name": "gpu.example.com"},
    "spec": {
        "selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}],
        "config": [{"opaque": {"driver": DRIVER, "parameters": {"token": "hush"}}}],
    },
}
SELECTORS = [
    f'device.attributes["{DRIVER}"].model == "h100"',
    f'device.attributes["{DRIVER}"]["model"] in ["h100", "zzz"]',
    f'device.attributes["{DRIVER}"].driverVersion.isGreaterThan(semver("1.2.0"))',
    f'device.capacity["{DRIVER}"].memory.compareTo(quantity("40Gi")) >= 0',
    '"clique" in device.attributes["fabric.example.com"]',
    'device.attributes["fabric.example.com"].clique == "clique-secret"',
    f'device.attributes["{DRIVER}"].uuid != "u-0"',
    f'device.attributes["{DRIVER}"].tags.includes("h100")',
]
CLAIM = {
    "metadata": {
        "name": "secret-claim",
        "namespace": "secret-team",
        "annotations": {"resource.kubernetes.io/pod-claim-name": "gpu", "private": "x"},
    },
    "spec": {
        "devices": {
            "requests": [
                {
                    "name": "r",
                    "exactly": {
                        "deviceClassName": "gpu.example.com",
                        "allocationMode": "ExactCount",
                        "count": 1,
                        "selectors": [{"cel": {"expression": text}} for text in SELECTORS],
                    },
                }
            ],
            "constraints": [{"requests": ["r"], "matchAttribute": f"{DRIVER}/model"}],
        }
    },
    "status": {
        "allocation": {
            "devices": {
                "results": [
                    {"request": "r", "driver": DRIVER, "pool": "secret-a", "device": "secret-gpu-1"}
                ]
            }
        },
        "reservedFor": [{"resource": "pods", "name": "secret-pod", "uid": "1"}],
    },
}


@pytest.fixture
def hidden():
    """Return all of them as in an anonymized snapshot."""
    objects = [exported("ResourceSlice", GROUP, slice_) for slice_ in SLICES]
    objects += [exported("DeviceClass", GROUP, CLASS), exported("ResourceClaim", GROUP, CLAIM)]
    table = Anonymizer()
    table.learn(objects)
    return [table.renamed(obj) for obj in objects]


def seen(slice_):
    """Return the devices of a slice as selectors see them."""
    spec = slice_["spec"]
    found = []
    for made in spec["devices"]:
        attributes = {}
        for name, value in made["attributes"].items():
            ((kind, plain),) = value.items()
            attributes[name] = Version.parse(plain) if kind == "version" else plain
        capacity = {n: Quantity.parse(v["value"]) for n, v in made["capacity"].items()}
        found.append(DeviceInput(spec["driver"], attributes, capacity))
    return found


def test_selectors_choose_the_same_devices(hidden):
    """Each selector has its former result for each device."""
    requests = hidden[3]["spec"]["devices"]["requests"]
    texts = [one["cel"]["expression"] for one in requests[0]["exactly"]["selectors"]]

    for before, after in zip(SELECTORS, texts, strict=True):
        for old, new in zip(SLICES, hidden, strict=False):
            wanted = [compile_selector(before, lists=True).evaluate(d) for d in seen(old)]
            found = [compile_selector(after, lists=True).evaluate(d) for d in seen(new)]
            assert wanted == found, after


def test_nothing_private_leaves(hidden):
    """Names of nodes, devices and teams and the values of attributes are replaced."""
    text = json.dumps(hidden)

    for word in ("secret", "hush", "h100", "u-0", "private"):
        assert word not in text


def test_what_belongs_together_stays_together(hidden):
    """Results name the pool and the device that are published; slices keep their order."""
    second, first, _class, claim = hidden
    result = claim["status"]["allocation"]["devices"]["results"][0]

    assert first["spec"]["pool"]["name"] == first["spec"]["nodeName"] == result["pool"]
    assert first["spec"]["devices"][1]["name"] == result["device"]
    assert first["metadata"]["name"] < second["metadata"]["name"]
    assert f"{DRIVER}/model" == claim["spec"]["devices"]["constraints"][0]["matchAttribute"]
    assert "gpu.example.com" == hidden[2]["metadata"]["name"]
    assert {"driver": DRIVER, "parameters": {}} == hidden[2]["spec"]["config"][0]["opaque"]


def test_a_broken_selector_stays_broken():
    """The words of its text are removed."""
    broken = {
        "metadata": {"name": "c"},
        "spec": {"selectors": [{"cel": {"expression": 'device.secret == "'}}]},
    }
    table = Anonymizer()
    obj = exported("DeviceClass", GROUP, broken)
    table.learn([obj])
    text = table.renamed(obj)["spec"]["selectors"][0]["cel"]["expression"]

    assert "secret" not in text
    with pytest.raises(CelCompileError):
        compile_selector(text)
