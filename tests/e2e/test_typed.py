"""Sixty commands in the spelling of users, against a live sandbox in use.

Each answers, or gives one line that states what is wrong. `typed/commands.txt` lists them. Under
`long` a dozen run on ten nodes and all on 300; the forms of words alone are in
tests/unit/cli/test_named.py.
"""

import shlex
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from scheduler.sandbox.nodes.shape import ClusterShape, NodeGroup
from scheduler.sandbox.sandbox import Sandbox, SandboxOptions
from scheduler.testing import node
from tests.e2e.livecluster import LiveCluster, daemon, entered

WIDTH = 120
LINES = 40
RACK = "topology.trellis.dev/rack"
GPU = "nvidia.com/gpu"
LIST = Path(__file__).parent / "typed" / "commands.txt"


class Typed(NamedTuple):
    """A command with its exit code; `is_default` ones run on ten nodes as well."""

    code: int
    words: list[str]
    is_default: bool


def typed() -> list[Typed]:
    """Return the commands of the list."""
    lines = [line for line in LIST.read_text().splitlines() if not line.startswith("#")]
    pairs = [line.partition(" ") for line in lines]
    return [Typed(int(code[0]), shlex.split(rest), "*" in code) for code, _, rest in pairs]


def pod_spec(gpus: int, **fields: Any) -> dict[str, Any]:
    """A pod of 4 CPUs and some GPUs."""
    requests = {"cpu": "4", "memory": "8Gi"} | ({GPU: str(gpus)} if gpus else {})
    container = {
        "name": "main",
        "image": "x",
        "resources": {"requests": requests, "limits": requests},
    }
    return {"schedulerName": "trellis", "containers": [container], **fields}


def gang(name: str, size: int) -> list[dict[str, Any]]:
    """A gang of whole nodes in one rack."""
    topology = [{"key": RACK}]
    group = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "research"},
        "spec": {
            "schedulingPolicy": {"gang": {"minCount": size}},
            "schedulingConstraints": {"topology": topology},
        },
    }
    spec = pod_spec(8, schedulingGroup={"podGroupName": name}, restartPolicy="Never")
    template = {"metadata": {"annotations": {"trellis.dev/simulate-run-for": "forever"}}}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "research"},
        "spec": {"parallelism": size, "completions": size, "template": template | {"spec": spec}},
    }
    return [group, job]


def story(gangs: int) -> list[dict[str, Any]]:
    """Create gangs that fit, one that no rack holds, a Deployment, and a pod with a label without
    match.
    """
    labels = {"app": "serve"}
    spec = {"replicas": 4, "selector": {"matchLabels": labels}}
    spec["template"] = {"metadata": {"labels": labels}, "spec": pod_spec(1)}
    shell = pod_spec(0, nodeSelector={"disk": "ssd"})
    return [
        *({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in SPACES),
        *(one for at in range(gangs) for one in gang(f"train-{at}", 2)),
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "serve", "namespace": "prod"},
            "spec": spec,
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "debug-shell", "namespace": "prod"},
            "spec": shell,
        },
    ]


LEADING = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
---
apiVersion: trellis.dev/v1alpha1
kind: TrellisConfiguration
operators: {enabled: false}
"""
SPACES = ("research", "prod")


@pytest.fixture(params=[10, 300])
async def reported(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[tuple[int, LiveCluster]]:
    """Give the number of nodes and a cluster whose story has been placed by the leading daemon."""
    size: int = request.param
    gpus = NodeGroup(
        count=size - 2, name="gpu-{index}", cpu="64", nodes_per_rack=4, resources={GPU: 8}
    )
    shape = ClusterShape(nodes=[gpus, NodeGroup(count=2, name="cpu-{index}", rack="cpu-{rack}")])
    huge = tmp_path / "huge.yaml"
    huge.write_text(yaml.safe_dump_all(gang("huge", 16)))
    applied = tmp_path / "story.yaml"
    applied.write_text(yaml.safe_dump_all([*story(size // 10), *gang("huge", 16)]))
    model = node("ssd", cpu="8", labels={"disk": "ssd"})
    (tmp_path / "ssd.yaml").write_text(yaml.safe_dump(model))
    options = SandboxOptions(shape=shape, kubeconfig=tmp_path / "kubeconfig")
    async with Sandbox(options) as sandbox, entered(tmp_path / "kubeconfig") as cluster:
        config = tmp_path / "leading.yaml"
        config.write_text(LEADING)
        async with daemon(cluster, tmp_path, config=config):
            await sandbox.apply(str(applied))
            await cluster.until(lambda: _settled(cluster))
            yield size, cluster


async def _settled(cluster: LiveCluster) -> bool:
    """Return whether the last gang and the Deployment are on nodes, and the huge gang has a
    message.
    """
    async with cluster.session.get(f"{cluster.url}/api/v1/pods") as answer:
        pods = (await answer.json())["items"]
    waiting = [one for one in pods if not one["spec"].get("nodeName")]
    return len(waiting) == 17 and all(one["status"].get("conditions") for one in waiting)


@pytest.mark.long
async def test_commands_as_people_type_them(reported, tmp_path, monkeypatch):
    """Each command has its exit code, no traceback, no table wider than the terminal, and one line
    for an error.
    """
    size, cluster = reported
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    monkeypatch.chdir(tmp_path)
    for one in typed():
        if size == 10 and not one.is_default:
            continue
        words = " ".join(one.words)
        code, out, err = await cluster.run(*one.words)
        assert one.code == code, (words, code, out, err)
        assert "Traceback" not in out + err, words
        if code in (1, 2) and not out:
            errors = [line for line in err.splitlines() if line.startswith("error: ")]
            is_plain = "no attempt" in err or "no group" in err
            assert 1 == len(errors) or is_plain, (words, err)
        if "-o" not in one.words and "help" not in words and "plugins" not in words:
            assert len(out.splitlines()) <= LINES, (words, out)
            assert_fits(out, words)


def assert_fits(out: str, words: str) -> None:
    """No line of a table is wider than the terminal; a table begins with a line in upper case."""
    in_table = False
    for line in out.splitlines():
        in_table = bool(line) and (in_table or (line.isupper() and "   " in line))
        assert not in_table or len(line) <= WIDTH, (words, line)


def test_the_list_has_sixty_commands():
    """A dozen of them run on ten nodes as well."""
    found = typed()
    assert 60 <= len(found)
    assert 12 <= sum(one.is_default for one in found)
