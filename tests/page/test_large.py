"""Every view of the page for GPU clusters of 300 and 5,000 nodes.

axe reports nothing serious, the console no message, and no view is wider than the window.
"""

import json
from typing import Any

import msgspec
import pytest

from scheduler.base.clock import rfc3339
from scheduler.cli.inputs.cmdio import options, setups
from scheduler.cli.verbs.start.ui import Work
from scheduler.engine.attempt.cycle import Ties
from scheduler.explain.attempts import AttemptRecord, LeaderChange, undone
from scheduler.serve.ui import PageSite
from scheduler.snapshot.documents import SourceFile, items_of
from scheduler.snapshot.snapshot import read_snapshot
from scheduler.testing import node
from tests.page.browser import PROGRAM, browser
from tests.page.test_page import AXE, RACK, ZONE, application
from tests.unit.cli.gpucluster import GPU, cluster
from tests.unit.plugins.loadaware.situation import report as load_report
from tests.unit.plugins.test_numa import report as numa_report
from tests.unit.plugins.test_numa import zone
from tests.unit.simulate.asking import pod

pytestmark = [
    pytest.mark.skipif(not PROGRAM, reason="needs chromium (Debian's package of that name)"),
    pytest.mark.skipif(not AXE.exists(), reason="needs axe-core (make page-tools)"),
    pytest.mark.allow_blocking("a test reads its files"),
]
NOW = 1_780_000_000.0
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"width": 1400, "height": 900},
    "dark": {"width": 1400, "height": 900, "dark": True},
    "narrow": {"width": 390, "height": 844},
}
# Chooses a value of a field as a user does, and presses the button of the form, if any.
GIVE = (
    "(() => {{ const one = document.querySelector('#{}'); one.value = '{}';"
    " one.dispatchEvent(new Event('{}')); document.querySelector('button.main')?.click(); }})()"
)
CHOOSE = (
    "(() => {{ const one = document.querySelector('.head select'); one.value = '{}';"
    " one.dispatchEvent(new Event('change')); }})()"
)
# By name of a view: its address, what it waits for, what is done there, and what that leads to.
VIEWS: dict[str, tuple[str, str, str, str]] = {
    "cluster": ("cluster", "document.querySelector('.unit button')", "", "true"),
    "by group": (
        "cluster",
        "document.querySelector('.head option[value=group]')",
        CHOOSE.format("group"),
        "document.querySelector('.entry .name')",
    ),
    "load": (
        "cluster",
        "document.querySelector('.head option[value=\"load:cpu\"]')",
        CHOOSE.format("load:cpu"),
        "document.querySelector('.legend').innerText.includes('not known')",
    ),
    "rack": ("cluster/zone-a%2Frack-3", "document.querySelector('.unit button')", "", "true"),
    "node": (
        "cluster/zone-a%2Frack-0%2Fgpu-0000",
        "document.querySelector('.node table')",
        "",
        "true",
    ),
    "groups": ("groups", "document.querySelector('.groups tbody tr')", "", "true"),
    "network": ("network", "document.querySelector('svg.graph .box')", "", "true"),
    "queue": ("queue", "document.querySelector('.wait .said')?.innerText.length > 9", "", "true"),
    "pods": ("pod", "document.querySelector('table.found')", "", "true"),
    "member": ("pod/research%2Ftrain-000-0", "document.querySelector('.score')", "", "true"),
    "pod that fits nowhere": (
        "pod/research%2Fdebug-shell",
        "document.querySelector('.points')",
        "",
        "true",
    ),
    "what if": (
        "whatif",
        "document.querySelector('#rack option[value=\"rack-3\"]')",
        GIVE.format("rack", "rack-3", "change"),
        "document.querySelector('main').innerText.includes('different result')",
    ),
    "time": (
        "time",
        "document.querySelectorAll('.moment').length > 4",
        GIVE.format("moment", "500", "input"),
        "document.querySelector('#state').innerText.startsWith('As it was')",
    ),
}


def objects(nodes):
    """Return a GPU cluster in three zones: one node in 25 without GPUs, an application on these,
    some nodes cordoned or without a measured load.
    """
    plain_nodes = nodes // 25
    found = cluster(nodes - plain_nodes)
    for at, one in enumerate(one for one in found if one["kind"] == "Node"):
        zone_at = 3 * at // (nodes - plain_nodes)
        one["metadata"]["labels"][ZONE] = f"zone-{'abc'[zone_at]}"
        one["spec"] = {"unschedulable": at % 97 == 50}
        if at % 3:
            found.append(load_report(f"gpu-{at:04}", cpu=str(20 + at % 170), memory="100Gi"))
        else:
            found.append(numa_report(f"gpu-{at:04}", zone(0, cpu="96"), zone(1, cpu="96")))
    for at, one in enumerate(one for one in found if one["kind"] == "Pod"):
        one["metadata"]["creationTimestamp"] = rfc3339(NOW - 60 * (at % 977))
    for at in range(plain_nodes):
        labels = {ZONE: f"zone-{'abc'[at % 3]}", RACK: f"cpu-rack-{at // 16}"}
        found.append(node(f"cpu-{at:03}", cpu="64", memory="256Gi", labels=labels))
    for at in range(6 * plain_nodes):
        labels = {
            "appgroup.diktyo.x-k8s.io": "shop",
            "appgroup.diktyo.x-k8s.io.workload": ("web", "db")[at % 2],
        }
        where = f"cpu-{at % plain_nodes:03}"
        found.append(pod(f"web-{at}", node_name=where, requests={"cpu": "7"}, labels=labels))
    found.append(application())
    return found


class Past:
    """The past of a cluster: its pods in their order, and one change of the leader."""

    def __init__(self, snapshot):
        every = (*snapshot.bound[:100], *snapshot.unbound[:30])
        refusal = f"0/{len(snapshot.nodes)} nodes are available: Insufficient {GPU}."
        self._attempts = [
            AttemptRecord(
                *(one.metadata.namespace, one.metadata.name, one.metadata.uid, "trellis"),
                *(NOW - 3600 + 20 * at, NOW - 3600 + 20 * at, 1, 1),
                *(one.spec.node_name, "" if one.spec.node_name else refusal, None, ()),
                *(0, len(snapshot.nodes), {}),
            )
            for at, one in enumerate(every)
        ]

    def attempts(self):
        """Return all attempts."""
        return self._attempts

    def leading(self):
        """Return the change of the leader."""
        return [LeaderChange(NOW - 3650, is_leading=True)]

    def snapshot_at(self, at, now):
        """Return `now` without later decisions."""
        return undone(now, self._attempts, at)


def served(nodes):
    """Return the page of such a cluster."""
    source = SourceFile("test", json.dumps(objects(nodes)).encode())
    snapshot = msgspec.structs.replace(read_snapshot(items_of(source)), taken_at=NOW)
    wanted = msgspec.structs.replace(options("", Ties.NAME, None, details=False), now=NOW)
    work = Work(setups(""), wanted, Past(snapshot), {"context": "gpu-prod", "leader": "trellis-0"})
    snapshot, drawn = work.drawn(snapshot, NOW, ())
    work.show(snapshot, drawn, NOW)
    return PageSite(work.feed, work.answers)


@pytest.mark.parametrize(
    ("nodes", "look"),
    [
        (300, "light"),
        *(pytest.param(300, look, marks=pytest.mark.long) for look in ("dark", "narrow")),
        *(pytest.param(5000, look, marks=pytest.mark.long) for look in LOOKS),
    ],
)
async def test_every_view_of_a_large_cluster_is_accessible_and_fits(chromium, nodes, look):
    """axe reports no serious violation, the console is empty, and no view is wider than the
    window.
    """
    page = served(nodes)
    address = await page.start()
    async with browser(chromium) as tab:
        await tab.look(**LOOKS[look])
        await tab.open(address)
        await tab.run(AXE.read_text())
        for view, (where, there, do, done) in VIEWS.items():
            await tab.run(f"location.hash = '#/{where}'")
            await tab.until(there, timeout_s=90)
            await tab.run(do or "0")
            await tab.until(done, timeout_s=90)
            found = await tab.run(
                "axe.run().then((result) => result.violations"
                ".filter((one) => ['serious', 'critical'].includes(one.impact))"
                ".map((one) => one.id + ': ' + one.nodes.map((each) => each.html).join(' | ')))"
            )
            assert [] == found, view
            assert await tab.run("document.documentElement.scrollWidth <= innerWidth"), view
        assert [] == tab.problems
    await page.stop()
