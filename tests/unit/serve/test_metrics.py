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

from scheduler.base.meters import Meters, Trace
from scheduler.base.meters.exposition import ExpositionForm
from scheduler.serve import PodResources
from scheduler.serve.metrics import PODS_PER_PIECE
from tests.unit.serve.conftest import PODS, ServerRig

TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPEN = "application/openmetrics-text"
PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;q=0.4,"
    "text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)


def page(meters: Meters, accept: str = "") -> str:
    """Return the page of these meters for a reader."""
    return ExpositionForm(accept).page(meters.collect()).decode()


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
    """Return the complaints of a linter of expositions."""
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
async def test_exposition_passes_the_parsers(rig: ServerRig, accept: str):
    """Every metric of the table, and those of the process, parse and lint clean in both forms."""
    fill(rig.meters)
    async with rig.serving() as visitor:
        visitor.token = "good"
        status, headers, text = await visitor.get("/metrics", headers={"Accept": accept})

    is_open = "openmetrics" in accept
    families = list((parse_open if is_open else parse_text)(text))

    assert 200 == status
    assert headers["Content-Type"].startswith(f"{OPEN}; version=1.0.0" if is_open else TEXT)
    assert [] == lint(families)
    # The parsers name a counter without its suffix.
    found = {f.name for f in families}
    assert {spec.name.removesuffix("_total") for spec in Meters.table().values()} <= found
    assert {"process_cpu_seconds", "process_resident_memory_bytes", "python_info"} <= found


async def test_values_arrive_as_they_were_counted(rig: ServerRig):
    """Observed values are read back in either form, labels escaped and unescaped."""
    labels = ('p"\\\n1', "Filter", "Success")
    value = rig.meters.plugin_execution_duration.labels(*labels)
    for seconds in (0.0, 0.00001, 0.0000101, 7.0):
        value.observe(seconds)
    parsers = {False: parse_text, True: parse_open}
    for is_open, parse in parsers.items():
        text = page(rig.meters, OPEN if is_open else "")
        name = "scheduler_plugin_execution_duration_seconds"
        family = next(f for f in parse(text) if f.name == name)
        counts = {s.labels["le"]: s.value for s in family.samples if s.name.endswith("_bucket")}

        assert {"plugin": labels[0], "extension_point": labels[1], "status": labels[2]} == {
            key: item for key, item in family.samples[0].labels.items() if key != "le"
        }
        assert [2, 3, 4] == [counts["1e-05"], counts["1.5000000000000002e-05"], counts["+Inf"]]
        assert 7.0000201 == next(s.value for s in family.samples if s.name.endswith("_sum"))


def test_bounds_are_spelled_as_kube_scheduler_spells_them():
    """Text has le="1", so that sums over both schedulers by le agree.

    OpenMetrics requires le="1.0".
    """
    meters = Meters()
    meters.pod_scheduling_attempts.observe(1)

    assert 'scheduler_pod_scheduling_attempts_bucket{le="1"} 1.0' in page(meters)
    assert 'scheduler_pod_scheduling_attempts_bucket{le="1.0"} 1.0' in page(meters, OPEN)


def test_a_traced_observation_is_the_example_of_its_bucket():
    """OpenMetrics names the last trace of each bucket; the text form has no field for it."""
    meters = Meters()
    family = meters.pod_scheduling_sli_duration.labels("1")
    for value, trace in ((0.015, Trace("ab", 7.25)), (0.016, Trace("cd", 8.5)), (0.017, None)):
        family.observe(value, trace)
    family.observe(99.0, Trace("ef", 9.0))
    name = "scheduler_pod_scheduling_sli_duration_seconds"
    open_page = parse_open(page(meters, OPEN))
    samples = next(one for one in open_page if one.name == name).samples
    reported = {
        s.labels["le"]: s.exemplar for s in samples if s.name.endswith("_bucket") and s.exemplar
    }

    assert {
        "0.02": ({"trace_id": "cd"}, 0.016, 8.5),
        "163.84": ({"trace_id": "ef"}, 99.0, 9.0),
    } == {end: (seen.labels, seen.value, float(seen.timestamp)) for end, seen in reported.items()}
    assert "trace_id" not in page(meters)


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", False),
        ("*/*", False),
        (PROMETHEUS, True),
        (OPEN, True),
        (f"{OPEN}; version=1.0.0", True),
        (f"{OPEN}; version=0.0.1", False),
        (f"{OPEN}; version=one", False),
        ("text/html,application/json;q", False),
    ],
)
def test_form_follows_accept(accept: str, expected: bool):
    """OpenMetrics is sent if the request accepts a supported version.

    All others get the text form.
    """
    form = ExpositionForm(accept)

    assert expected == (form.end == b"# EOF\n") == (TEXT != form.content_type)


@given(st.text())
def test_any_accept_header_is_understood(accept: str):
    """No Accept header makes the choice fail."""
    assert ExpositionForm(accept).content_type


@given(st.floats())
def test_numbers_come_back(value: float):
    """A number that was written reads as the same number."""
    meters = Meters()
    meters.events_queued.set(value)
    (back,) = (
        f.samples[0].value for f in parse_text(page(meters)) if f.name.endswith("events_queued")
    )

    assert back == value or (math.isnan(back) and math.isnan(value))


def test_a_label_that_is_no_text_spoils_nothing():
    """A plugin may use any name: characters that cannot be encoded are written as question
    marks.
    """
    meters = Meters()
    meters.plugin_errors.labels("\ud800", "Filter").inc()

    assert 'plugin="?"' in page(meters)


async def test_broken_owner_costs_its_own_metric_only(rig: ServerRig):
    """A gauge whose owner raises, or returns another shape, is left out and counted."""
    rig.meters.pending_pods.read_from(lambda: 1 // 0)  # type: ignore[arg-type,return-value]
    rig.meters.cache_size.read_from(lambda: {("nodes", "extra"): 1})
    rig.meters.preemption_attempts.inc()
    async with rig.serving() as visitor:
        visitor.token = "good"
        text = await visitor.page("/metrics")

    assert "scheduler_pending_pods{" not in text
    assert 'trellis_scrape_errors_total{metric="scheduler_pending_pods"} 1.0' in text
    assert 'trellis_scrape_errors_total{metric="scheduler_cache_size"} 1.0' in text
    assert "scheduler_preemption_attempts_total 1.0" in text


async def test_resources_of_pods(rig: ServerRig):
    """Each pod and resource has one line, with kube-scheduler's labels and units; zeros are left
    out.
    """
    async with rig.serving() as visitor:
        visitor.token = "good"
        text = await visitor.page("/metrics/resources")
        open_text = await visitor.page(
            "/metrics/resources", headers={"Accept": "application/openmetrics-text"}
        )

    def line(kind: str, value: float, *labels: str) -> tuple[str, dict[str, str], float]:
        names = ("namespace", "pod", "node", "scheduler", "priority", "resource", "unit")
        return f"kube_pod_resource_{kind}", dict(zip(names, labels, strict=True)), value

    a, b = ("default", "a", "n1", "trellis", "0"), ("default", "b", "", "trellis", "")
    for families in (list(parse_text(text)), list(parse_open(open_text))):
        assert [] == lint(families)
        assert [
            line("request", 0.25, *a, "cpu", "cores"),
            line("request", 1024, *a, "memory", "bytes"),
            line("request", 2, *b, "example.com/gpu", ""),
            line("limit", 1, *a, "cpu", "cores"),
        ] == [(s.name, s.labels, s.value) for family in families for s in family.samples]


async def test_resources_page_of_a_process_that_does_not_lead_is_empty(rig: ServerRig):
    """Without pods the output is empty: it has not even headers."""
    async with rig.serving(pod_resources=lambda: iter(())) as visitor:
        visitor.token = "good"

        assert "" == await visitor.page("/metrics/resources")


async def test_large_resources_page_lets_the_loop_go_on(rig: ServerRig):
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

    async with rig.serving(pod_resources=pods) as visitor:
        visitor.token = "good"
        task = asyncio.create_task(other_work())
        text = await visitor.page("/metrics/resources")
        task.cancel()

    assert 3 * pieces * PODS_PER_PIECE == text.count("\nkube_pod_resource") + text.startswith("k")
    assert len(set(turns_seen)) == len(turns_seen) == 2 * pieces


async def test_a_provider_that_fails_in_between_breaks_the_connection(rig: ServerRig):
    """A reader must not take half a page for a complete one."""

    def pods() -> Iterator[PodResources]:
        yield from PODS * PODS_PER_PIECE
        raise KeyError("gone")

    async with rig.serving(pod_resources=pods) as visitor:
        visitor.token = "good"
        with pytest.raises(Exception, match=r"payload|Response|disconnected"):
            await visitor.get("/metrics/resources")
