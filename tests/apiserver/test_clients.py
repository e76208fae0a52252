"""kubectl and kube-scheduler as clients of the sandbox: the requests that users and programs
send.
"""

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from scheduler.base.clock import RealClock
from scheduler.base.release import read_release
from scheduler.sandbox.api.server import ApiServer
from scheduler.sandbox.kinds.kinds import NODES, PODS, RELEASES
from scheduler.sandbox.start import new_store
from tests.apiserver.manifests import node, pod
from tests.apiserver.patience import PATIENCE_S
from tests.apiserver.processes import running
from tests.apiserver.realcluster import assets, release_of

Kubectl = Callable[..., Coroutine[Any, Any, str]]

MANIFEST = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: "pause:3", ports: [{containerPort: 80}]}]}
---
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {capacity: {cpu: "4", memory: 8Gi, pods: "10"}}
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {nodeName: n1, terminationGracePeriodSeconds: 0, containers: [{name: c, image: "pause:3"}]}
"""


def release_of_clients() -> str:
    """Return the release that the sandbox serves: that of the real programs, if there are any.

    For older clients it is the oldest release.
    """
    folder = Path(os.environ.get("KUBEBUILDER_ASSETS", ""))
    if not (folder / "kube-apiserver").exists():
        return RELEASES[0]
    own = release_of(folder)
    return max((one for one in RELEASES if read_release(one) <= own), default=RELEASES[0])


@pytest.fixture
def made(tmp_path: Path) -> ApiServer:
    """A server that is not started yet; made outside of the loop, since it reads files."""
    (tmp_path / "m.yaml").write_text(MANIFEST, encoding="utf-8")
    return ApiServer(new_store(RealClock(), with_crds=False, release=release_of_clients()))


@pytest.fixture
async def server(made: ApiServer, tmp_path: Path) -> AsyncIterator[ApiServer]:
    """A running server with a kubeconfig and a manifest in `tmp_path`."""
    async with made:
        await asyncio.to_thread(made.kubeconfig, tmp_path / "config")
        yield made


@pytest.fixture
def kubectl(server: ApiServer, tmp_path: Path) -> Kubectl:
    """Run kubectl and return its output; fail if kubectl fails."""
    program = shutil.which("kubectl")
    if program is None:
        pytest.skip("needs kubectl")

    async def run(command: str, *, code: int = 0) -> str:
        process = await asyncio.create_subprocess_exec(
            program,
            *command.split(),
            cwd=tmp_path,
            env={**os.environ, "KUBECONFIG": "config", "HOME": str(tmp_path)},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await process.communicate()
        assert code == process.returncode, output.decode()
        return output.decode()

    return run


async def test_apply_and_look(kubectl: Kubectl):
    """apply creates once, get and describe show it, diff sees a change, delete removes it."""
    first = await kubectl("apply -f m.yaml")
    again = await kubectl("apply -f m.yaml")
    shown = await kubectl("get deployments,nodes,pods -o wide")
    described = await kubectl("describe pod p")
    await kubectl("scale deployment web --replicas 3")
    differs = await kubectl("diff -f m.yaml", code=1)
    forced = await kubectl("apply --server-side -f m.yaml")
    gone = await kubectl("delete -f m.yaml")

    assert 3 == first.count(" created")
    assert 3 == again.count(" unchanged")
    assert "deployment.apps/web   0/1" in shown
    assert "Node:             n1/" in described
    assert "-  replicas: 3" in differs
    assert 3 == forced.count("serverside-applied")
    assert 3 == gone.count(" deleted")


async def test_a_list_of_objects_is_applied(kubectl: Kubectl, tmp_path: Path):
    """kubectl applies the List that `trellis snapshot` writes. It first requests the definitions in
    protobuf.
    """
    items = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "team"}},
    ]
    whole = {"apiVersion": "v1", "kind": "List", "items": items}
    await asyncio.to_thread((tmp_path / "list.json").write_text, json.dumps(whole))
    first = await kubectl("apply -f list.json")
    again = await kubectl("apply -f list.json")

    assert 2 == first.count(" created")
    assert 2 == again.count(" unchanged")


async def test_care_of_a_node(kubectl: Kubectl, server: ApiServer):
    """kubectl cordons, drains, taints and labels a node, with patches and evictions."""
    await kubectl("apply -f m.yaml")
    drained = await kubectl("drain n1 --force --ignore-daemonsets")
    await kubectl("uncordon n1")
    await kubectl("taint node n1 dedicated=x:NoSchedule")
    await kubectl("label node n1 disk=ssd")
    spec = server.store.get(NODES, "", "n1").obj["spec"]

    assert "pod/p evicted" in drained
    assert [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}] == spec["taints"]
    assert "unschedulable" not in spec


async def test_objects_without_manifests(kubectl: Kubectl, server: ApiServer):
    """`kubectl create` and `kubectl run` work; they send protobuf and JSON."""
    await kubectl("create namespace team")
    await kubectl("create deployment web --image nginx --replicas 2 -n team")
    await kubectl("create configmap c --from-literal a=b")
    await kubectl("run x --image nginx")
    await kubectl("set image pod/x x=nginx:2")
    value = await kubectl("get configmap c -o jsonpath={.data.a}")
    await kubectl("wait --for=jsonpath={.spec.replicas}=2 deployment/web -n team --timeout 5s")
    await kubectl("delete namespace team --timeout 10s")

    assert "b" == value
    assert "nginx:2" == server.store.get(PODS, "default", "x").obj["spec"]["containers"][0]["image"]


async def test_what_the_server_knows(kubectl: Kubectl):
    """Discovery, documentation, rights and a live view work with kubectl."""
    kinds = await kubectl("api-resources --no-headers")
    fields = await kubectl("explain pod.spec.containers")
    may = await kubectl("auth can-i create pods")
    await kubectl("create configmap c")
    seen = await kubectl("get configmaps --watch --request-timeout 1s")

    assert "poddisruptionbudgets" in kinds
    assert "imagePullPolicy" in fields
    assert "yes" in may
    assert "c      0" in seen


@pytest.mark.real
async def test_kube_scheduler_works_against_the_sandbox(server: ApiServer, tmp_path: Path):
    """The real scheduler lists, watches, leads and binds here as on its own API server.

    The sandbox serves the kinds of its release: kube-scheduler 1.37 waits for DeviceTaintRules.
    """
    program = assets() / "kube-scheduler"
    if not program.exists():
        pytest.skip("KUBEBUILDER_ASSETS has no kube-scheduler: run `make tools`")
    store, bound = server.store, asyncio.Event()

    def look() -> None:
        for change in watch.changes():
            if change.stored.obj["spec"].get("nodeName"):
                bound.set()

    watch = store.watch(PODS, wake=look)
    body = node("n1")
    body["status"]["allocatable"] = body["status"]["capacity"]
    store.create(NODES, body)
    store.create(PODS, pod(), "default")
    command = [
        str(program),
        f"--kubeconfig={tmp_path / 'config'}",
        "--secure-port=0",
        "--authentication-skip-lookup",
    ]
    with running("kube-scheduler", command, tmp_path / "kube-scheduler.log"):
        async with asyncio.timeout(PATIENCE_S):
            await bound.wait()
    watch.close()

    assert "n1" == store.get(PODS, "default", "p").obj["spec"]["nodeName"]
