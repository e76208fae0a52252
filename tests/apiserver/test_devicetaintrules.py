"""Kinds and fields that Kubernetes 1.37 serves by default and 1.36 does not: DeviceTaintRules, a
field of CSIDrivers, and fields of pods that it knows and drops.
"""

from typing import Any

import pytest

from tests.apiserver.api import Api
from tests.apiserver.manifests import container, pod
from tests.apiserver.realcluster import LATER

RELEASE = LATER
WHERE = "/apis/resource.k8s.io/v1/devicetaintrules"
TAINT = {"key": "example.com/broken", "effect": "NoSchedule"}
ACCEPTED: dict[str, dict[str, Any]] = {
    "no-selector": {"taint": TAINT},
    "all": {"deviceSelector": {}, "taint": {**TAINT, "effect": "None", "value": "v"}},
    "one": {
        "deviceSelector": {"driver": "d.example.com", "pool": "n1/a", "device": "d0"},
        "taint": {**TAINT, "effect": "NoExecute"},
    },
    "timed": {"taint": {**TAINT, "timeAdded": "2026-01-01T00:00:00Z"}},
}
REFUSED: dict[str, dict[str, Any]] = {
    "no-effect": {"taint": {"key": "k"}},
    "another-effect": {"taint": {"key": "k", "effect": "PreferNoSchedule"}},
    "no-key": {"taint": {"effect": "NoExecute"}},
    "key": {"taint": {"key": "a b", "effect": "NoExecute"}},
    "value": {"taint": {**TAINT, "value": "v v"}},
    "driver": {"deviceSelector": {"driver": "_x"}, "taint": TAINT},
    "device": {"deviceSelector": {"device": "D_"}, "taint": TAINT},
}


def rule(api: Api, spec: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": f"r-{api.ns}"}, "spec": spec}


@pytest.mark.parametrize("what", ACCEPTED)
async def test_a_rule_is_completed(api: Api, what: str):
    """The time of the taint is filled in, and an empty status."""
    assert 201 == (await api.post(WHERE, rule(api, ACCEPTED[what]))).code


@pytest.mark.parametrize("what", REFUSED)
async def test_an_invalid_rule_is_refused(api: Api, what: str):
    """The error has the server's text."""
    assert 422 == (await api.post(WHERE, rule(api, REFUSED[what]))).code


async def test_another_effect_begins_anew(api: Api):
    """The time is set again, unless it is given; other changes keep it."""
    old = "2026-01-01T00:00:00Z"
    made = rule(api, {"taint": {**TAINT, "timeAdded": old}})
    await api.post(WHERE, made, record=False)
    one = f"{WHERE}/{made['metadata']['name']}"
    valued = await api.patch(one, {"spec": {"taint": {"value": "v"}}})
    changed = await api.patch(one, {"spec": {"taint": {"effect": "NoExecute"}}}, record=False)

    assert old == valued.body["spec"]["taint"]["timeAdded"]
    assert old != changed.body["spec"]["taint"]["timeAdded"]


@pytest.mark.parametrize("given", [None, True])
async def test_a_driver_may_keep_pods_off_nodes_without_it(api: Api, given: bool | None):
    """A driver does not keep pods off by default; Kubernetes 1.36 drops the field."""
    spec: dict[str, Any] = {} if given is None else {"preventPodSchedulingIfMissing": given}
    driver = {"metadata": {"name": f"d-{api.ns}"}, "spec": spec}
    made = await api.post("/apis/storage.k8s.io/v1/csidrivers", driver)

    assert bool(given) is made.body["spec"]["preventPodSchedulingIfMissing"]


ITEM = {"path": "f", "user": 7}
USER: dict[str, Any] = {"defaultUser": 7}
LABELS = {"fieldRef": {"fieldPath": "metadata.labels"}}
CERTIFICATE = {"signerName": "example.com/s", "keyType": "ED25519", "credentialBundlePath": "b"}
SOURCES: list[dict[str, Any]] = [
    {"serviceAccountToken": ITEM},
    {"clusterTrustBundle": {**ITEM, "path": "t", "name": "b"}},
    {"podCertificate": {**CERTIFICATE, "user": 7}},
]
GATED: dict[str, dict[str, Any]] = {
    "responders": {"evictionResponders": [{"name": "example.com/x", "priority": 1}]},
    "probes": {
        "containers": [
            container(
                livenessProbe={"httpGet": {"port": 80, "protocol": "HTTP2"}},
                readinessProbe={"grpc": {"port": 81, "mode": "TLS"}},
            )
        ]
    },
    "mounts": {
        "volumes": [{"name": "v", "emptyDir": {"mode": 448}}],
        "containers": [
            container(
                volumeMounts=[{"name": "v", "mountPath": "/v", "bindMountOptions": ["noexec"]}]
            )
        ],
    },
    "users": {
        "volumes": [
            {"name": "s", "secret": {"secretName": "s", "items": [{**ITEM, "key": "k"}], **USER}},
            {"name": "c", "configMap": {"name": "c", "items": [{**ITEM, "key": "k"}], **USER}},
            {"name": "d", "downwardAPI": {"items": [{**ITEM, **LABELS}], **USER}},
            {"name": "p", "projected": {"sources": SOURCES, **USER}},
        ]
    },
}


@pytest.mark.parametrize("fields", GATED)
async def test_fields_whose_gates_are_off_are_dropped(api: Api, fields: str):
    """A strict request with alpha fields is accepted without a warning; 1.36 does not know them."""
    template = {"metadata": {"labels": {"app": "a"}}, "spec": pod(**GATED[fields])["spec"]}
    selector = {"matchLabels": {"app": "a"}}
    body = {"metadata": {"name": "r"}, "spec": {"selector": selector, "template": template}}

    made = await api.post("pods", pod(**GATED[fields]), fieldValidation="Strict")
    sets = await api.post("replicasets", body, fieldValidation="Strict")

    assert (201, 201) == (made.code, sets.code)
    assert "Warning" not in made.headers
