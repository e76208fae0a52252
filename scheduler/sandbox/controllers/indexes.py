"""Completion indexes of Indexed Jobs: how they are given to pods and written in a status."""

from collections.abc import Iterable
from typing import Final

from scheduler.sandbox.api.status import Object

NAME: Final = "batch.kubernetes.io/job-completion-index"
_VARIABLE: Final = "JOB_COMPLETION_INDEX"


def of_pod(pod: Object) -> int:
    """The pod's index, -1 when it has none."""
    text = (pod["metadata"].get("annotations") or {}).get(NAME, "")
    return int(text) if text.isdecimal() else -1


def give(pod: Object, job: str, index: int) -> None:
    """Make a new pod the one of this index: name, annotation, label, hostname and variable."""
    meta, spec = pod["metadata"], pod["spec"]
    meta["generateName"] = f"{job}-{index}-"
    meta["annotations"] = {**(meta.get("annotations") or {}), NAME: str(index)}
    meta["labels"] = {**(meta.get("labels") or {}), NAME: str(index)}
    spec.setdefault("hostname", f"{job}-{index}")
    source = {"fieldRef": {"fieldPath": f"metadata.labels['{NAME}']"}}
    for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
        held = container.setdefault("env", [])
        if not any(entry["name"] == _VARIABLE for entry in held):
            held.append({"name": _VARIABLE, "valueFrom": source})


def written(numbers: Iterable[int]) -> str:
    """Indexes as a status shows them: `0,2-5`."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in parts)
