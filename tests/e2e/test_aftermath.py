"""The records of decisions: the history of a pod, the daemon's page of the past, a support bundle,
a profile.

The cases run on the sandbox and, with KUBEBUILDER_ASSETS, on a real kube-apiserver.
"""

import asyncio
import gzip
import json
import tarfile
from pathlib import Path

import pytest
import yaml

from scheduler.cli.inputs.logged import LogView
from tests.e2e.livecluster import QUIET, LiveCluster, daemon

pytestmark = pytest.mark.allow_blocking("a test reads its files")


async def test_history_from_the_daemon_and_from_its_log(cluster: LiveCluster, tmp_path: Path):
    """The daemon and its log list the attempts with reasons, in order. The log also has the state
    of the cluster in between.
    """
    (node,) = await cluster.nodes("2")
    await cluster.pod("large", requests={"cpu": "3"})
    log, config = tmp_path / "log", tmp_path / "config.yaml"
    config.write_text(f"{QUIET}decisionLog: {{path: {log}}}\n")
    async with daemon(cluster, tmp_path, config=config) as url:

        async def history(pod: str):
            code, out, _ = await cluster.run(
                "history", pod, "-n", cluster.ns, "--daemon", url, "-o", "json"
            )
            return code, json.loads(out)

        async def was_tried():
            return (await history("large"))[0] == 0

        await cluster.until(was_tried)
        (bigger,) = [f"later-{cluster.ns}"]
        await cluster.node(bigger, cpu="8", labels={"case": cluster.ns})
        await cluster.until(lambda: cluster.is_bound("large"))
        code, reported = await history("large")
        assert 0 == code
        first, last = reported["attempts"][0], reported["attempts"][-1]
        assert first["node"] is None
        assert "Insufficient cpu" in first["message"]
        assert bigger == last["node"]
        assert first["since"] <= last["at"]
        code, answer = await history("none")
        assert (1, []) == (code, answer["attempts"])
        code, out, _ = await cluster.run("history", "large", "-n", cluster.ns, "--daemon", url)
        assert 0 == code
        assert "ATTEMPT" in out.splitlines()[0]
        assert bigger in out.splitlines()[-1]

    code, out, err = await cluster.run(
        "history", "large", "-n", cluster.ns, "--decision-log", str(log), "-o", "json"
    )
    assert (0, "") == (code, err), log.read_text()[-4000:]
    assert reported["attempts"] == json.loads(out)["attempts"]
    past = await asyncio.to_thread(LogView, str(log))
    (found,) = [one for one in past.attempts() if one.name == "large" and not one.node][:1]
    then, now = past.snapshot_at(found.at), past.snapshot()
    key = f"{cluster.ns}/large"
    assert key in [pod.key for pod in then.unbound]
    assert bigger not in [one.metadata.name for one in then.nodes]
    assert node in [one.metadata.name for one in then.nodes]
    assert {key: bigger} == {pod.key: pod.spec.node_name for pod in now.bound if pod.key == key}


async def test_a_support_bundle_and_its_profile(cluster: LiveCluster, tmp_path: Path):
    """The bundle has all useful data, no secret, and with --hash-names no name of a user."""
    await cluster.nodes("2")
    await cluster.pod("confidential-pod", requests={"cpu": "1"})
    await cluster.pod("confidential-giant", requests={"cpu": "99"})
    async with daemon(cluster, tmp_path) as url:
        await cluster.until(lambda: cluster.is_bound("confidential-pod"))
        words = ["support-bundle", "--daemon", url, "--seconds", "1", "-f"]
        for flag, file in (((), "plain.tar.gz"), (("--hash-names",), "hashed.tar.gz")):
            code, out, err = await cluster.run(*words, str(tmp_path / file), *flag)
            assert (0, "") == (code, out), err
        code, _, err = await cluster.run(*words, str(tmp_path / file))
        assert 2 == code
        assert "is there already" in err
        code, _, err = await cluster.run(*words, str(tmp_path / "no"), "--token", "wrong")
        assert 1 == code
        assert "Unauthorized" in err

    plain, hashed = (_read(tmp_path / name) for name in ("plain.tar.gz", "hashed.tar.gz"))
    assert {
        "bundle.json", "status.txt", "flags.txt", "configuration.json", "health.txt", "metrics.txt",
        "nodes.json", "queues.json", "decisions.json", "stacks.txt", "profile.pb.gz",
    } == set(plain) == set(hashed)  # fmt: skip
    assert b"confidential-pod" in plain["nodes.json"]
    assert b"confidential-giant" in plain["queues.json"]
    decisions = json.loads(plain["decisions.json"])
    assert {"confidential-pod", "confidential-giant"} <= {one["name"] for one in decisions}
    assert gzip.decompress(plain["profile.pb.gz"])
    token = yaml.safe_load(cluster.kubeconfig.read_text())["users"][0]["user"]["token"]
    for name, body in plain.items():
        assert token.encode() not in body, name
    for name, body in hashed.items():
        for word in ("confidential", cluster.ns):
            assert word.encode() not in body, name
    # The same structure: what was one name is one hash.
    again = json.loads(hashed["decisions.json"])
    assert len({one["name"] for one in decisions}) == len({one["name"] for one in again})
    texts = [one["message"] for one in again if one["message"]]
    assert any("Insufficient cpu" in text for text in texts)


def _read(file: Path) -> dict[str, bytes]:
    with tarfile.open(file) as archive:
        files = ((Path(one.name).name, archive.extractfile(one)) for one in archive.getmembers())
        return {name: file.read() for name, file in files if file is not None}
