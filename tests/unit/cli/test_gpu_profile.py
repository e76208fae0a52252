"""The profile gpu: GPUs packed, pods without GPUs off GPU nodes while others have capacity."""

import json
from collections import Counter
from pathlib import Path

import pytest
import yaml

from scheduler.cli.main import run
from scheduler.config.presets import GPU, PRESETS
from scheduler.testing import node
from tests.unit.simulate.asking import pod

EXAMPLE = Path("docs/examples/gpu/config.yaml")
DEVICE = "nvidia.com/gpu"


def gpu_node(name):
    """A node of 8 GPUs."""
    made = node(name, cpu="128", memory="2Ti")
    made["status"]["allocatable"][DEVICE] = "8"
    return made


@pytest.fixture
def placed(tmp_path, capsys):
    """Simulate with the profile; return the number of pods of a prefix by node."""
    objects = [
        *(gpu_node(f"gpu-{at}") for at in range(6)),
        *(node(f"cpu-{at}", cpu="32", memory="128Gi") for at in range(2)),
        *(pod(f"serve-{at}", requests={"cpu": "4", DEVICE: "1"}) for at in range(12)),
        *(pod(f"web-{at}", requests={"cpu": "7"}) for at in range(12)),
    ]
    cluster, config = tmp_path / "cluster.yaml", tmp_path / "config.yaml"
    cluster.write_text(yaml.safe_dump_all(objects))
    config.write_text(GPU)
    assert 0 == run(["simulate", "--snapshot", str(cluster), "--config", str(config), "-o", "json"])
    pods = json.loads(capsys.readouterr().out)["pods"]
    return lambda prefix: Counter(one["node"] for one in pods if one["name"].startswith(prefix))


def test_small_jobs_leave_nodes_whole(placed):
    """Twelve pods of one GPU use two nodes of eight."""
    assert [8, 4] == sorted(placed("serve").values(), reverse=True)


def test_pods_without_gpus_use_gpu_nodes_last(placed):
    """Eight of seven CPUs fit the CPU nodes; only the other four go to GPU nodes."""
    found = placed("web")
    assert 8 == sum(count for name, count in found.items() if name.startswith("cpu"))


def test_the_example_and_the_command_line_agree(capsys):
    """One configuration: the file to copy, `--profile gpu`, and the output of `config defaults`."""
    text = "\n".join(line for line in EXAMPLE.read_text().splitlines() if not line.startswith("#"))
    assert yaml.safe_load(GPU) == yaml.safe_load(text)
    assert 0 == run(["config", "defaults", "--profile", "gpu"])
    assert "FragmentationAware" in capsys.readouterr().out
    assert {"default", "gpu"} == set(PRESETS)
    assert 2 == run(["run", "--profile", "gpu", "--config", str(EXAMPLE)])
    assert "goes without --config" in capsys.readouterr().err
