"""What `snapshot` says of objects that it took in and that will not count, in words.

Pure text: each function takes what was found and returns sentences for people, no longer than a few
names.
"""

from collections.abc import Mapping

from scheduler.objects.node import Node
from scheduler.objects.pod import Pod


def astray(bound: list[Pod], nodes: list[Node]) -> list[str]:
    """Return what to call the pods whose node is not in the snapshot."""
    known = {node.metadata.name for node in nodes}
    return [
        f"{pod.key} (node {pod.spec.node_name})" for pod in bound if pod.spec.node_name not in known
    ]


def notices(
    passed_over: Mapping[str, int], leaving: list[str], astray: list[str]
) -> tuple[str, ...]:
    """Return a sentence for each way of not counting that some object has."""
    found = []
    if passed_over:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(passed_over.items()))
        found.append(f"without bearing on where pods go: {kinds}")
    if leaving:
        found.append(f"not to be placed, as they are being deleted: {_some(leaving)}")
    if astray:
        found.append(
            f"on nodes that are not in the snapshot, so they count nowhere: {_some(astray)}"
        )
    return tuple(found)


def _some(names: list[str]) -> str:
    rest = len(names) - 10
    return ", ".join(names[:10]) + (f" and {rest} more" if rest > 0 else "")
