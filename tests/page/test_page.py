"""The page in Chromium: every view opens, names stay text, large clusters stay usable."""

import asyncio
import json
from pathlib import Path

import msgspec
import pytest
from aiohttp import web

from scheduler.about import VERSION
from scheduler.cli.inputs.cmdio import options, setups
from scheduler.cli.verbs.start.ui import Work
from scheduler.engine.attempt.cycle import Ties
from scheduler.serve.pageroutes import PageRoutes
from scheduler.serve.ui import PageSite
from scheduler.snapshot.documents import SourceFile, items_of
from scheduler.snapshot.snapshot import NO_TIME, read_snapshot
from scheduler.snapshot.views import sections
from scheduler.testing import node
from tests.page.browser import PROGRAM, browser
from tests.unit.plugins.groupobjects import group
from tests.unit.plugins.loadaware.situation import report as load_report
from tests.unit.plugins.test_numa import report as numa_report
from tests.unit.plugins.test_numa import zone
from tests.unit.simulate.asking import pod

pytestmark = [
    pytest.mark.skipif(not PROGRAM, reason="needs chromium (Debian's package of that name)"),
    pytest.mark.allow_blocking("a test reads its files"),
]
ROOT = Path(__file__).parents[2]
MODULES = ROOT / ".tools/npm/node_modules"
AXE = MODULES / "axe-core/axe.min.js"
ZONE, RACK = "topology.kubernetes.io/zone", "topology.trellis.dev/rack"
HOSTILE = "<img src=x onerror=document.title='broken'>"
LTR, LONG = "\u202egpj.exe", "n" * 253
VIEWS = {
    "cluster": "document.querySelector('.unit button')",
    "groups": "document.body.innerText.includes('it needs 4 members: 0 are there')",
    "network": "document.querySelector('svg.graph .box') && document.querySelector('td')"
    " && document.querySelector('svg.graph .label.over')?.textContent === '10M \u00b7 cost 5 > 3'",
    "queue": "document.body.innerText.includes('Insufficient cpu')"
    " && document.body.innerText.includes('Tried again after a new node; ')",
    "pod/default%2Fp-huge": "document.body.innerText.includes('NodeResourcesFit')"
    " && document.querySelector('.points')?.innerText.includes('with a request of')",
    "whatif": "document.querySelector('#manifests')",
    "time": "document.body.innerText.includes('No decisions are recorded here')",
}


def application():
    """Return an AppGroup in which `web` sends traffic to `db`."""
    refs = [{"kind": "Deployment", "name": one, "selector": one} for one in ("web", "db")]
    dependencies = [{"workload": refs[1], "minBandwidth": "10M", "maxNetworkCost": 3}]
    return {
        "apiVersion": "appgroup.diktyo.x-k8s.io/v1alpha1",
        "kind": "AppGroup",
        "metadata": {"name": "shop", "namespace": "default"},
        "spec": {
            "numMembers": 2,
            "topologySortingAlgorithm": "KahnSort",
            "workloads": [
                {"workload": refs[0], "dependencies": dependencies},
                {"workload": refs[1]},
            ],
        },
    }


def objects():
    """Return racks, an application over two zones, a pod that fits nowhere, and names of all
    kinds.
    """
    web = {"appgroup.diktyo.x-k8s.io": "shop", "appgroup.diktyo.x-k8s.io.workload": "web"}
    db = web | {"appgroup.diktyo.x-k8s.io.workload": "db"}
    costs = {
        "topologyKey": ZONE,
        "originList": [
            {"origin": "a", "costList": [{"destination": "b", "networkCost": 5}]},
            {"origin": "b", "costList": [{"destination": "a", "networkCost": 5}]},
        ],
    }
    return [
        node("n1", cpu="4", memory="8Gi", labels={ZONE: "a", RACK: "r1"}),
        node("n2", cpu="4", memory="8Gi", labels={ZONE: "b", RACK: "r2"}),
        node(LONG, cpu="4", memory="8Gi", labels={ZONE: "b", RACK: "r2"}),
        pod("p-one", node_name="n1", requests={"cpu": "3"}, labels=web),
        pod("p-two", node_name="n2", requests={"cpu": "1"}, labels=db),
        pod("p-huge", requests={"cpu": "99"}),
        group("quartet", 4, {}),
        load_report("n1", cpu="1", memory="2Gi"),
        numa_report("n2", *(zone(number, cpu="2") for number in range(2))),
        application(),
        {
            "apiVersion": "networktopology.diktyo.x-k8s.io/v1alpha1",
            "kind": "NetworkTopology",
            "metadata": {"name": "net", "namespace": "default"},
            "spec": {"weights": [{"name": "UserDefined", "topologyList": [costs]}]},
        },
    ]


def cluster(number_of_nodes, number_of_pods):
    """A cluster of that size, in racks of forty in three zones."""
    nodes = [
        node(
            f"node-{at:05}",
            cpu="64",
            memory="256Gi",
            labels={ZONE: f"zone-{at % 3}", RACK: f"rack-{at // 40}"},
        )
        for at in range(number_of_nodes)
    ]
    pods = [
        pod(f"p-{at}", node_name=f"node-{at % number_of_nodes:05}", requests={"cpu": "1"})
        for at in range(number_of_pods)
    ]
    return [*nodes, *pods]


def shown(plain, *, changed=lambda drawn: None):
    """Run the page's functions on plain objects, with changes to the page's copy of them."""
    snapshot = read_snapshot(items_of(SourceFile("test", json.dumps(plain).encode())))
    work = Work(setups(""), options("", Ties.NAME, None, details=False))
    drawn = sections(snapshot, snapshot.taken_at)
    changed(drawn)
    work.show(snapshot, drawn, snapshot.taken_at)
    return work, drawn


async def test_every_view_opens(chromium):
    """Every view opens by its address, narrow and wide, in both colour schemes, without a message
    in the console.
    """
    work, _ = shown(objects())
    page = PageSite(work.feed, work.answers)
    address = await page.start()
    async with browser(chromium) as tab:
        for width, dark in ((1280, False), (390, True)):
            await tab.look(width=width, dark=dark)
            await tab.open(address)
            for view, there in VIEWS.items():
                await tab.run(f"location.hash = '#/{view}'")
                await tab.until(there)
                overflows = "document.documentElement.scrollWidth > innerWidth"
                assert not await tab.run(overflows), f"{view} is wider than {width}"
        assert "key=" not in await tab.run("location.href")
        header = await tab.run("document.querySelector('#origin').textContent")
        assert VERSION in header
        assert "trellis" in header
        await tab.run("location.hash = '#/cluster'")
        for wanted in ("a", "n1"):  # a zone of one rack lists its nodes
            await tab.until(f"document.querySelector('.unit button')?.innerText === '{wanted}'")
            await tab.run("document.querySelector('.unit button').click()")
        await tab.until("document.querySelector('.node table')?.innerText.includes('p-one')")
        assert "topology.kubernetes.io/zone=a" in await tab.run(
            "document.querySelector('.node').innerText"
        )
        await tab.run("location.hash = '#/whatif'")
        await tab.until("document.querySelector('#manifests')")
        node_again = json.dumps(json.dumps(node("n9", cpu="200", memory="64Gi")))
        await tab.run(
            f"(() => {{ const area = document.querySelector('#manifests'); area.value = "
            f"{node_again};"
            " area.dispatchEvent(new Event('input')); "
            "document.querySelector('button.main').click(); })()"
        )
        await tab.until(
            "document.querySelector('td .tag.good')?.parentNode.innerText.includes('n9')"
        )
        assert [] == tab.problems
    await page.stop()


async def test_colours_stand_for_what_is_chosen(chromium):
    """The colours show requests, load or NUMA zones; the list has the same values, also for parts
    without data.
    """
    work, _ = shown(objects())
    page = PageSite(work.feed, work.answers)
    address = await page.start()
    async with browser(chromium) as tab:
        await tab.open(address)
        await tab.until("document.querySelector('.unit button')")
        offered = await tab.run(
            "[...document.querySelectorAll('select option')].map((one) => one.text)"
        )
        assert offered == [
            "cpu requested", "memory requested", "cpu in use", "memory in use", "cpu by NUMA zone",
            "by group", "by namespace", "by priority", "free whole nodes",
        ]  # fmt: skip
        for choice, zones in (
            ("room:cpu", ["75 % 3 of 4", "13 % 1 of 8"]),
            ("load:cpu", ["25 % 1 of 4", "not known"]),
            ("load:memory", ["25 % 2Gi of 8Gi", "not known"]),
            ("zones:cpu", ["not known", "0 % 0 of 4"]),
            ("free", ["0 % 0 of 1", "50 % 1 of 2"]),
            ("namespace", ["75 % 3 of 4", "13 % 1 of 8"]),
        ):
            await tab.run(
                f"(() => {{ const one = document.querySelector('select'); one.value = '{choice}';"
                " one.dispatchEvent(new Event('change')); })()"
            )
            reported = await tab.run(
                "[...document.querySelectorAll('.rows .num')]"
                ".map((one) => one.innerText.replace(/\\s+/g, ' ').trim())"
            )
            assert reported == zones, choice
        assert [] == tab.problems
    await page.stop()


async def test_groups_state_since_when_they_are_bound_or_wait(chromium):
    """A bound group since its last member was bound, a waiting one since its first pod was made."""
    groups = [group("done", 2, {}), group("waiting", 2, {})]
    pods = []
    for name, number in (("done", 1), ("done", 2), ("waiting", 3), ("waiting", 4)):
        place = {"node_name": "n1"} if name == "done" else {"requests": {"cpu": "99"}}
        raw = pod(f"{name}-{number}", labels={"sakkara.group.name": name}, **place)
        raw["metadata"]["creationTimestamp"] = f"2026-01-01T00:0{number}:00Z"
        condition = {"type": "PodScheduled", "status": "True"}
        condition["lastTransitionTime"] = f"2026-01-01T00:0{number + 2}:00Z"
        raw["status"] = {"conditions": [condition] if name == "done" else []}
        pods.append(raw)

    def later(drawn):
        drawn["about"]["about"]["at"] = NO_TIME + 600

    work, _ = shown([node("n1", cpu="4"), *groups, *pods], changed=later)
    page = PageSite(work.feed, work.answers)
    address = await page.start()
    async with browser(chromium) as tab:
        await tab.open(address)
        await tab.run("location.hash = '#/groups'")
        await tab.until("document.querySelectorAll('.groups tbody tr').length === 2")
        found = await tab.run(
            "[...document.querySelectorAll('.groups tbody tr')]"
            ".map((one) => [one.querySelector('strong').innerText, one.cells[5].innerText])"
        )
        assert [["default/waiting", "7 m"], ["default/done", "6 m"]] == found
        assert [] == tab.problems
    await page.stop()


async def test_names_are_never_markup(chromium):
    """Text from users in names or messages is shown literally."""

    def worse(drawn):
        waiting = dict(drawn["pods"]["default/p-huge"], message=HOSTILE, group=HOSTILE)
        drawn["pods"] = {f"default/{HOSTILE}": waiting, f"default/{LTR}": waiting}
        drawn["units"]["a"]["name"] = HOSTILE
        drawn["about"]["about"]["notices"] = [HOSTILE]
        drawn["applications"] = {HOSTILE: drawn["applications"]["default/shop"]}
        drawn["ways"] = {"x": dict(next(iter(drawn["ways"].values())), origin=HOSTILE)}

    work, _ = shown(objects(), changed=worse)

    async def planned(_at):
        return {"groups": [msgspec.to_builtins(GROUP)], "queueOrder": [], "pods": []}

    async def decided():
        moment = {"at": 1.0, "until": 2.0, "times": 2, "pod": HOSTILE, "node": None}
        return {"moments": [{**moment, "message": HOSTILE, "victims": [HOSTILE]}]}

    async def explained(_pod, _at):
        return {"explanation": EXPLANATION, "notices": [HOSTILE]}

    answers = work.answers._replace(plan=planned, moments=decided, explain=explained)
    page = PageSite(work.feed, answers)
    address = await page.start()
    async with browser(chromium) as tab:
        await tab.open(address)
        for view in ("cluster", "groups", "network", "queue", "time", "pod/x"):
            await tab.run(f"location.hash = '#/{view}'")
            await tab.until(
                f"document.querySelector('main').textContent.includes({json.dumps(HOSTILE)})"
            )
            assert 0 == await tab.run("document.querySelectorAll('main img, main script').length")
        await tab.run("location.hash = '#/queue'")
        await tab.until("document.querySelector('.wait button')")
        await tab.run("document.querySelector('.wait button').click()")  # the members of the group
        await tab.until(f"document.querySelector('main').textContent.includes({json.dumps(LTR)})")
        assert "broken" not in await tab.run("document.title")
        assert [] == tab.problems
    await page.stop()


EXPLANATION = {
    "result": "Unschedulable",
    "profile": HOSTILE,
    "node": None,
    "currentNode": HOSTILE,
    "message": HOSTILE,
    "victims": [{"namespace": "default", "name": HOSTILE}],
    "nodes": [
        {
            "name": HOSTILE,
            "feasible": False,
            "rejectedBy": HOSTILE,
            "scores": {},
            "total": None,
            "plugins": {HOSTILE: {"reasons": [HOSTILE]}},
            "reasons": [HOSTILE],
            "why": "",
        }
    ],
    "why": {
        "sentence": HOSTILE,
        "conflict": [{"field": HOSTILE, "text": HOSTILE}],
        "suggestions": [{"node": HOSTILE, "text": HOSTILE}],
        "preemption": f"{HOSTILE} again",
        "wokenBy": [HOSTILE],
        "queue": {"place": 1, "waiting": 2, "waitedSeconds": None},
        "runnerUp": {"node": HOSTILE, "behind": 1, "plugins": {HOSTILE: 1}},
    },
}
GROUP = {
    "namespace": "default",
    "name": HOSTILE,
    "status": HOSTILE,
    "shown": HOSTILE,
    "waits": True,
    "placement": {"root": {HOSTILE: {HOSTILE: {}}}},
    "conflict": [HOSTILE],
    "message": HOSTILE,
    "minimum": 1,
    "maximum": None,
    "source": HOSTILE,
    "objective": [],
    "bound": [],
    "victims": [{"namespace": "default", "name": HOSTILE}],
}


async def test_signing_in_lasts_until_the_server_answers(chromium):
    """Another view's address keeps the form; no link to a view is above it."""

    async def refused(_request):
        text = json.dumps({"message": "Unauthorized"})
        raise web.HTTPUnauthorized(text=text, content_type="application/json")

    routes = PageRoutes(refused)
    await routes.load()
    app = web.Application()
    app.add_routes(routes.routes("/ui"))
    runner = web.AppRunner(app, shutdown_timeout=1.0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    async with browser(chromium) as tab:
        await tab.open(f"http://127.0.0.1:{runner.addresses[0][1]}/ui/")
        await tab.until("document.querySelector('#token')")
        await tab.run("location.hash = '#/time'")
        await tab.run("new Promise((done) => requestAnimationFrame(() => done()))")
        assert await tab.run("!!document.querySelector('#token')")
        assert not await tab.run("document.querySelector('nav').checkVisibility()")
        assert all("401" in problem for problem in tab.problems)
    routes.stop()
    await runner.cleanup()


async def test_time_marks_changes_of_the_leader(chromium):
    """A change of the leader is marked on the axis and as a text; one before the first decision is
    at the beginning.
    """
    work, _ = shown(objects())
    decided = {"times": 1, "pod": "default/p-one", "node": "n1", "message": "", "victims": []}

    async def moments():
        return {
            "moments": [{**decided, "at": at, "until": at} for at in (100.0, 120.0, 200.0)],
            "leading": [
                {"at": 10.0, "isLeading": True},
                {"at": 150.0, "isLeading": False},
                {"at": 175.0, "isLeading": True},
            ],
        }

    page = PageSite(work.feed, work.answers._replace(moments=moments))
    address = await page.start()
    async with browser(chromium) as tab:
        await tab.open(address)
        await tab.run("location.hash = '#/time'")
        await tab.until("document.querySelectorAll('.moment').length === 3")
        marks = "[...document.querySelectorAll('.axis .m3')].map((one) => one.x.baseVal.value)"
        assert [-1, 499, 749] == await tab.run(marks)
        text = "document.querySelector('.swatches').innerText"
        assert "3 changes of the leader; this scheduler leads since" in await tab.run(text)
        assert [] == tab.problems
    await page.stop()


async def test_links_pass_beside_the_boxes_of_other_workloads(chromium):
    """A dependency over several columns has its own path in each column between."""
    names = ["a", "b", "c", "d", "e"]
    links = [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d"), ("a", "e"), ("e", "d"), ("b", "d")]
    record = {"from": "", "to": "", "bandwidth": "1M", "cost": None}
    app = {
        "workloads": {one: {"zone": 1} for one in names},
        "dependencies": [record | {"from": one, "to": other} for one, other in links],
    }

    def layered(drawn):
        drawn["applications"] = {"default/x": app}

    work, _ = shown(objects(), changed=layered)
    page = PageSite(work.feed, work.answers)
    address = await page.start()
    async with browser(chromium) as tab:
        await tab.open(address)
        await tab.run("location.hash = '#/network'")
        await tab.until("document.querySelector('svg.graph .box')")
        crossed = await tab.run(
            "[...document.querySelectorAll('svg.graph path')].flatMap((path) => {"
            " const length = path.getTotalLength();"
            " return [...document.querySelectorAll('svg.graph .box')].filter((box) => {"
            "  const { x, y, width, height } = box.getBBox();"
            "  return Array.from({ length: 200 }, (_, at) =>"
            "    path.getPointAtLength(length * at / 200)).some((p) => p.x > x + 1 &&"
            "    p.x < x + width - 1 && p.y > y + 1 && p.y < y + height - 1);"
            " }).map((box) => path.parentNode.querySelector('title').textContent);"
            "})"
        )
        assert [] == crossed
        assert len(links) == await tab.run("document.querySelectorAll('svg.graph path').length")
    await page.stop()


@pytest.mark.skipif(not AXE.exists(), reason="needs axe-core (make page-tools)")
async def test_axe_finds_nothing_serious(chromium):
    """axe reports no serious violation in any view, in both colour schemes."""
    work, _ = shown(objects())
    page = PageSite(work.feed, work.answers)
    address = await page.start()
    async with browser(chromium) as tab:
        for dark in (False, True):
            await tab.look(dark=dark)
            await tab.open(address)
            await tab.run(AXE.read_text())
            for view, there in VIEWS.items():
                await tab.run(f"location.hash = '#/{view}'")
                await tab.until(there)
                found = await tab.run(
                    "axe.run().then((result) => result.violations"
                    ".filter((one) => ['serious', 'critical'].includes(one.impact))"
                    ".map((one) => one.id + ': ' + one.nodes.map((each) => each.html).join(' | ')))"
                )
                assert [] == found, f"{view}, dark: {dark}"
    await page.stop()


@pytest.mark.perf
@pytest.mark.parametrize(
    ("nodes", "pods", "most_s"), [(1000, 5000, 2.0), (5000, 100_000, 6.0)], ids=str
)
async def test_large_clusters_stay_usable(chromium, nodes, pods, most_s):
    """Large clusters load in time, and the page draws thirty frames a second while pods arrive."""
    work, drawn = await asyncio.to_thread(shown, cluster(nodes, pods))
    page = PageSite(work.feed, work.answers)
    address = await page.start()
    async with browser(chromium) as tab:
        await tab.look()
        began = asyncio.get_running_loop().time()
        await tab.open(address)
        await tab.until("document.querySelector('.unit button')")
        loaded_s = asyncio.get_running_loop().time() - began
        frames = tab.run(
            "new Promise((done) => { let count = 0; const began = performance.now();"
            " const next = () => { count++; const s = (performance.now() - began) / 1000;"
            " s > 5 ? done(count / s) : requestAnimationFrame(next); }; next(); })"
        )
        counting = asyncio.create_task(frames)
        for turn in range(10):
            arrived = {f"default/new-{turn}-{at}": {"node": "node-00000"} for at in range(50)}
            drawn = {**drawn, "pods": drawn["pods"] | arrived}
            work.feed.publish(drawn)
            await asyncio.wait({counting}, timeout=0.4)
        rate = await counting
        print(f"{nodes} nodes, {pods} pods: loaded in {loaded_s:.2f} s, {rate:.0f} frames/s")
        assert [] == tab.problems
    await page.stop()
    assert loaded_s <= most_s
    assert rate >= 30
