"""ProvisioningRequests: their pods, and the fields of their templates."""

import pytest
import yaml

from scheduler.base.errors import InputError
from scheduler.cli.main import run
from scheduler.simulate.provisioning import INSTANCE_TYPE, provisioning_requests
from scheduler.testing import node
from tests.unit.simulate.asking import default_setup, pod, snapshot

MODEL = node("large", allocatable={"cpu": "4"}, labels={INSTANCE_TYPE: "m4", "rack": "r"})
BUSY = node("busy", allocatable={"cpu": "1"}, labels={"old": "yes"})


def requested(*pods, number=1, as_buffers=False):
    """Return the objects for pods that wait beside the node `busy`."""
    (model,) = snapshot(MODEL).nodes
    cluster = snapshot(BUSY, *pods)
    return provisioning_requests(
        cluster, model, number, default_setup(), None, as_buffers=as_buffers
    )


def worker(number, cpu="2", **labels):
    """Return a pod of a job."""
    index = {"batch.kubernetes.io/job-completion-index": str(number), "job": "j", **labels}
    return pod(f"w-{cpu}-{number}", requests={"cpu": cpu}, labels=index)


def test_a_request_names_the_pods_of_the_new_nodes_alone():
    """One pod is placed on the existing node; each kind of the others has a template and a
    number.
    """
    small = pod("small", requests={"cpu": "1"}, spec={"nodeSelector": {"old": "yes"}})
    *templates, request = requested(small, worker(0), worker(1), worker(0, cpu="3"), number=3)

    assert ["PodTemplate", "PodTemplate"] == [one["kind"] for one in templates]
    counts = {
        one["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"]: entry["count"]
        for one, entry in zip(templates, request["spec"]["podSets"], strict=True)
        if entry["podTemplateRef"]["name"] == one["metadata"]["name"]
    }
    assert {"2": 2, "3": 1} == counts
    assert ("ProvisioningRequest", "autoscaling.x-k8s.io/v1") == (
        request["kind"],
        request["apiVersion"],
    )
    assert "best-effort-atomic-scale-up" in request["spec"]["provisioningClassName"]


def test_a_buffer_keeps_capacity_for_the_same_pods():
    """There is one buffer for each template, with the template's name and number."""
    pods = worker(0), worker(1), worker(0, cpu="3")
    *templates, request = requested(*pods, number=3)
    found = requested(*pods, number=3, as_buffers=True)

    buffers = [one["spec"] for one in found[1::2]]
    assert templates == found[::2]
    assert [(one["podTemplateRef"], one["count"]) for one in request["spec"]["podSets"]] == [
        (one["podTemplateRef"], one["replicas"]) for one in buffers
    ]
    assert {"CapacityBuffer"} == {one["kind"] for one in found[1::2]}
    assert {"autoscaling.x-k8s.io/v1alpha1"} == {one["apiVersion"] for one in found[1::2]}


def test_a_template_has_what_scheduling_reads():
    """No node, no computed priority, no index of one pod; the offered instance type is selected."""
    gated = worker(0) | {}
    gated["spec"] |= {"priority": 0, "tolerations": [{"operator": "Exists"}]}
    template, _ = requested(gated)

    spec = template["template"]["spec"]
    assert {INSTANCE_TYPE: "m4"} == spec["nodeSelector"]
    assert not {"nodeName", "priority", "preemptionPolicy", "schedulingGates"} & set(spec)
    assert [{"operator": "Exists"}] == spec["tolerations"]
    assert {"job": "j"} == template["template"]["metadata"]["labels"]


def test_equal_questions_have_equal_names():
    """Applied twice, the objects are the same; other pods make another request."""
    first, again, other = (requested(worker(0, **more)) for more in ({}, {}, {"a": "b"}))

    assert first == again
    assert first[-1]["metadata"]["name"] != other[-1]["metadata"]["name"]


def test_too_many_kinds_of_pods_are_refused():
    """A request names 32 templates at most."""
    pods = [worker(at, cpu="1m", kind=str(at)) for at in range(33)]
    blocked = [one | {"spec": one["spec"] | {"nodeSelector": {"rack": "r"}}} for one in pods]
    with pytest.raises(InputError, match="33 different pods of namespace default"):
        requested(*blocked)


def test_the_command_writes_the_request_of_the_cheapest_offer(tmp_path, capsys):
    """YAML for kubectl apply; without --offer-nodes it is refused, and without a useful offer it is
    empty.
    """
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump_all([MODEL | {"spec": {"unschedulable": True}}, worker(0)]))
    words = ["simulate", "--snapshot", str(file), "-o", "provisioning-request"]
    assert 2 == run(words)
    assert "--offer-nodes" in capsys.readouterr().err

    offered = tmp_path / "offer.yaml"
    offered.write_text(yaml.safe_dump(MODEL))
    assert 0 == run([*words, "--offer-nodes", f"2={offered}"])
    template, request = yaml.safe_load_all(capsys.readouterr().out)
    assert ("PodTemplate", "ProvisioningRequest") == (template["kind"], request["kind"])

    buffers = ["capacity-buffer" if one == "provisioning-request" else one for one in words]
    assert 0 == run([*buffers, "--offer-nodes", f"2={offered}"])
    template, buffer = yaml.safe_load_all(capsys.readouterr().out)
    assert ("CapacityBuffer", 1) == (buffer["kind"], buffer["spec"]["replicas"])

    tiny = tmp_path / "tiny.yaml"
    tiny.write_text(yaml.safe_dump(node("tiny", allocatable={"cpu": "1"})))
    assert 3 == run([*words, "--offer-nodes", f"2={tiny}"])
    assert not capsys.readouterr().out
