"""A node table and a pod index as plain data by node name, for comparisons."""

from typing import Any

import numpy as np

from scheduler.objects.pod import ContainerPort, NodeSelectorRequirement
from scheduler.state.podindex import PodIndex
from scheduler.state.table import NodeTable

LABEL_KEYS = ("zone", "disk", "number", "nowhere")
REQUIREMENTS = (
    NodeSelectorRequirement("zone", "In", ("a", "b")),
    NodeSelectorRequirement("zone", "NotIn", ("a",)),
    NodeSelectorRequirement("disk", "Exists"),
    NodeSelectorRequirement("disk", "DoesNotExist"),
    NodeSelectorRequirement("number", "Gt", ("4",)),
    NodeSelectorRequirement("number", "Lt", ("4",)),
)
IMAGES = ("app:1", "app:2", "web:1")
PORTS = (
    ContainerPort(host_port=80),
    ContainerPort(host_port=80, host_ip="10.0.0.1"),
    ContainerPort(host_port=80, protocol="UDP"),
    ContainerPort(host_port=443, host_ip="10.0.0.2"),
)


def row_picture(table: NodeTable, row: int) -> dict[str, Any]:
    """Return all values of one row in the columns; amounts of 0 are left out."""
    names = table.resources
    size = table.size
    labels = {key: table.labels.column(key) for key in LABEL_KEYS}
    present = {image: table.images.present(image, size) for image in IMAGES}
    return {
        "allocatable": {n: int(v) for n in names if (v := table.allocatable(n)[row])},
        "requested": {n: int(v) for n in names if (v := table.requested(n)[row])},
        "scored": [int(table.scored("cpu")[row]), int(table.scored("memory")[row])],
        "unschedulable": bool(table.unschedulable[row]),
        "labels": {
            key: column.values[column.ids[row]]
            for key, column in labels.items()
            if column.ids[row] >= 0
        },
        "integers": int(table.labels.integers("number", -7)[row]),
        "masks": [bool(table.labels.mask(r)[row]) for r in REQUIREMENTS],
        "taints": table.taints.sets[table.taints.ids[row]],
        "images": [name for name, column in present.items() if column is not None and column[row]],
        "ports": [bool(table.ports.conflicts([port], size)[row]) for port in PORTS],
    }


def table_picture(table: NodeTable) -> dict[str, Any]:
    """Return the picture of every node by name."""
    rows = {name: row_picture(table, row) for name, row in table.rows.items()}
    for name, row in table.rows.items():
        rows[name]["hash"] = int(table.name_hash[row])
        rows[name]["node"] = table.nodes[row]
    return rows


def image_holders(table: NodeTable) -> dict[str, int]:
    """Return how many nodes hold each image."""
    found = {}
    for image in IMAGES:
        present = table.images.present(image, table.size)
        found[image] = 0 if present is None else int(np.count_nonzero(present))
        assert table.images.holds(image) == bool(found[image])
    return found


def pods_picture(pods: PodIndex) -> dict[str, Any]:
    """Return every placed pod by uid, and check that both of its indexes agree."""
    by_uid = {p.pod.metadata.uid: (p.pod, p.node, p.requests, p.assumed) for p in pods}
    by_node = {uid: node for node in pods.nodes() for uid in pods.on(node)}
    assert by_node == {uid: node for uid, (_, node, _, _) in by_uid.items()}
    assert len(pods) == len(by_uid)
    return by_uid


EMPTY_ROW = {
    "allocatable": {},
    "requested": {},
    "scored": [0, 0],
    "unschedulable": False,
    "labels": {},
    "integers": -7,
    "masks": [False, True, False, True, False, False],
    "taints": (),
    "images": [],
    "ports": [False] * len(PORTS),
}
