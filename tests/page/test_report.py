"""A comparison as one file: its views, its figures, its two sides, hostile names."""

import json
from pathlib import Path

import pytest

from scheduler.cli.main import run
from scheduler.testing import node
from tests.page.browser import PROGRAM, browser
from tests.page.test_page import AXE, HOSTILE
from tests.unit.simulate.asking import HEAD, pod

pytestmark = [
    pytest.mark.skipif(not PROGRAM, reason="needs chromium (Debian's package of that name)"),
    pytest.mark.allow_blocking("a test reads its files"),
]
ZONE = "topology.kubernetes.io/zone"
PACK = (
    f"{HEAD}profiles:\n- schedulerName: trellis\n"
    "  plugins: {score: {disabled: [{name: NodeResourcesBalancedAllocation}]}}\n"
    "  pluginConfig:\n  - name: NodeResourcesFit\n    args: {scoringStrategy: "
    "{type: MostAllocated, resources: [{name: cpu, weight: 1}]}}\n"
)


@pytest.fixture
def report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """Six pods, spread by the default and packed by the other configuration; two fit nowhere."""
    plain = [node(f"n{at}", cpu="4", memory="8Gi", labels={ZONE: f"z{at % 2}"}) for at in range(4)]
    plain += [pod(f"p{at}", requests={"cpu": "500m"}) for at in range(6)]
    plain += [
        pod("huge", requests={"cpu": "99"}),
        pod("gone", spec={"nodeSelector": {"x": "</script>"}}),
    ]
    snapshot, pack = tmp_path / "cluster.json", tmp_path / f"{HOSTILE.replace('/', '')}.yaml"
    snapshot.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": plain}))
    pack.write_text(PACK)
    words = ["simulate", "--snapshot", str(snapshot), "--against", str(pack), "-o", "html"]
    assert 1 == run(words), "they differ"
    file = tmp_path / "report.html"
    file.write_text(capsys.readouterr().out)
    return file


async def test_every_view_of_a_report_opens(report, chromium):
    """Every view opens from a file without a server, for both sides, in both schemes, with hostile
    names as text.
    """
    async with browser(chromium) as tab:
        for width, dark in ((1280, False), (390, True)):
            await tab.look(width=width, dark=dark)
            await tab.open(report.as_uri())
            await tab.until("document.querySelector('h1')?.innerText.includes('different result')")
            assert HOSTILE.replace("/", "") in await tab.run("document.body.textContent")
            assert 0 == await tab.run("document.querySelectorAll('main img, main script').length")
            figures = await tab.run("document.querySelector('table').innerText")
            assert "Nodes without pods\t0\t3" in figures
            assert 0 < await tab.run("document.querySelectorAll('.change .stack').length")
            for view, there in (
                ("cluster", "document.querySelector('.unit button')"),
                ("groups", "document.body.innerText.includes('No groups')"),
                (
                    "network",
                    "document.body.innerText.includes('no AppGroup and no NetworkTopology')",
                ),
                ("queue", "document.body.innerText.includes('Insufficient cpu')"),
                ("moved", "document.querySelector('.change')"),
            ):
                await tab.run(f"location.hash = '#/{view}'")
                await tab.until(there)
                overflows = "document.documentElement.scrollWidth > innerWidth"
                assert not await tab.run(overflows), f"{view} is wider than {width}"
        await tab.run("location.hash = '#/cluster'")
        used = "[...document.querySelectorAll('.rows .num')].map((one) => one.innerText).join(' ')"
        await tab.until("document.querySelector('.unit button')")
        after = await tab.run(used)
        await tab.run("document.querySelector('.sides button').click()")
        await tab.until(
            "document.querySelector('.sides [aria-pressed=true]').innerText === 'Before'"
        )
        await tab.until(f"{used} !== {json.dumps(after)}")
        assert [] == tab.problems


@pytest.mark.skipif(not AXE.exists(), reason="needs axe-core (make page-tools)")
async def test_axe_finds_nothing_serious_in_a_report(report, chromium):
    """The report's policy allows no script, so the checker is injected by the debugger."""
    async with browser(chromium) as tab:
        for dark in (False, True):
            await tab.look(dark=dark)
            await tab.open(report.as_uri())
            await tab.until("document.querySelector('.change')")
            await tab.run(AXE.read_text())
            found = await tab.run(
                "axe.run().then((result) => result.violations"
                ".filter((one) => ['serious', 'critical'].includes(one.impact))"
                ".map((one) => one.id + ': ' + one.nodes.map((each) => each.html).join(' | ')))"
            )
            assert [] == found, dark


def test_a_report_loads_nothing_and_holds_no_tag_of_others(report):
    """The report is one file without addresses, with a policy by hashes, and with data in which no
    tag can begin.
    """
    text = report.read_text()
    policy = text.partition('http-equiv="Content-Security-Policy" content="')[2].partition('"')[0]

    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert 'src="http' not in text
    assert "</script>" not in text.partition('id="report">')[2].partition("</script>\n<script")[0]


def test_a_page_needs_something_to_compare(tmp_path, capsys):
    """The error names the missing flag."""
    assert 2 == run(["simulate", "--snapshot", "x", "-o", "html"])
    assert "name another configuration by --against" in capsys.readouterr().err
