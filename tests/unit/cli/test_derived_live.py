"""Verbs on a live cluster list the workloads from which their configuration derives groups."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler.cli.inputs.cmdio import options, read_files, setups
from scheduler.cli.main import run
from scheduler.cli.verbs.start.ui import Work
from scheduler.engine.attempt.cycle import Ties
from scheduler.sandbox.access.access import KnownUser
from scheduler.sandbox.kinds import kinds
from scheduler.sandbox.nodes.shape import plain_shape
from scheduler.sandbox.sandbox import Sandbox, SandboxOptions
from scheduler.snapshot.documents import RELEASE_ANNOTATION
from scheduler.testing import node, pod

pytestmark = pytest.mark.allow_blocking("files")
Json = dict[str, Any]
LABEL = "jobset.sigs.k8s.io/jobset-name"
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "jobsets.jobset.x-k8s.io"},
    "spec": {
        "group": "jobset.x-k8s.io",
        "scope": "Namespaced",
        "names": {"kind": "JobSet", "plural": "jobsets", "singular": "jobset"},
        "versions": [
            {
                "name": "v1alpha2",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}
# Every kind of the listed groups; JobSets are not among them.
READER = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "reader"},
    "rules": [{"apiGroups": ["", "apps"], "resources": ["*"], "verbs": ["get", "list"]}],
}
BINDING = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "reader"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"},
    "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"}],
}


def configuration(folder: Path, field: str) -> str:
    """Write a configuration whose profile derives groups of JobSets; return its path."""
    file = folder / f"{field}.yaml"
    file.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{schedulerName: trellis, pluginConfig: "
        f"[{{name: ClusterTopologyPlacementGroup, args: {{{field}: [JobSet]}}}}]}}]\n"
    )
    return str(file)


def jobset(replicas: int) -> Json:
    """Return a JobSet of pods that wait."""
    spec = {"containers": [{"name": "c", "image": "i"}]}
    job = {"parallelism": 1, "completions": 1, "template": {"spec": spec}}
    one = {"name": "r", "replicas": replicas, "template": {"spec": job}}
    meta = {"name": "w", "namespace": "default"}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": meta,
        "spec": {"replicatedJobs": [one]},
    }


def fill(sandbox: Sandbox, *, is_served: bool, size: int = 3) -> None:
    """Create two pods of a JobSet, and the JobSet of `size` pods if its kind is served."""
    for number in range(2):
        raw = pod(f"w-{number}", labels={LABEL: "w"}, spec={"schedulerName": "trellis"})
        raw["metadata"].pop("uid", None)
        raw["spec"].pop("nodeName", None)
        raw.pop("status", None)
        sandbox.store.create(kinds.PODS, raw)
    if is_served:
        sandbox.store.create(kinds.CUSTOMRESOURCEDEFINITIONS, DEFINITION)
        served = sandbox.store.kinds.find("jobset.x-k8s.io", "v1alpha2", "jobsets")
        assert served is not None
        sandbox.store.create(served, jobset(size))


async def answer(capsys: Any, kubeconfig: Path, *words: str) -> tuple[Json, str]:
    """Return the document and stderr of a verb on a cluster."""
    flags = ["--kubeconfig", str(kubeconfig), "-o", "json"]
    await asyncio.to_thread(run, [*words, *flags])
    shown = capsys.readouterr()
    return json.loads(shown.out), shown.err


def placed(found: Json) -> list[bool]:
    """Return for each pod of a simulation whether it has a node."""
    return [bool(one.get("node")) for one in found["pods"]]


@pytest.mark.parametrize(("size", "fits"), [(3, False), (2, True)])
async def test_a_group_of_a_live_workload_is_all_or_nothing(capsys, tmp_path, size, fits):
    """Two pods of a JobSet of three wait for the third, which no verb creates."""
    config = configuration(tmp_path, "derive")
    async with Sandbox(SandboxOptions(shape=plain_shape(1))) as sandbox:
        fill(sandbox, is_served=True, size=size)
        where = sandbox.kubeconfig_path
        found, _ = await answer(capsys, where, "simulate", "--config", config)
        alone, _ = await answer(capsys, where, "simulate")
        listed, _ = await answer(capsys, where, "groups", "--config", config)
        waiting, _ = await answer(capsys, where, "queue", "--config", config)
        why, _ = await answer(capsys, where, "explain", "w-0", "--config", config)

    assert [fits, fits] == placed(found)
    assert [True, True] == placed(alone), "the default configuration derives no group"
    assert ["default/jobset-w"] * 2 == [one["group"] for one in found["pods"]]
    assert all("group" not in one for one in alone["pods"])
    assert [("jobset-w", size)] == [(one["name"], one["minimum"]) for one in listed["items"]]
    (row,) = waiting["items"]
    assert ("jobset-w", 2, fits) == (row["name"], row["pods"], row["result"] == "Scheduled")
    assert fits == (why["result"] == "Scheduled"), why


async def test_a_kind_that_is_not_served_is_a_notice(capsys, tmp_path):
    """The pods of that kind wait for the JobSet, as for the daemon; without the request no
    notice.
    """
    async with Sandbox(SandboxOptions(shape=plain_shape(1))) as sandbox:
        fill(sandbox, is_served=False)
        where = sandbox.kubeconfig_path
        config = configuration(tmp_path, "derive")
        found, notices = await answer(capsys, where, "simulate", "--config", config)
        _, none = await answer(capsys, where, "simulate")

    text = "notice: without jobsets: the API server does not serve jobsets.jobset.x-k8s.io"
    assert text in notices.splitlines()
    assert [False, False] == placed(found)
    assert "jobsets" not in none


async def test_a_kind_that_may_not_be_listed_is_a_notice(capsys, tmp_path):
    """A kind that may not be listed causes a notice, also if groups are derived only in namespaces
    that request them.
    """
    async with Sandbox(SandboxOptions(shape=plain_shape(1))) as sandbox:
        fill(sandbox, is_served=True)
        sandbox.store.create(kinds.CLUSTERROLES, READER)
        sandbox.store.create(kinds.CLUSTERROLEBINDINGS, BINDING)
        sandbox.server.access.add("token-of-ann", KnownUser("ann", ()))
        where = sandbox.server.kubeconfig(tmp_path / "ann", "token-of-ann")
        config = configuration(tmp_path, "deriveOnRequest")
        found, notices = await answer(capsys, where, "simulate", "--config", config)

    assert "notice: without jobsets: you may not list them" in notices.splitlines()
    assert [True, True] == placed(found)


@pytest.mark.parametrize(("size", "fits"), [(3, False), (2, True)])
@pytest.mark.parametrize("form", ["json", "yaml"])
async def test_a_snapshot_states_the_workloads_of_its_groups(capsys, tmp_path, size, fits, form):
    """A snapshot gives the answers of the live cluster, also if it is anonymized and written twice.
    It contains no JobSet, because its controller would create more pods after `kubectl apply`.
    """
    config = configuration(tmp_path, "derive")
    first, second = tmp_path / "first", tmp_path / "second"
    async with Sandbox(SandboxOptions(shape=plain_shape(1))) as sandbox:
        fill(sandbox, is_served=True, size=size)
        where = str(sandbox.kubeconfig_path)
        await asyncio.to_thread(run, ["snapshot", "-o", form, "--kubeconfig", where])
    first.write_text(capsys.readouterr().out)
    words = ["snapshot", "--snapshot", str(first), "--anonymize", "-o", form]
    await asyncio.to_thread(run, words)
    second.write_text(capsys.readouterr().out)

    for file in (first, second):
        written = yaml.safe_load(file.read_text())
        assert "JobSet" not in {one["kind"] for one in written["items"]}
        assert RELEASE_ANNOTATION in written["metadata"]["annotations"]
        words = ["simulate", "--config", config, "--snapshot", str(file), "-o", "json"]
        await asyncio.to_thread(run, words)
        assert [fits, fits] == placed(json.loads(capsys.readouterr().out))
    assert '"w"' in first.read_text().replace("\\", "")
    assert '"w"' not in second.read_text().replace("\\", "")


SPELLINGS = [
    ["podgroup/jobset-w"],
    ["podgroups/jobset-w"],
    ["group", "jobset-w"],
    ["jobset-w"],
    ["default/jobset-w"],
    ["jobset/w"],
    ["w-0"],
]


@pytest.mark.parametrize("size", [3, 2])
async def test_every_verb_finds_a_derived_group_by_its_name(capsys, tmp_path, size):
    """A verb finds a derived group in every spelling; `groups -o name` writes a name that the verbs
    accept.
    """
    config = configuration(tmp_path, "derive")
    async with Sandbox(SandboxOptions(shape=plain_shape(1))) as sandbox:
        fill(sandbox, is_served=True, size=size)
        where = sandbox.kubeconfig_path

        async def asked(verb: str, *words: str) -> Json:
            return (await answer(capsys, where, verb, *words, "--config", config))[0]

        flags = ["groups", "--config", config, "--kubeconfig", str(where), "-o", "name"]
        await asyncio.to_thread(run, flags)
        (name,) = capsys.readouterr().out.split()
        explained = [await asked("explain", *words) for words in [*SPELLINGS, [name]]]
        listed = [await asked("groups", *words) for words in [*SPELLINGS, [name]]]
        moved = [await asked("moves", word) for word in ("jobset-w", "w-0")]
        # A group of three of which two pods exist is no shape.
        shapes = [*SPELLINGS[:-1], [name]] if size == 2 else []
        counted = [await asked("capacity", *words, "--limit", "2") for words in shapes]
        await asyncio.to_thread(run, ["explain", "podgroup/jobset-x", *flags[1:-2]])
        unknown = capsys.readouterr().err

    assert ["jobset-w"] * len(explained) == [one["group"]["name"] for one in explained]
    assert [["jobset-w"]] * len(listed) == [[g["name"] for g in one["items"]] for one in listed]
    assert "podgroup/default/jobset-w" == name
    assert [2] * len(counted) == [one["members"] for one in counted]
    assert ["reached" if size == 2 else "unknown"] * 2 == [one["verdict"] for one in moved]
    assert 'did you mean "default/jobset-w"?' in unknown


def test_the_tree_of_topology_and_of_the_page_names_derived_groups(capsys, tmp_path):
    """`topology` and the page name derived groups without a daemon, which would otherwise derive
    them.
    """
    bound = pod("w-0", labels={LABEL: "w"}, node_name="n0", spec={"schedulerName": "trellis"})
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": [node("n0"), bound]}))
    config = configuration(tmp_path, "derive")

    assert 0 == run(
        ["topology", "--snapshot", str(file), "--config", config, "--nodes", "-o", "json"]
    )
    assert {"default/jobset-w": 1} == json.loads(capsys.readouterr().out)["tree"]["groups"]

    wanted = options("", Ties.NAME, None, details=False)
    work = Work(setups(config), wanted)
    snapshot, shown = work.drawn(read_files([str(file)], None), 0.0, ())
    assert {"default/jobset-w": 1} == shown["units"]["n0"]["groups"]
    assert "default/jobset-w" == shown["pods"]["default/w-0"]["group"]
    assert ["jobset-w"] == [one.derived_group for one in snapshot.bound]
