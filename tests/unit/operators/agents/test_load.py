"""The load agent sums up the figures in the kernel's files, for every layout of control groups."""

from pathlib import Path

import pytest

from operators.agents.load.cgroups import Cgroups, PodUse
from operators.agents.load.machine import (
    WITH_CACHE,
    WITH_HOT_CACHE,
    WITHOUT_CACHE,
    ReadingError,
    busy_s,
    used_bytes,
)
from operators.agents.load.sampler import AverageUse, Sampler, Series, UsageSample
from scheduler.objects.plain import read_pod
from scheduler.objects.reports.nodemetric import AggregatePolicy, NodeMetricCollectPolicy
from scheduler.testing.builders import pod

UID = "0f6a3bd0-6b5d-4b3a-9f62-1d2e3c4b5a69"
STAT = "cpu  1000 50 500 9000 77 5 45 300 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n"
MEMINFO = """MemTotal:       16000 kB
MemFree:         2000 kB
MemAvailable:   10000 kB
Inactive(file):  5000 kB
"""
MEMORY_STAT = "anon 100\ninactive_file 300\nactive_file 200\n"
OLD_MEMORY_STAT = "cache 500\ntotal_inactive_file 300\ntotal_active_file 200\n"


def put(path: Path, text: object) -> None:
    """Write a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


def unified(root: Path, group: str, cpu_us: int, memory: int = 1000) -> None:
    """Make a group of version 2."""
    put(root / "cgroup.controllers", "cpu memory")
    put(root / group / "cpu.stat", f"usage_usec {cpu_us}\nuser_usec 1")
    put(root / group / "memory.current", memory)
    put(root / group / "memory.stat", MEMORY_STAT)


def split(root: Path, group: str, cpu_ns: int) -> None:
    """Make a group of version 1."""
    put(root / "cpuacct" / group / "cpuacct.usage", cpu_ns)
    put(root / "memory" / group / "memory.usage_in_bytes", 1000)
    put(root / "memory" / group / "memory.stat", OLD_MEMORY_STAT)


def test_busy_time_leaves_out_idling_waiting_and_what_others_took():
    """Only this machine's own work counts; a tick is a hundredth of a second."""
    assert busy_s(STAT) == (1000 + 50 + 500 + 5 + 45) / 100


@pytest.mark.parametrize("text", ["", "cpu 1 2", "intr 5 6 7 8 9 1 2 3", "cpu a b c d e f g h"])
def test_a_file_of_another_form_is_an_error(text):
    """No guess is reported."""
    with pytest.raises(ReadingError):
        busy_s(text)
    with pytest.raises(ReadingError):
        used_bytes(text, WITHOUT_CACHE)


@pytest.mark.parametrize(
    ("policy", "kib", "of_pod"),
    [(WITHOUT_CACHE, 6000, 500), (WITH_HOT_CACHE, 9000, 700), (WITH_CACHE, 14000, 1000)],
)
def test_what_counts_as_used_memory_is_chosen(tmp_path, policy, kib, of_pod):
    """The page cache counts completely, if it is hot, or not at all; the same for nodes and
    pods.
    """
    unified(tmp_path, f"kubepods/pod{UID}", 5)

    assert used_bytes(MEMINFO, policy) == kib * 1024
    assert Cgroups(tmp_path).uses(policy)[UID].memory_bytes == of_pod


@pytest.mark.parametrize(
    "group",
    [
        f"kubepods/besteffort/pod{UID}",
        f"kubepods/pod{UID}",
        (
            "kubepods.slice/kubepods-burstable.slice/"
            f"kubepods-burstable-pod{UID.replace('-', '_')}.slice"
        ),
        f"kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice",
        f"kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{UID.replace('-', '_')}.slice",
    ],
)
def test_pods_are_found_under_every_name(tmp_path, group):
    """Pods are found with both drivers and both versions; containers below a pod are part of it."""
    new, old = tmp_path / "new", tmp_path / "old"
    unified(new, group, 2_500_000)
    unified(new, f"{group}/container", 1)
    split(old, group, 2_500_000_000)

    expected = {UID: PodUse(2.5, 500)}
    assert Cgroups(new).uses(WITHOUT_CACHE) == expected
    assert Cgroups(old).uses(WITHOUT_CACHE) == expected


def test_a_pod_that_goes_while_it_is_read_is_left_out(tmp_path):
    """The files of the pod are deleted; the other pods are reported."""
    unified(tmp_path, f"kubepods/pod{UID}", 5)
    (tmp_path / "kubepods" / f"pod{UID[:-1]}0").mkdir()

    assert set(Cgroups(tmp_path).uses(WITHOUT_CACHE)) == {UID}
    assert Cgroups(tmp_path / "nowhere").uses(WITHOUT_CACHE) == {}


def filled(keep_s: float, *, every_s: float = 5, until_s: float = 600) -> Series:
    """Return a series of a load that rises by a core every hundred seconds."""
    series = Series(keep_s)
    cpu_s, at = 0.0, 0.0
    while at <= until_s:
        series.add(UsageSample(at, cpu_s, at))
        cpu_s += (at // 100) * every_s
        at += every_s
    return series


def test_averages_are_exact_over_their_window():
    """The usage between the ends of the window, over its length."""
    series = filled(300)

    assert series.average(100) == AverageUse(5.0, 552.5)
    assert series.average(300) == AverageUse(4.0, 452.5)
    assert Series(60).average(60) is None


def test_percentiles_are_of_the_rates_between_looks():
    """A percentile exists only if the samples span half the window."""
    found = filled(300).percentiles(300)

    assert found["p50"].cores == 4.0
    assert found["p99"].cores == 5.0
    assert found["avg"].cores == 4.0
    assert filled(1200, until_s=590).percentiles(1200) == {}
    assert filled(1200, until_s=600).percentiles(1200) != {}


def test_a_counter_that_goes_back_begins_anew():
    """A restarted container must not appear as negative usage."""
    series = Series(60)
    for at, cpu_s in ((0, 100), (5, 105), (10, 1), (15, 6)):
        series.add(UsageSample(at, cpu_s, 0))

    assert series.average(60) == AverageUse(1.0, 0.0)


def test_the_status_contains_node_system_and_pods(tmp_path):
    """Usage of no pod is the system's, also after a pod was deleted.

    Windows without data are empty.
    """
    proc, groups = tmp_path / "proc", tmp_path / "cgroup"
    put(groups / "cgroup.controllers", "cpu memory")
    sampler = Sampler(proc, groups)
    windows = AggregatePolicy(("1m", "30m0s"))
    sampler.follow(NodeMetricCollectPolicy(60, 60, windows))
    assert sampler.status([], 0.0) is None
    for step in range(13):
        ticks = 1000 + step * 5 * 200  # two cores
        put(proc / "stat", f"cpu {ticks} 0 0 0 0 0 0 0 0 0")
        put(proc / "meminfo", MEMINFO)
        if step < 12:
            unified(groups, f"kubepods/pod{UID}", step * 5 * 500_000)  # half a core
        else:
            put(groups / "kubepods" / f"pod{UID}" / "cpu.stat", "usage_usec 29500000")
        sampler.take(sampler.look(), step * 5.0)
    bound = read_pod(pod("p", requests={"cpu": "1"}))
    status = sampler.status([(UID, bound), ("unknown", bound)], 1767225600.5)
    assert status is not None

    assert status["updateTime"] == "2026-01-01T00:00:00Z"
    info = status["nodeMetric"]
    assert info["nodeUsage"]["resources"] == {"cpu": "2000m", "memory": "6000Ki"}
    assert info["systemUsage"]["resources"]["cpu"] in ("1508m", "1509m")
    (one,) = status["podsMetric"]
    assert one["priority"] == "koord-prod"
    assert one["podUsage"]["resources"]["cpu"] in ("491m", "492m")
    short, long = info["aggregatedNodeUsages"]
    assert short["usage"]["p95"]["resources"]["cpu"] == "2000m"
    assert long == {"duration": "30m0s", "usage": {}}


def test_a_pod_that_went_leaves_its_use_with_the_pods(tmp_path):
    """The usage of a deleted pod does not appear as a burst of the system's usage."""
    proc, groups = tmp_path / "proc", tmp_path / "cgroup"
    put(groups / "cgroup.controllers", "cpu memory")
    sampler = Sampler(proc, groups)
    put(proc / "meminfo", MEMINFO)
    for step in range(8):
        put(proc / "stat", f"cpu {1000 + step * 500} 0 0 0 0 0 0 0 0 0")  # one core
        if step < 4:
            unified(groups, f"kubepods/pod{UID}", step * 5_000_000)
        elif step == 4:
            for file in (groups / "kubepods" / f"pod{UID}").iterdir():
                file.unlink()
            (groups / "kubepods" / f"pod{UID}").rmdir()
        sampler.take(sampler.look(), step * 5.0)
    status = sampler.status([], 0.0)
    assert status is not None

    # One core for 35 s, of which the pod used the first 15 s.
    cores = status["nodeMetric"]["systemUsage"]["resources"]["cpu"]
    assert cores == f"{round(1000 * 20 / 35)}m"
