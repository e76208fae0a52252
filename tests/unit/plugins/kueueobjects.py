"""Pod groups of Kueue and its Topologies, short to write."""

from typing import Any

from scheduler.testing import node
from tests.unit.simulate.asking import pod

Manifest = dict[str, Any]
K = "kueue.x-k8s.io/"
ZONE, RACK, HOST = (
    "topology.kubernetes.io/zone",
    "topology.trellis.dev/rack",
    "kubernetes.io/hostname",
)


def member(
    name: str, group: str, total: int | str, *, cpu: str = "1", labels: Any = None,
    spec: Any = None,
    **asked: str,
) -> Manifest:  # fmt: skip
    """Return an admitted pod of a group; `asked` are annotations, with `_` for `-`."""
    made: Manifest = pod(
        name,
        labels={f"{K}pod-group-name": group, **(labels or {})},
        requests={"cpu": cpu},
        spec=spec,
    )
    annotations = {f"{K}pod-group-total-count": str(total)} if total else {}
    annotations |= {f"{K}{key.replace('_', '-')}": text for key, text in asked.items()}
    made["metadata"]["annotations"] = annotations
    return made


def members(group: str, total: int, count: int = 0, /, **more: Any) -> list[Manifest]:
    """Return the pods of a group, `count` of them or all."""
    return [member(f"{group}-{at}", group, total, **more) for at in range(count or total)]


def topology(name: str, *labels: str) -> Manifest:
    """Return a Topology of Kueue; its last level are the nodes."""
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "Topology",
        "metadata": {"name": name},
        "spec": {"levels": [{"nodeLabel": one} for one in (*labels, HOST)]},
    }


def nodes(cpu: int = 2) -> list[Manifest]:
    """Return two zones of two racks of two nodes, whose racks have the same names in both zones."""
    return [
        node(
            f"{zone}{rack}{at}", cpu=str(cpu), memory="64Gi", pods="110",
            labels={ZONE: zone, RACK: rack, HOST: f"{zone}{rack}{at}"},
        )
        for zone in "ab"
        for rack in "rs"
        for at in range(2)
    ]  # fmt: skip
