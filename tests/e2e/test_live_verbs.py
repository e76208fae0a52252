"""`explain`, `snapshot` and the daemon's decision history, against running servers.

The cases run on the sandbox and, with KUBEBUILDER_ASSETS, on a real kube-apiserver.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler.cli.main import run as cli
from scheduler.testing import node, pod
from tests.apiserver.realcluster import RealCluster
from tests.e2e.livecluster import LiveCluster, daemon


async def test_explain_and_snapshot_of_a_live_cluster(cluster: LiveCluster, tmp_path: Path):
    """The result is computed locally from lists of the server; the snapshot places the same pods
    the same way.
    """
    small, large = await cluster.nodes("1", "8")
    await cluster.pod("p", requests={"cpu": "2"})
    await cluster.pod("huge", requests={"cpu": "99"})

    code, out, err = await cluster.run("explain", "p", "-n", cluster.ns)
    assert 0 == code
    assert "answered with the default configuration: no daemon leads" in err
    lead = f"{cluster.ns}/p would go to {large}: the only node found to fit"
    assert lead == out.splitlines()[0]
    assert any(
        line.startswith(f"{small} ") and "Insufficient cpu" in line for line in out.splitlines()
    )
    code, out, _ = await cluster.run("explain", f"{cluster.ns}/huge", "--node", small, "-o", "json")
    assert 3 == code
    (only,) = json.loads(out)["nodes"]
    why = json.loads(out)["why"]
    helps = f"fits {large} with a request of 8 cpu"
    assert " has 99 cpu free: the largest" in why["sentence"]
    assert why["sentence"].endswith(f" has 8 cpu; it {helps}")
    assert [(large, helps)] == [(one["node"], one["text"]) for one in why["suggestions"]]
    assert (small, "NodeResourcesFit") == (only["name"], only["rejectedBy"])
    assert ["Insufficient cpu"] == only["plugins"]["NodeResourcesFit"]["reasons"]
    assert "Success" == only["plugins"]["NodeAffinity"]["code"]
    code, _, err = await cluster.run("explain", "none", "-n", cluster.ns)
    assert 1 == code
    assert "no such pod" in err
    done = pod("done", namespace=cluster.ns, node_name=large)
    del done["status"]
    await cluster.post("pods", done)
    await cluster.ended("done")
    code, _, err = await cluster.run("explain", "done", "-n", cluster.ns)
    assert 1 == code
    assert f"the pod has ended (Succeeded); it ran on node {large}" in err

    for form in ("json", "yaml"):
        code, out, err = await cluster.run("snapshot", "-o", form)
        assert (0, "") == (code, err)
        file = tmp_path / f"cluster.{form}"
        await asyncio.to_thread(file.write_text, out)
        code, out, _ = await cluster.run("simulate", "--snapshot", str(file), "-o", "json")
        placed = {
            pod["name"]: pod["node"]
            for pod in json.loads(out)["pods"]
            if pod["namespace"] == cluster.ns
        }
        assert {"p": large, "huge": None} == placed
        assert 3 == code


async def test_capacity_of_a_live_cluster(cluster: LiveCluster, tmp_path: Path):
    """The capacity is counted from lists of the server, and equals that of a snapshot."""
    await cluster.nodes("2", "3")
    shape, listed = tmp_path / "shape.yaml", tmp_path / "cluster.json"
    only = {"schedulerName": "trellis", "nodeSelector": {"case": cluster.ns}}
    wanted = pod("shape", namespace=cluster.ns, requests={"cpu": "1"}, spec=only)
    await asyncio.to_thread(shape.write_text, yaml.safe_dump(wanted))

    code, live, err = await cluster.run("capacity", "-f", str(shape), "-o", "json")
    assert 0 == code, err
    # A shared server may have pods of other tests, which a notice reports.
    assert cluster.ns not in err
    assert (5, False) == (json.loads(live)["fits"], json.loads(live)["limited"])
    _, out, _ = await cluster.run("snapshot", "-o", "json")
    await asyncio.to_thread(listed.write_text, out)
    words = ("capacity", "--snapshot", str(listed), "-f", str(shape), "-o", "json")
    assert live == (await cluster.run(*words))[1]


async def test_a_user_without_rights_reads_which_are_missing(cluster: LiveCluster, tmp_path: Path):
    """Without rights, with a wrong token or without a server, the command prints one line and exits
    with 1.
    """
    config = yaml.safe_load(await asyncio.to_thread(cluster.kubeconfig.read_text))
    config["users"][0]["user"]["token"] = "wrong"
    cluster.kubeconfig = tmp_path / "stranger"
    await asyncio.to_thread(cluster.kubeconfig.write_text, yaml.safe_dump(config))
    code, out, err = await cluster.run("explain", "p")
    assert (1, "") == (code, out)
    assert "error: cannot list nodes: Unauthorized" in err

    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    await asyncio.to_thread(cluster.kubeconfig.write_text, yaml.safe_dump(config))
    code, out, err = await cluster.run("snapshot")
    assert 1 == code
    assert "cannot list nodes" in err
    assert "Traceback" not in err


async def test_what_the_daemon_decided(cluster: LiveCluster, tmp_path: Path):
    """`explain --past` with the daemon's address shows each plugin's verdict for every node. The
    chosen node equals the one that `explain` predicted.
    """
    small, large = await cluster.nodes("1", "8")
    await cluster.pod("p", requests={"cpu": "2"})
    await cluster.pod("huge", requests={"cpu": "99"})
    _, predicted, _ = await cluster.run("explain", "p", "-n", cluster.ns, "-o", "name")
    async with daemon(cluster, tmp_path) as url:
        await cluster.until(lambda: cluster.is_bound("p"))
        code, out, err = await cluster.run(
            "explain", "p", "-n", cluster.ns, "--daemon", url, "-o", "json"
        )
        assert (0, "") == (code, err)
        past = json.loads(out)
        assert ("PastDecision", large, 1) == (past["kind"], past["node"], past["attempts"])
        assert predicted.strip() == past["node"]
        reported = {one["name"]: one for one in past["nodes"]}
        assert ("NodeResourcesFit", ["Insufficient cpu"]) == (
            reported[small]["rejectedBy"],
            reported[small]["reasons"],
        )
        assert reported[large]["feasible"]

        code, out, _ = await cluster.run(
            "explain", f"{cluster.ns}/huge", "--daemon", url, "--node", small
        )
        assert 3 == code
        assert "no node was found: 0/" in out.splitlines()[0]
        assert f"{small}: NodeResourcesFit: Insufficient cpu" in out
        code, _, err = await cluster.run("explain", "none", "-n", cluster.ns, "--daemon", url)
        assert 1 == code
        assert f'no decision about pod "{cluster.ns}/none" is kept' in err
        code, _, err = await cluster.run("explain", "p", "--daemon", url, "--token", "wrong")
        assert 1 == code
        assert "Unauthorized; --token takes one that may get /debug/*" in err


async def test_the_leader_is_found_and_reached_by_port_forward(
    cluster: LiveCluster, tmp_path: Path
):
    """The Lease names the pod, kubectl forwards; a substitute for kubectl returns the port."""
    await cluster.nodes("8")
    await cluster.pod("p")
    async with daemon(cluster, tmp_path) as url:
        await cluster.until(lambda: cluster.is_bound("p"))
        kubectl = tmp_path / "kubectl"
        port = url.rpartition(":")[2]
        script = (
            f'#!/bin/sh\necho "$@" > {tmp_path}/words\n'
            f'echo "Forwarding from 127.0.0.1:{port} -> 10259"\nexec sleep 60\n'
        )
        await asyncio.to_thread(kubectl.write_text, script)
        kubectl.chmod(0o700)
        code, _, err = await cluster.run(
            "explain", "p", "-n", cluster.ns, "--past", path=str(tmp_path)
        )
        assert 2 == code
        assert "no daemon leads: start one (trellis run); --daemon names one" in err

        await cluster.lease("trellis-0_c0ffee")
        code, _, err = await cluster.run(
            "explain", "p", "-n", cluster.ns, "--past", path=str(tmp_path)
        )
        assert 2 == code
        assert 'the leader runs on the host "trellis-0" and not in a pod' in err

        await cluster.pod("trellis-0")
        code, out, err = await cluster.run(
            "explain", "p", "-n", cluster.ns, "--past", path=str(tmp_path)
        )
        assert (0, "") == (code, err)
        assert "was chosen; 1 of " in out
        words = await asyncio.to_thread((tmp_path / "words").read_text)
        assert f"--namespace {cluster.ns} port-forward pod/trellis-0 :10259" == words.strip()

        await asyncio.to_thread(kubectl.write_text, "#!/bin/sh\necho no such pod >&2\nexit 1\n")
        code, _, err = await cluster.run("explain", "p", "--daemon", "a/b", path=str(tmp_path))
        assert 2 == code
        assert "no port-forward to a/b: no such pod" in err


def rule(*resources: str) -> dict[str, Any]:
    """Return the right to read some resources of the core group."""
    return {"apiGroups": [""], "resources": list(resources), "verbs": ["get", "list"]}


def test_explain_with_few_rights(real_cluster: RealCluster, capsys: pytest.CaptureFixture[str]):
    """`explain` needs the right to read nodes and one namespace's pods, and names kinds that it may
    not read. Without nodes it returns an error.
    """
    ns, user = "few-rights", [{"kind": "User", "name": "powerless"}]
    rbac = "/apis/rbac.authorization.k8s.io/v1"

    def post(path: str, body: dict[str, Any]) -> None:
        code, answer = real_cluster.request("POST", path, body)
        assert 201 == code, answer

    def grant(kind: str, path: str, rules: dict[str, Any]) -> None:
        meta = {"name": ns}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": ns}
        post(f"{path}/{kind.lower()}s", {"metadata": meta, "rules": [rules]})
        binding = {"metadata": meta, "roleRef": reference, "subjects": user}
        post(f"{path}/{kind.lower()}bindings", binding)

    post("/api/v1/namespaces", {"metadata": {"name": ns}})
    raw = node(ns, labels={"case": ns})
    raw["status"]["capacity"] = raw["status"]["allocatable"]
    post("/api/v1/nodes", raw)
    spec = {"schedulerName": "trellis", "nodeSelector": {"case": ns}}
    wanted = {"metadata": {"name": "p"}, "spec": pod(spec=spec)["spec"]}
    wanted["spec"].pop("nodeName")
    post(f"/api/v1/namespaces/{ns}/pods", wanted)
    words = ["explain", "p", "-n", ns, "--kubeconfig", str(real_cluster.powerless_kubeconfig)]

    assert 1 == cli(words)
    assert "error: cannot list nodes: nodes is forbidden" in capsys.readouterr().err
    grant("ClusterRole", rbac, rule("nodes"))
    grant("Role", f"{rbac}/namespaces/{ns}", rule("pods", "services"))
    assert 0 == cli(words)
    out, err = capsys.readouterr()
    assert f"{ns}/p would go to {ns}" in out
    assert f"notice: pods of namespace {ns} only: you may not list the others" in err
    assert "notice: without replicasets: you may not list them" in err
