"""Requests of plugins are answered from memory like those to an API server."""

import pytest

from scheduler.engine.effects import Call
from scheduler.objects.kinds import BY_KIND
from scheduler.objects.plain import read_as
from scheduler.simulate.cluster.rest import Rest
from scheduler.state.cluster import Cluster

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
CLAIM = {
    "metadata": {"name": "c", "namespace": "default", "uid": "u", "resourceVersion": "4"},
    "spec": {"storageClassName": "fast", "resources": {"requests": {"storage": "1Gi"}}},
}
FAST = {
    "metadata": {"name": "fast"},
    "provisioner": "csi.example",
    "allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]}]}],
}


class Server:
    """A cluster with one claim, and requests to it."""

    def __init__(self):
        self.cluster = Cluster()
        self.rest = Rest(self.cluster)
        self.put("PersistentVolumeClaim", CLAIM)
        self.put("StorageClass", FAST)
        node = {"metadata": {"name": "n", "labels": {"zone": "b"}}}
        self.cluster.put_node(read_as(BY_KIND["Node"], node))

    def put(self, kind, raw):
        self.cluster.put_object(kind, read_as(BY_KIND[kind], raw))

    def ask(self, method, path, body=None, content_type="application/json"):
        answer, events = self.rest.call(Call(1, method, path, content_type, body))
        for event in events:
            self.cluster.put_object(event.kind, event.object)
        return answer, [(event.kind, event.verb) for event in events]

    def claim(self):
        return self.cluster.store.of("PersistentVolumeClaim")["default/c"]


def test_reading_and_putting_back():
    """A GET returns the whole object; a PUT of it with one changed field changes only this
    field.
    """
    server = Server()
    found, _ = server.ask("GET", f"{CLAIMS}/c")
    body = found.body
    body["metadata"]["annotations"] = {"volume.kubernetes.io/other": "x"}
    answer, events = server.ask("PUT", f"{CLAIMS}/c", body)

    assert (200, 200) == (found.code, answer.code)
    assert "v1" == found.body["apiVersion"]
    assert [("PersistentVolumeClaim", "MODIFIED")] == events
    assert "5" == answer.body["metadata"]["resourceVersion"]
    assert {"volume.kubernetes.io/other": "x"} == server.claim().metadata.annotations
    assert "fast" == server.claim().spec.storage_class_name


def test_writes_without_effect_and_lost_races():
    """A PUT of the same object changes nothing; a PUT with an older version is rejected."""
    server = Server()
    body = server.ask("GET", f"{CLAIMS}/c")[0].body

    assert (200, []) == (server.ask("PUT", f"{CLAIMS}/c", body)[0].code, [])
    body["metadata"]["resourceVersion"] = "3"
    assert 409 == server.ask("PUT", f"{CLAIMS}/c", body)[0].code


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("application/merge-patch+json", {"metadata": {"annotations": {"a": "1"}, "labels": None}}),
        ("application/strategic-merge-patch+json", {"metadata": {"annotations": {"a": "1"}}}),
        (
            "application/json-patch+json",
            [
                {"op": "test", "path": "/metadata/name", "value": "c"},
                {"op": "add", "path": "/metadata/annotations", "value": {"a": "1"}},
            ],
        ),
    ],
)
def test_patches(content_type, body):
    """The three kinds of patches have the same result."""
    server = Server()
    answer, _ = server.ask("PATCH", f"{CLAIMS}/c", body, content_type)

    assert 200 == answer.code
    assert {"a": "1"} == server.claim().metadata.annotations


@pytest.mark.parametrize(
    ("method", "path", "body", "code"),
    [
        ("GET", f"{CLAIMS}/other", None, 404),
        ("GET", "/apis/example.com/v1/things/x", None, 404),
        ("GET", "/nonsense", None, 404),
        ("PUT", f"{CLAIMS}/c", {"spec": 5}, 422),
        ("PATCH", f"{CLAIMS}/c", {"a": 1}, 422),
        ("POST", CLAIMS, {"metadata": {"name": "c"}}, 409),
        ("POST", CLAIMS, {"metadata": {"name": "d"}}, 200),
        ("DELETE", f"{CLAIMS}/c", None, 200),
    ],
)
def test_answers(method, path, body, code):
    """Each request has the status code of a real API server."""
    assert code == Server().ask(method, path, body)[0].code


def test_a_claim_with_a_node_gets_a_volume_there():
    """When a claim gets the annotation selected-node, the provisioner creates a volume that is
    reachable from that node, and both are bound.
    """
    server = Server()
    annotations = {"volume.kubernetes.io/selected-node": "n"}
    body = server.ask("GET", f"{CLAIMS}/c")[0].body
    body["metadata"]["annotations"] = annotations
    _, events = server.ask("PUT", f"{CLAIMS}/c", body)
    (volume,) = server.cluster.store.of("PersistentVolume").values()
    (term,) = volume.spec.node_affinity.required.node_selector_terms

    assert 4 == len(events)
    assert "yes" == server.claim().metadata.annotations["pv.kubernetes.io/bind-completed"]
    assert volume.metadata.name == server.claim().spec.volume_name
    assert ("Bound", "Bound") == (volume.status.phase, server.claim().status.phase)
    assert ("zone", ("b",)) == (term.match_expressions[0].key, term.match_expressions[0].values)
    assert ("csi.example", {"storage": "1Gi"}) == (volume.spec.csi.driver, volume.spec.capacity)
