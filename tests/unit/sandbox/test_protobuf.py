"""Protobuf bodies, as kubectl create and kube-scheduler send them."""

import pytest

from scheduler.sandbox.api.protobuf import read_protobuf
from scheduler.sandbox.api.status import StatusError


def varint(number: int) -> bytes:
    out = b""
    number &= (1 << 64) - 1
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def field(number: int, value: int | str | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    return b"k8s\x00" + field(1, field(1, api_version) + field(2, kind)) + field(2, raw)


def test_a_binding_is_read():
    """The body of kube-scheduler: empty strings of Go's zero values are dropped."""
    meta = field(1, "p") + field(2, "") + field(3, "default") + field(5, "u1")
    target = field(1, "Node") + field(2, "") + field(3, "n1")
    got = read_protobuf(envelope("v1", "Binding", field(1, meta) + field(2, target)))

    assert {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p", "namespace": "default", "uid": "u1"},
        "target": {"kind": "Node", "name": "n1"},
    } == got


def test_pointers_keep_their_zeros():
    """replicas: 0 is an explicit value, minReadySeconds: 0 is Go's zero value."""
    spec = field(1, 0) + field(5, 0)
    got = read_protobuf(envelope("apps/v1", "Deployment", field(2, spec)))

    assert {"replicas": 0} == got["spec"]


def test_inlined_structs_stand_in_their_parent():
    """A volume's source has no name of its own in JSON."""
    source = field(2, field(1, ""))
    volume = field(1, "v") + field(2, source)
    got = read_protobuf(envelope("v1", "Pod", field(2, field(1, volume))))

    assert [{"name": "v", "emptyDir": {}}] == got["spec"]["volumes"]


def test_lists_maps_and_special_types():
    """Quantities, times, int-or-string, negative numbers and label maps are decoded."""
    entry = field(1, "cpu") + field(2, field(1, "500m"))
    port = field(2, field(1, 1) + field(3, "http")) + field(1, "/")
    container = field(1, "c") + field(8, field(2, entry)) + field(10, field(1, field(2, port)))
    toleration = field(1, "k") + field(5, -1)
    meta = field(11, field(1, "a") + field(2, "b")) + field(8, field(1, 1_000_000_000))
    spec = field(2, container) + field(22, toleration)
    got = read_protobuf(envelope("v1", "Pod", field(1, meta) + field(2, spec)))
    made = got["spec"]["containers"][0]

    assert {"cpu": "500m"} == made["resources"]["requests"]
    assert "http" == made["livenessProbe"]["httpGet"]["port"]
    assert -1 == got["spec"]["tolerations"][0]["tolerationSeconds"]
    assert {"a": "b"} == got["metadata"]["labels"]
    assert "2001-09-09T01:46:40Z" == got["metadata"]["creationTimestamp"]


def test_unknown_fields_are_skipped():
    """A newer client may send more."""
    got = read_protobuf(envelope("v1", "ConfigMap", field(1, field(1, "c")) + field(999, "x")))

    assert {"name": "c"} == got["metadata"]


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b"k8s\x00\xff",
        envelope("v1", "NoSuchKind", b""),
        envelope("v1", "Pod", field(1, "x")[:-1]),
        envelope("v1", "Pod", b"\x0b"),
        envelope("v1", "Pod", b"\x08" + b"\xff" * 12),
    ],
)
def test_malformed_bodies_are_refused(body: bytes):
    """The response is 400, never a crash."""
    with pytest.raises(StatusError) as caught:
        read_protobuf(body)
    assert 400 == caught.value.code
