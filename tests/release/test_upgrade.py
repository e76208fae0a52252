"""From the previous release to this one, and back: no running pod and no described object is lost.

Both versions are built into wheels and installed outside the repository; chart and program come
from there. The previous version is the newest tag behind HEAD; TRELLIS_UPGRADE_FROM names any other
commit. Without a tag, it is the commit in which the chart got the last of its agents.
"""

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from sysconfig import get_path
from typing import Any

import pytest

from tests.e2e.chartcluster import (
    MARKS,
    PODS,
    RELEASE,
    Json,
    Server,
    Version,
    network,
    plain,
    sakkara,
    six_nodes,
    waiting,
)
from tests.e2e.operatorcluster import real, sandbox
from tests.release.trees import ROOT, copied, run

CHART_IS_WHOLE = "charts/trellis/templates/agent-netperf.yaml"
MEMBERS = f"{PODS}?labelSelector=sakkara.group.name%3Dgroup-a"
KEPT = (
    "/api/v1/pods",
    "/api/v1/configmaps",
    "/apis/appgroup.diktyo.x-k8s.io/v1alpha1/appgroups",
    "/apis/networktopology.diktyo.x-k8s.io/v1alpha1/networktopologies",
)

pytestmark = [*MARKS, pytest.mark.long]


def asked_git(*words: str) -> str:
    """Return git's output; "" if it fails."""
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def commit_before() -> str:
    """Return the commit to upgrade from; skip if the history does not reach that far."""
    tag = asked_git("describe", "--tags", "--abbrev=0", "--match", "v*", "HEAD^")
    added = asked_git("log", "--diff-filter=A", "--format=%H", "--", CHART_IS_WHOLE).splitlines()
    named = os.environ.get("TRELLIS_UPGRADE_FROM") or tag or (added[-1] if added else "")
    commit = asked_git("rev-parse", "--verify", f"{named}^{{commit}}") if named else ""
    if asked_git("rev-parse", "--is-shallow-repository") == "true" and not commit:
        pytest.skip("a shallow clone does not reach back to the version before")
    assert commit, f"no such commit: {named}"
    return commit


def installed(folder: Path, commit: str) -> Version:
    """Build and install the wheel of a commit, with the dependencies of this environment if both
    commits have the same lock.
    """
    tree = copied(folder / "tree", commit)
    words = ["pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "--no-index"]
    run(sys.executable, "-m", *words, "-w", str(folder), str(tree), cwd=folder)
    run(sys.executable, "-m", "venv", "env", cwd=folder)
    python, lock = str(folder / "env/bin/python"), "requirements.lock"
    if (tree / lock).read_bytes() == (ROOT / lock).read_bytes():
        inside = next((folder / "env").rglob("site-packages"))
        (inside / "ours.pth").write_text(get_path("purelib"))
    else:
        words = ["pip", "install", "-q", "--no-deps", "--require-hashes", "-r", str(tree / lock)]
        run(python, "-m", *words, cwd=folder)
    (wheel,) = folder.glob("*.whl")
    run(python, "-m", "pip", "install", "-q", "--no-deps", "--no-index", str(wheel), cwd=folder)
    share = folder / "env/share/trellis"
    return Version(share / "charts/trellis", (str(folder / "env/bin/trellis"),), {"PYTHONPATH": ""})


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> tuple[Version, Version]:
    """Return the previous version and this one."""
    before = commit_before()
    found = []
    for name, commit in (("before", before), ("now", "HEAD")):
        folder = tmp_path_factory.mktemp(name)
        found.append(installed(folder, commit))
        print(name, asked_git("describe", "--tags", "--always", commit))
    return found[0], found[1]


@pytest.fixture(params=["sandbox", "real"])
async def server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Server]:
    """Give a server of six nodes."""
    opened = real if request.param == "real" else sandbox
    async with opened(tmp_path) as kubeconfig, six_nodes(kubeconfig, tmp_path) as found:
        yield found


async def what_is_there(server: Server) -> dict[str, Any]:
    """Return the objects of users and workloads on the server: identity, wanted state, node."""
    found = {}
    for path in KEPT:
        for one in (await server.get(path))["items"]:
            meta = one["metadata"]
            if meta.get("labels", {}).get("app.kubernetes.io/instance") != RELEASE:
                named = one.get("kind"), path, meta.get("namespace"), meta["name"]
                found[str(named)] = (meta["uid"], meta.get("labels"), one.get("spec"), _data(one))
    return found


def _data(one: Json) -> Json:
    """Return a ConfigMap's data without the duration of the placement."""
    return {key: text for key, text in (one.get("data") or {}).items() if "sched" not in key}


async def test_an_upgrade_and_a_downgrade_lose_nothing(
    server: Server, versions: tuple[Version, Version]
):
    """Pods keep their nodes, objects their content.

    Pods created meanwhile are placed by the running version.
    """
    before, now = versions
    await server.chart("install", version=before)
    async with AsyncExitStack() as old:
        await old.enter_async_context(server.daemon(before))
        for part in (plain, network, sakkara):
            await part(server)
        here = await what_is_there(server)
        await server.helm("upgrade", RELEASE, str(now.chart), "--reset-then-reuse-values")
        # As with two replicas: the new one is ready and waits until the old one ends.
        async with server.daemon(now):
            await old.aclose()
            await server.post(PODS, waiting("after-the-upgrade"))
            await server.bound("after-the-upgrade")
            upgraded = await what_is_there(server)
    await server.helm("rollback", RELEASE, "1")
    async with server.daemon(before):
        await server.post(PODS, waiting("after-the-rollback"))
        await server.bound("after-the-rollback")
        back = await what_is_there(server)
    await server.helm("uninstall", RELEASE)
    left = await what_is_there(server)

    assert 10 < len(here)
    for later in (upgraded, back, left):
        assert here == {name: later.get(name) for name in here}
