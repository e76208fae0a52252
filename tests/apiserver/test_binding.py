"""The binding subresource: a pod is assigned once, and only if it is the pod that was decided."""

from typing import Any

import pytest

from tests.apiserver.api import STRATEGIC_PATCH, Api
from tests.apiserver.manifests import binding, node, pod


async def test_binding_assigns_the_node(api: Api):
    """The binding sets nodeName and PodScheduled=True in one step; the response is a Status."""
    await api.post("pods", pod())
    bound = await api.post("pods/p/binding", binding("p", "n1"))
    got = await api.get("pods/p")

    assert 201 == bound.code
    assert "n1" == got.body["spec"]["nodeName"]
    assert [("PodScheduled", "True")] == [
        (c["type"], c["status"]) for c in got.body["status"]["conditions"]
    ]


async def test_binding_by_the_bindings_resource(api: Api):
    """POST to bindings does the same."""
    await api.post("pods", pod())
    bound = await api.post("bindings", binding("p", "n1"))

    assert 201 == bound.code
    assert "n1" == (await api.get("pods/p")).body["spec"]["nodeName"]


async def test_a_pod_is_bound_once(api: Api):
    """The second binding conflicts, also to the same node."""
    await api.post("pods", pod())
    await api.post("pods/p/binding", binding("p", "n1"))

    assert 409 == (await api.post("pods/p/binding", binding("p", "n2"))).code
    assert 409 == (await api.post("pods/p/binding", binding("p", "n1"))).code


async def test_binding_checks_the_uid(api: Api):
    """A successor of the same name is not bound by mistake."""
    await api.post("pods", pod())
    wrong = "11111111-1111-1111-1111-111111111111"
    refused = await api.post("pods/p/binding", binding("p", "n1", uid=wrong))

    assert 409 == refused.code
    assert "nodeName" not in (await api.get("pods/p")).body["spec"]


async def test_binding_with_the_right_uid(api: Api):
    """The uid that the scheduler saw is accepted."""
    made = await api.post("pods", pod())
    bound = await api.post("pods/p/binding", binding("p", "n1", uid=made.meta["uid"]))

    assert 201 == bound.code


async def test_binding_checks_the_version(api: Api):
    """A resourceVersion is a precondition too."""
    made = await api.post("pods", pod())
    await api.patch("pods/p", {"metadata": {"labels": {"a": "b"}}})
    old = binding("p", "n1", resourceVersion=made.meta["resourceVersion"])
    reply = await api.post("pods/p/binding", old, record=False)

    assert 409 == reply.code


async def test_binding_an_unknown_pod(api: Api):
    """The response 404 names the pod."""
    assert 404 == (await api.post("pods/none/binding", binding("none", "n1"))).code


async def test_binding_a_gated_pod(api: Api):
    """A gated pod is not bound."""
    await api.post("pods", pod(schedulingGates=[{"name": "a.b/c"}]))

    assert 409 == (await api.post("pods/p/binding", binding("p", "n1"))).code


async def test_binding_a_deleted_pod(api: Api):
    """A pod under deletion is not bound."""
    body = pod()
    body["metadata"]["finalizers"] = ["example.com/hold"]
    await api.post("pods", body)
    await api.delete("pods/p")

    assert 409 == (await api.post("pods/p/binding", binding("p", "n1"))).code


@pytest.mark.parametrize(
    "target", [{"kind": "Node"}, {"kind": "Minion", "name": "n1"}, {"kind": "Pod", "name": "x"}]
)
async def test_malformed_targets_are_refused(api: Api, target: dict[str, Any]):
    """The target is a node with a name."""
    await api.post("pods", pod())
    body = {**binding("p", "n1"), "target": target}

    # kube-apiserver: this validation error comes out as a plain 500.
    assert 500 == (await api.post("pods/p/binding", body)).code


async def test_binding_clears_the_nomination(api: Api):
    """nominatedNodeName and the refusal of an earlier attempt go."""
    await api.post("pods", pod())
    status = {
        "nominatedNodeName": "n9",
        "conditions": [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": "no",
                "observedGeneration": 1,
            }
        ],
    }
    await api.patch("pods/p/status", {"status": status}, kind=STRATEGIC_PATCH)
    await api.post("pods/p/binding", binding("p", "n1"))
    got = await api.get("pods/p")

    assert "nominatedNodeName" not in got.body["status"]


async def test_binding_copies_annotations_and_topology(api: Api):
    """Annotations of the binding and the node's zone label arrive at the pod."""
    name = api.name("n")
    await api.post_node(node(name))
    await api.post("pods", pod(labels={"app": "a"}))
    body = binding("p", name, annotations={"example.com/why": "score 7"})
    await api.post("pods/p/binding", body)
    got = await api.get("pods/p")
    await api.delete(f"nodes/{name}")

    assert {"example.com/why": "score 7"} == got.meta["annotations"]
    assert "z1" == got.meta["labels"]["topology.kubernetes.io/zone"]


async def test_binding_dry_run(api: Api):
    """dryRun does not bind the pod."""
    await api.post("pods", pod())
    dry = await api.post("pods/p/binding", binding("p", "n1"), dryRun="All")

    assert 201 == dry.code
    assert "nodeName" not in (await api.get("pods/p")).body["spec"]


async def test_watchers_see_one_change_per_binding(api: Api):
    """Assignment and condition arrive together."""
    made = await api.post("pods", pod())
    async with await api.watch("pods", resourceVersion=made.meta["resourceVersion"]) as stream:
        await api.post("pods/p/binding", binding("p", "n1"))
        event = await stream.next()

    assert "MODIFIED" == event["type"]
    assert "n1" == event["object"]["spec"]["nodeName"]
    assert "True" == event["object"]["status"]["conditions"][0]["status"]
