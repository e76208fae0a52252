"""Take docs/images/page-*.png: the page as Chromium shows it, of the scenarios of groups and
network.

Run `python -m docs.generate.page_pictures` from the project's root, with Debian's chromium
installed; it plays the scenarios for real.
"""

from __future__ import annotations

import asyncio
import io
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec.structs import replace
from rich.console import Console

from scheduler.base import logs
from scheduler.cli.inputs.access import ClusterOptions
from scheduler.cli.inputs.cmdio import options, setups
from scheduler.cli.output.comparison import html, side
from scheduler.cli.verbs.start.ui import HistoryView, live_page
from scheduler.config import load
from scheduler.demo import play, read_scenario
from scheduler.demo.show import Show
from scheduler.demo.stage import stage
from scheduler.engine.attempt.cycle import Ties
from scheduler.intree import registry
from scheduler.objects.pod import Pod
from scheduler.simulate.simulate import simulate
from scheduler.simulate.stage import AnswerOptions, Setup
from scheduler.snapshot.documents import SourceFile, items_of
from scheduler.snapshot.snapshot import read_snapshot
from scheduler.testing import node, pod
from tests.page.browser import Tab, browser, launched

PICTURES = Path("docs/images")
EXAMPLES = Path("docs/examples")


class Shot(NamedTuple):
    """A view of the page: wait for `there`, run `do`, wait for `done` (JavaScript expressions).

    The file is named after the view, or `name`.
    """

    view: str
    there: str
    do: str = ""
    done: str = "true"
    name: str = ""


def _coloured(shade: str, name: str) -> Shot:
    """Return a shot of the cluster view coloured by `shade` instead of requests."""
    there = f"document.querySelector('select option[value=\"{shade}\"]')"
    choose = (
        f"(() => {{ const one = document.querySelector('select'); one.value = '{shade}';"
        " one.dispatchEvent(new Event('change')); })()"
    )
    return Shot("cluster", there, choose, name=name)


# The chapters of groups end with the group that fits nowhere, as in the demo's picture.
GROUPS = (
    Shot("cluster", "document.querySelector('.unit button')"),
    Shot("groups", "document.querySelector('.groups tbody tr')"),
    Shot(
        "whatif",
        "document.querySelector('#rack option[value=\"rack-1\"]')",
        "(() => { const one = document.querySelector('#rack'); one.value = 'rack-1';"
        " one.dispatchEvent(new Event('change'));"
        " document.querySelector('button.main').click(); })()",
        "document.querySelector('main').innerText.includes('different result')",
    ),
)
# The last chapter of the demo leaves a pod pending.
DEMO = (
    Shot("queue", "document.querySelector('.wait .said')?.innerText.length > 9"),
    Shot("pod", "document.querySelector('.score strong')"),
    Shot(
        "time",
        "document.querySelectorAll('.moment').length > 4",
        "(() => { const one = document.querySelector('#moment'); one.value = '700';"
        " one.dispatchEvent(new Event('input')); })()",
        "document.querySelector('#state').innerText.startsWith('As it was')",
    ),
)
NETWORK = (
    Shot("network", "document.querySelector('svg.graph .box') && document.querySelector('td')"),
)
LOAD = (_coloured("load:cpu", "load"),)
NUMA = (_coloured("zones:cpu", "numa"),)
REPORT = (Shot("moved", "document.querySelector('.change')"),)
PACKED = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: trellis
  plugins: {score: {disabled: [{name: NodeResourcesBalancedAllocation}]}}
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
"""


async def take() -> None:
    """Play the scenarios; write pictures of their last states, and of a report."""
    logs.configure(level="error")
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        launched(Path(folder)) as chromium,
    ):
        async with browser(chromium) as tab:
            await _played(tab, EXAMPLES / "groups/scenario.yaml", 4, GROUPS)
            await _played(tab, EXAMPLES / "demo/scenario.yaml", 9, DEMO)
            await _played(tab, EXAMPLES / "network/scenario.yaml", 2, NETWORK)
            await _played(tab, EXAMPLES / "load-aware/scenario.yaml", 2, LOAD)
            await _played(tab, EXAMPLES / "numa/scenario.yaml", 2, NUMA)
            report = Path(folder) / "report.html"
            await asyncio.to_thread(_report, report)
            await _pictures(tab, report.as_uri(), REPORT)


async def _played(tab: Tab, scenario: Path, chapters: int, shots: tuple[Shot, ...]) -> None:
    loaded = read_scenario(scenario)
    loaded = replace(loaded, chapters=loaded.chapters[:chapters])
    config = scenario.parent / loaded.config if loaded.config else None
    async with stage(scenario.parent / loaded.shape, scenario.parent, config) as set_up:
        await play(loaded, set_up, Show(Console(file=io.StringIO(), width=110)), 0.0)
        wanted = options("", Ties.UID, None, details=False)
        known = setups(str(config) if config else "")
        past = HistoryView(set_up.history_log)
        place = live_page(known, wanted, ClusterOptions(str(set_up.kubeconfig)), past=past)
        # A bound pod: its scores fill the picture.
        there = [one for one in await set_up.pods() if one.spec.node_name]
        placed = min((one for one in there if not one.is_terminating), key=_key).key
        named = [
            one._replace(view=f"pod/{placed.replace('/', '%2F')}") if one.view == "pod" else one
            for one in shots
        ]
        async with place as address:
            await _pictures(tab, address, named)


def _key(one: Pod) -> str:
    return one.key


async def _pictures(tab: Tab, address: str, shots: Iterable[Shot]) -> None:
    for width, dark, suffix in ((1200, False, ""), (1200, True, "-dark"), (390, False, "-narrow")):
        await tab.look(width=width, height=700, dark=dark)
        await tab.open(address)
        for shot in shots:
            await tab.run(f"location.hash = '#/{shot.view}'")
            await tab.until(shot.there)
            if shot.do:
                await tab.run(shot.do)
            await tab.until(shot.done)
            name = shot.name or shot.view.partition("/")[0]
            await tab.picture(PICTURES / f"page-{name}{suffix}.png")


def _report(file: Path) -> None:
    """Write the comparison of the default and a packing configuration: 41 pods, 8 nodes."""
    plain = [node(f"node-{at}", cpu="8", memory="32Gi") for at in range(8)]
    plain += [
        pod(
            f"web-{at:02}",
            requests={"cpu": f"{250 * (1 + at % 3)}m", "memory": "1Gi"},
            spec={"schedulerName": "trellis"},
        )
        for at in range(40)
    ]
    plain += [pod("giant", requests={"cpu": "16"}, spec={"schedulerName": "trellis"})]
    snapshot = read_snapshot(items_of(SourceFile("plain", msgspec.json.encode(plain))))
    known = registry()
    packed = Setup(load(PACKED, file="packed.yaml", registry=known), known)
    wanted = AnswerOptions(scores=True)
    before, after = (simulate(snapshot, one, wanted) for one in (setups("").default, packed))
    page = html(side("default", snapshot, before), side("packed.yaml", snapshot, after))
    file.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(take())
