"""The metrics pages: readable by Prometheus in both forms, and never blocking."""

import asyncio
import math
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open
from prometheus_client.parser import text_string_to_metric_families as parse_text

from scheduler.base.meters import Meters
from scheduler.base.meters.exposition import OPENMETRICS, TEXT, number, render
from scheduler.serve import PodResources
from scheduler.serve.metrics import PODS_PER_PIECE, wants_openmetrics
from tests.unit.serve.conftest import PODS, House

PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;q=0.4,"
    "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)


def fill(meters: Meters) -> None:
    """Give every metric of the table a value or two, with labels that are hard to write."""
    for attribute, spec in Meters.table().items():
        row = getattr(meters, attribute)
        labels = [f'{name} "quoted" \\ back\nline é' for name in spec.labels]
        value = row.labels(*labels) if labels else row
        if spec.kind == "histogram":
            value.observe(0.0)
            value.observe(spec.buckets[3])
            value.observe(math.inf)
        elif spec.kind == "gauge":
            value.set(-1.5)
        else:
            value.inc(3)


def lint(families: list[Metric]) -> list[str]:
    """Return what a linter of expositions would complain about."""
    faults = []
    names = [family.name for family in families]
    faults += [f"{name} twice" for name in names if names.count(name) > 1]
    for family in families:
        if not family.documentation:
            faults.append(f"{family.name} has no help")
        if family.type == "unknown":
            faults.append(f"{family.name} has no type")
        seen = [(s.name, tuple(sorted(s.labels.items()))) for s in family.samples]
        faults += [f"{sample} twice" for sample in seen if seen.count(sample) > 1]
        if family.type == "histogram":
            faults += _histogram_faults(family)
    return faults


def _histogram_faults(family: Metric) -> list[str]:
    buckets = [s for s in family.samples if s.name.endswith("_bucket")]
    bounds = [float(s.labels["le"]) for s in buckets]
    counts = [s.value for s in buckets]
    total = next(s.value for s in family.samples if s.name.endswith("_count"))
    return [
        f"{family.name}: {fault}"
        for fault, found in {
            "bounds not ascending": bounds != sorted(bounds),
            "no +Inf bucket": not math.isinf(bounds[-1]),
            "counts fall": counts != sorted(counts),
            "count differs from +Inf": counts[-1] != total,
        }.items()
        if found
    ]


@pytest.mark.parametrize("accept", ["", "text/plain", PROMETHEUS, "application/openmetrics-text"])
async def test_exposition_passes_the_parsers(house: House, accept: str):
    """Every metric of the table, and those of the process, parse and lint clean in both forms."""
    fill(house.meters)
    async with house.serving() as visitor:
        visitor.token = "good"
        status, headers, text = await visitor.get("/metrics", headers={"Accept": accept})

    is_open = "openmetrics" in accept
    families = list((parse_open if is_open else parse_text)(text))

    assert 200 == status
    assert (OPENMETRICS if is_open else TEXT) == headers["Content-Type"]
    assert [] == lint(families)
    # The parsers name a counter without its suffix.
    found = {f.name for f in families}
    assert {spec.name.removesuffix("_total") for spec in Meters.table().values()} <= found
    assert {"process_cpu_seconds", "process_resident_memory_bytes", "python_info"} <= found


async def test_values_arrive_as_they_were_counted(house: House):
    """What was observed is what a reader of either form sees, labels escaped and back."""
    labels = ('p"\\\n1', "Filter", "Success")
    value = house.meters.plugin_execution_duration.labels(*labels)
    for seconds in (0.0, 0.00001, 0.0000101, 7.0):
        value.observe(seconds)
    parsers = {False: parse_text, True: parse_open}
    for is_open, parse in parsers.items():
        text = render(house.meters.collect(), openmetrics=is_open) + "# EOF\n" * is_open
        name = "scheduler_plugin_execution_duration_seconds"
        family = next(f for f in parse(text) if f.name == name)
        counts = {s.labels["le"]: s.value for s in family.samples if s.name.endswith("_bucket")}

        assert {"plugin": labels[0], "extension_point": labels[1], "status": labels[2]} == {
            key: item for key, item in family.samples[0].labels.items() if key != "le"
        }
        assert [2, 3, 4] == [counts["1e-05"], counts["1.5000000000000002e-05"], counts["+Inf"]]
        assert 7.0000201 == next(s.value for s in family.samples if s.name.endswith("_sum"))


def test_bounds_are_spelled_as_kube_scheduler_spells_them():
    """Text says le="1", so that sums over both schedulers by le agree; OpenMetrics wants le="1.0"."""
    meters = Meters()
    meters.pod_scheduling_attempts.observe(1)

    assert 'scheduler_pod_scheduling_attempts_bucket{le="1"} 1' in render(
        meters.collect(), openmetrics=False
    )
    assert 'scheduler_pod_scheduling_attempts_bucket{le="1.0"} 1' in render(
        meters.collect(), openmetrics=True
    )


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", False),
        ("*/*", False),
        (PROMETHEUS, True),
        ("application/openmetrics-text", True),
        ("application/openmetrics-text; version=1.0.0", True),
        ("application/openmetrics-text; version=0.0.1", False),
        ("application/openmetrics-text;q=0.1,text/plain;q=0.9", False),
        ("application/openmetrics-text;q=0", False),
        ("application/openmetrics-text;q=x", False),
        ("text/html,application/json;q", False),
    ],
)
def test_form_follows_accept(accept: str, expected: bool):
    """OpenMetrics goes to who prefers its version 1.0.0; everybody else gets the text form."""
    assert expected == wants_openmetrics(accept)


@given(st.text())
def test_any_accept_header_is_understood(accept: str):
    """No Accept header makes the choice fail."""
    assert wants_openmetrics(accept) in (True, False)


@given(st.floats())
def test_numbers_come_back(value: float):
    """A number that was written reads as the same number."""
    back = float(number(value))

    assert back == value or (math.isnan(back) and math.isnan(value))


async def test_broken_owner_costs_its_own_metric_only(house: House):
    """A gauge whose owner raises, or answers in another shape, is left out and counted."""
    house.meters.pending_pods.read_from(lambda: 1 // 0)  # type: ignore[arg-type,return-value]
    house.meters.cache_size.read_from(lambda: {("nodes", "extra"): 1})
    house.meters.preemption_attempts.inc()
    async with house.serving() as visitor:
        visitor.token = "good"
        text = await visitor.page("/metrics")

    assert "scheduler_pending_pods{" not in text
    assert 'trellis_scrape_errors_total{metric="scheduler_pending_pods"} 1' in text
    assert 'trellis_scrape_errors_total{metric="scheduler_cache_size"} 1' in text
    assert "scheduler_preemption_attempts_total 1" in text


async def test_resources_of_pods(house: House):
    """One line per pod and resource, with kube-scheduler's labels and units, zero left out."""
    async with house.serving() as visitor:
        visitor.token = "good"
        text = await visitor.page("/metrics/resources")
        open_text = await visitor.page(
            "/metrics/resources", headers={"Accept": "application/openmetrics-text"}
        )

    a = 'namespace="default",pod="a",node="n1",scheduler="trellis",priority="0"'
    b = 'namespace="default",pod="b",node="",scheduler="trellis",priority=""'
    request, limit = "kube_pod_resource_request", "kube_pod_resource_limit"
    assert [line for line in text.splitlines() if not line.startswith("#")] == [
        f'{request}{{{a},resource="cpu",unit="cores"}} 0.25',
        f'{request}{{{a},resource="memory",unit="bytes"}} 1024',
        f'{request}{{{b},resource="example.com/gpu",unit=""}} 2',
        f'{limit}{{{a},resource="cpu",unit="cores"}} 1',
    ]
    assert [] == lint(list(parse_text(text)))
    assert [] == lint(list(parse_open(open_text)))


async def test_resources_page_of_a_process_that_does_not_lead_is_empty(house: House):
    """No pods, no output: not even headers."""
    async with house.serving(pod_resources=lambda: iter(())) as visitor:
        visitor.token = "good"

        assert "" == await visitor.page("/metrics/resources")


async def test_large_resources_page_lets_the_loop_go_on(house: House):
    """Other work gets its turn between pieces of the page."""
    pieces = 20
    turns_seen: list[int] = []
    turns = 0

    def pods() -> Iterator[PodResources]:
        for count in range(pieces * PODS_PER_PIECE):
            if count % PODS_PER_PIECE == 0:
                turns_seen.append(turns)
            yield PODS[0]._replace(pod=f"p{count}")

    async def other_work() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with house.serving(pod_resources=pods) as visitor:
        visitor.token = "good"
        task = asyncio.create_task(other_work())
        text = await visitor.page("/metrics/resources")
        task.cancel()

    assert 3 * pieces * PODS_PER_PIECE == text.count("\nkube_pod_resource") + text.startswith("k")
    assert len(set(turns_seen)) == len(turns_seen) == 2 * pieces


async def test_provider_that_fails_half_way_breaks_the_connection(house: House):
    """A reader must not take half a page for a whole one."""

    def pods() -> Iterator[PodResources]:
        yield from PODS * PODS_PER_PIECE
        raise KeyError("gone")

    async with house.serving(pod_resources=pods) as visitor:
        visitor.token = "good"
        with pytest.raises(Exception, match=r"payload|Response|disconnected"):
            await visitor.get("/metrics/resources")
