"""A workload as found in a snapshot, its surroundings, and readers for its fields.

Makers yield plain objects as a controller would write them; the snapshot adds defaults and
admission.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, Final, TypeAlias

import msgspec

from scheduler.base.errors import ObjectError
from scheduler.objects.node import Node
from scheduler.objects.pod import Pod
from scheduler.snapshot.workloads.owned import OwnedPods

Plain: TypeAlias = dict[str, Any]
# A workload with more pods is rejected: it would fill the memory.
MAX_PODS: Final = 100_000


class FoundWorkload(msgspec.Struct, frozen=True):
    """A workload as found: `raw` is plain data, `is_given` marks one given apart from the
    cluster.
    """

    where: str
    kind: str
    raw: Plain
    is_given: bool

    @property
    def meta(self) -> Plain:
        """Return its metadata."""
        return part_of(self.raw, "metadata", "")

    @property
    def spec(self) -> Plain:
        """Return its spec."""
        return part_of(self.raw, "spec", "")

    @property
    def namespace(self) -> str:
        """Return its namespace, by default `default`."""
        return str(self.meta.get("namespace") or "default")

    @property
    def name(self) -> str:
        """Return its name; ObjectError if it has none."""
        name = self.meta.get("name")
        if not isinstance(name, str) or not name:
            raise ObjectError("metadata.name is missing", where=self.kind)
        return name

    @property
    def key(self) -> tuple[str, str, str]:
        """Return kind, namespace and name."""
        return self.kind, self.namespace, self.name

    @property
    def title(self) -> str:
        """Return its name in messages."""
        return f"{self.kind} {self.namespace}/{self.name}"

    @property
    def owner(self) -> Plain:
        """Return the object metadata for owner references of its pods.

        An empty uid if it has none.
        """
        uid = self.meta.get("uid") or ""
        return {"metadata": {"namespace": self.namespace, "name": self.name, "uid": uid}}

    def reference(self) -> Plain:
        """Return the controller reference of its pods."""
        return {
            "apiVersion": self.raw.get("apiVersion") or "",
            "kind": self.kind,
            "name": self.name,
            "uid": self.meta.get("uid") or "/".join(self.key),
            "controller": True,
            "blockOwnerDeletion": True,
        }


class SnapshotSurroundings:
    """The rest of a snapshot. Makers add to `removed` and `notices`.

    `admit` returns a plain pod as the API server would return it.
    """

    def __init__(
        self,
        pods: OwnedPods,
        nodes: tuple[Node, ...],
        workloads: Mapping[tuple[str, str, str], FoundWorkload],
        admit: Callable[[Plain], Pod],
    ) -> None:
        self.pods = pods
        self.workloads = workloads
        self.admit = admit
        self.removed: list[Pod] = []
        self.notices: list[str] = []
        self._nodes = nodes

    @cached_property
    def nodes(self) -> list[Plain]:
        """Return the nodes as plain data."""
        return [plain_node(node) for node in self._nodes]

    def free_name(self, namespace: str, name: str) -> str:
        """Return a pod's name, numbered if it is in use, and record its use."""
        taken = self.pods.names.setdefault(namespace, set())
        chosen, number = name, 0
        while chosen in taken:
            number += 1
            chosen = f"{name}-{number}"
        taken.add(chosen)
        return chosen

    def numbered(self, namespace: str, base: str) -> Iterator[str]:
        """Yield the free names `base-0`, `base-1` …, and record their use."""
        taken = self.pods.names.setdefault(namespace, set())
        number = 0
        while True:
            name, number = f"{base}-{number}", number + 1
            if name not in taken:
                taken.add(name)
                yield name


def plain_node(node: Node) -> Plain:
    """Return a node as plain data, with the fields that controllers read."""
    spec: Plain = msgspec.to_builtins(node.spec)
    meta = {"name": node.metadata.name, "labels": dict(node.metadata.labels)}
    taints = [{"value": "", **taint} for taint in spec.get("taints") or ()]
    return {"metadata": meta, "spec": {**spec, "taints": taints}}


def named(made: Plain, namespace: str, name: str) -> Plain:
    """Return a new pod as an object of its own, with namespace and name."""
    meta = {**made["metadata"], "name": name, "namespace": namespace}
    meta.pop("generateName", None)
    meta.setdefault("labels", {})
    meta.setdefault("annotations", {})
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": made["spec"]}


def template_of(spec: Plain, field: str, name: str = "template") -> Plain:
    """Return a pod template; ObjectError when it has no containers."""
    found = part_of(spec, name, field)
    if not part_of(found, "spec", f"{field}.{name}").get("containers"):
        raise ObjectError(f"{field}.{name}.spec.containers is missing")
    meta = part_of(found, "metadata", f"{field}.{name}")
    for part in ("labels", "annotations"):
        part_of(meta, part, f"{field}.{name}.metadata")
    return found


def part_of(raw: Plain, name: str, field: str) -> Plain:
    """Return the object at `name`, empty if it is missing; ObjectError for another type."""
    found = raw.get(name)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise ObjectError(f"{_path(field, name)}: expected an object")
    return found


def list_of(raw: Plain, name: str, field: str) -> list[Plain]:
    """Return the objects at `name`; ObjectError for another type."""
    found = raw.get(name) or []
    if not isinstance(found, list | tuple) or not all(isinstance(one, dict) for one in found):
        raise ObjectError(f"{_path(field, name)}: expected a list of objects")
    return list(found)


def count_of(raw: Plain, name: str, field: str, default: int) -> int:
    """Return the number at `name`; ObjectError unless it is from 0 to MAX_PODS."""
    found = raw.get(name)
    if found is None:
        return default
    if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found <= MAX_PODS:
        raise ObjectError(f"{_path(field, name)}: expected a number from 0 to {MAX_PODS}")
    return found


def _path(field: str, name: str) -> str:
    return f"{field}.{name}" if field else name
