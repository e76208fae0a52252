"""Cluster shapes: a YAML file becomes nodes, and its faults are reported with their place."""

from pathlib import Path

import pytest

from scheduler.base.errors import InputError
from scheduler.sandbox.nodes.durations import seconds
from scheduler.sandbox.nodes.shape import (
    device_slices,
    nodes_of,
    plain_shape,
    read_shape,
    shape_of,
)

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "sandbox" / "shape.yaml"
NOW = "2026-01-01T00:00:00Z"


def test_the_example_is_what_it_says():
    """The documented file gives its nineteen nodes with labels, taints and resources."""
    nodes = {node["metadata"]["name"]: node for node in nodes_of(read_shape(EXAMPLE), NOW)}

    assert 19 == len(nodes)
    worker = nodes["worker-05"]
    assert "zone-c" == worker["metadata"]["labels"]["topology.kubernetes.io/zone"]
    assert "rack-2" == worker["metadata"]["labels"]["topology.trellis.dev/rack"]
    assert "worker-05" == worker["metadata"]["labels"]["kubernetes.io/hostname"]
    assert "15500m" == worker["status"]["allocatable"]["cpu"]
    assert "16" == worker["status"]["capacity"]["cpu"]
    assert 120000000 == worker["status"]["images"][0]["sizeBytes"]
    gpu = nodes["gpu-0"]
    assert "8" == gpu["status"]["allocatable"]["nvidia.com/gpu"]
    assert [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}] == gpu["spec"]["taints"]
    assert nodes["spare-0"]["spec"]["unschedulable"]


def test_nodes_publish_their_devices():
    """One pool per node; placeholders are replaced, and may become numbers."""
    slices = list(device_slices(read_shape(EXAMPLE)))

    assert ["dgx-0", "dgx-1"] == [node for node, _published in slices]
    spec = slices[1][1]["spec"]
    assert {"name": "dgx-1", "generation": 1, "resourceSliceCount": 1} == spec["pool"]
    assert 8 == len(spec["devices"])
    assert {
        "name": "gpu-3",
        "attributes": {
            "model": {"string": "h100"},
            "index": {"int": 3},
            "ecc": {"bool": True},
            "fabric.example.com/clique": {"string": "clique-1"},
            "driverVersion": {"version": "570.1.0"},
        },
        "capacity": {"memory": {"value": "80Gi"}},
    } == spec["devices"][3]


def test_many_devices_take_several_slices():
    """A slice holds 128; the pool has the number of slices."""
    devices = {"driver": "nic.example.com", "count": 300, "name": "vf-{device}"}
    slices = [s for _n, s in device_slices(shape_of({"nodes": [{"devices": [devices]}]}))]

    assert [128, 128, 44] == [len(s["spec"]["devices"]) for s in slices]
    assert {3} == {s["spec"]["pool"]["resourceSliceCount"] for s in slices}
    assert "vf-299" == slices[2]["spec"]["devices"][-1]["name"]


@pytest.mark.parametrize(
    ("devices", "complaint"),
    [
        ({"driver": "GPU_"}, "spec.driver"),
        ({"driver": "d", "name": "gpu"} | {"count": 2}, "Duplicate value"),
        ({"driver": "d", "name": "{nope}"}, "nope"),
        ({"driver": "d", "versions": {"v": "1.2"}}, "semver.org"),
    ],
)
def test_devices_that_no_driver_may_publish(devices, complaint):
    """The message is the API server's, with the place in the file."""
    with pytest.raises(InputError, match=complaint) as refused:
        shape_of({"nodes": [{"devices": [devices]}]}, where="shape.yaml")

    assert "$.nodes[0].devices[0]" in str(refused.value)


def test_plain_nodes_are_spread_over_zones_and_racks():
    """Without a file there are three zones and racks of sixteen, and names sort as numbers."""
    nodes = list(nodes_of(plain_shape(100), NOW))
    names = [node["metadata"]["name"] for node in nodes]

    assert sorted(names) == names
    assert "node-00" == names[0]
    labels = [node["metadata"]["labels"] for node in nodes]
    assert 3 == len({each["topology.kubernetes.io/zone"] for each in labels})
    assert 7 == len({each["topology.trellis.dev/rack"] for each in labels})
    addresses = {node["status"]["addresses"][0]["address"] for node in nodes}
    assert 100 == len(addresses)


@pytest.mark.parametrize(("count", "zones"), [(1, 1), (2, 2), (3, 3), (7, 3), (30, 3)])
def test_few_plain_nodes_are_spread_over_the_zones_as_well(count, zones):
    """Racks are small enough for every zone to have one."""
    labels = [node["metadata"]["labels"] for node in nodes_of(plain_shape(count), NOW)]

    assert zones == len({each["topology.kubernetes.io/zone"] for each in labels})


@pytest.mark.parametrize(
    ("group", "complaint"),
    [
        ({"cpus": 4}, "unknown field `cpus`"),
        ({"count": "many"}, "$.nodes[0].count"),
        ({"cpu": "four"}, "$.nodes[0].cpu"),
        ({"name": "node-{number}"}, "known words: index, zone, rack, region"),
        ({"count": -1}, "must not be negative"),
        ({"zones": []}, "at least one"),
    ],
)
def test_mistakes_are_reported(group, complaint):
    """The message names the field and its fault."""
    with pytest.raises(InputError) as caught:
        shape_of({"nodes": [group]}, where="shape.yaml")

    assert complaint in str(caught.value)
    assert str(caught.value).startswith("shape.yaml: ")


def test_broken_yaml_is_reported_with_line_and_column(tmp_path: Path):
    """A file that is no YAML is refused with its place."""
    path = tmp_path / "shape.yaml"
    path.write_text("nodes:\n- count: [1\n")

    with pytest.raises(InputError, match=r"shape\.yaml:3:1"):
        read_shape(path)


def test_a_name_used_twice_is_refused():
    """Nodes of one group need the index in their name."""
    with pytest.raises(InputError, match="two nodes are named"):
        list(nodes_of(shape_of({"nodes": [{"count": 2, "name": "same"}]}), NOW))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("500ms", 0.5),
        ("1h30m", 5400.0),
        ("2", 2.0),
        ("0", 0.0),
        ("1.5s", 1.5),
        ("", None),
        ("soon", None),
        ("1s x", None),
    ],
)
def test_durations(text, expected):
    """Durations are read in Go's format; other texts are refused."""
    assert expected == seconds(text)
