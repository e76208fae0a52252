"""Replace the names in a snapshot's objects by aliases: the same structure, other names.

One table for all kinds: equal names get equal aliases, so selectors still select and references
still refer. Values that are not known to be harmless are replaced. Nodes keep the order of their
names, since it breaks ties between equal nodes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec import convert, to_builtins
from msgspec.structs import replace

from scheduler.objects.kinds import MOVE_PLAN
from scheduler.objects.moves.moveplan import MovePlan, MovePlanStatus, PlannedMove
from scheduler.snapshot.anonymous.hiddendevices import KINDS, DeviceWords, Names
from scheduler.snapshot.export import Object

# Fields whose values are words of the API; times reveal no names either.
_KEPT_FIELDS: Final = re.compile(
    "accessModes|action|apiVersion|completionMode|disruptionMode|duration|durations|effect|kind"
    "|launcherCreationPolicy|maxSurge|maxUnavailable|minAvailable|nodeAffinityPolicy"
    "|nodeMemoryCollectPolicy|nodeTaintsPolicy|operator|persistentVolumeReclaimPolicy|phase"
    "|podManagementPolicy|policyType|preemptionPolicy|protocol|priority|qos|qosClass|reason"
    "|reclaimPolicy|restartPolicy|schedulerName|scope|startupPolicy|startupPolicyOrder|status"
    "|strategy"
    "|topologySortingAlgorithm|type|unhealthyPodEvictionPolicy|volumeBindingMode|volumeMode"
    "|whenDeleted|whenScaled|whenUnsatisfiable|.*Time|.*Timestamp"
)
_AMOUNTS: Final = frozenset(
    ("requests", "limits", "allocatable", "capacity", "overhead", "allocatedResources")
)
_LABELS: Final = frozenset(("labels", "matchLabels", "nodeSelector", "selector"))
_LABEL_KEY_FIELDS: Final = frozenset(
    (
        "topologyKey", "matchLabelKeys", "mismatchLabelKeys", "nodeLabel",
        *(
            f"kueue.x-k8s.io/podset-{what}-topology"
            for what in ("required", "preferred", "slice-required")
        ),
    )
)  # fmt: skip
_IMAGE_FIELDS: Final = frozenset(("image", "reference", "names"))
_KEPT_WORDS: Final = frozenset(
    ("", "default", "true", "false", "yes", "no", "None", "UserDefined", "NetperfCosts")
)
_KEPT_BEGINNINGS: Final = ("kube-", "system-", "kubernetes.io/")
_KEPT_VALUES_OF: Final = ("kubernetes.io/os", "kubernetes.io/arch")
LOAD_DOMAIN: Final = "koordinator.sh"
# Labels and annotations that the scheduler reads, by domain.
_KEPT_DOMAINS: Final = ("kubernetes.io", "k8s.io", "trellis.dev", LOAD_DOMAIN)
_WORDS_OF_GROUPS: Final = "sakkara.group/"
_KUBELET_SETTINGS: Final = "topologyManager"
_NUMBER: Final = re.compile(r"[-+]?\d{1,18}")
# Amounts and durations.
_AMOUNT: Final = re.compile(
    r"[-+]?\d{1,18}(\.\d{1,9})?([numkMGTPE]|[KMGTPE]i)?|(\d{1,9}(\.\d{1,9})?(ms|[hms]))+"
)
_WORD_OF: Final = {
    "Node": "node",
    "Pod": "pod",
    "Namespace": "ns",
    "nodeName": "node",
    "namespace": "ns",
    "namespaces": "ns",
    "uid": "uid",
    "message": "text",
}


class Anonymizer:
    """Rename objects; call `learn` with all of them first, then rename them one by one."""

    def __init__(self) -> None:
        self._aliases: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        self._devices = DeviceWords()

    def learn(self, objects: Iterable[Object]) -> None:
        """Assign aliases to names that must keep their order, or are related."""
        objects = list(objects)
        slices = self._devices.learn(objects)
        nodes: list[str] = []
        claims: list[tuple[str, str]] = []
        for obj in objects:
            name = str(obj["metadata"].get("name", ""))
            if obj["kind"] == "Node":
                nodes.append(name)
            elif obj["kind"] == "Pod":
                volumes = (obj.get("spec") or {}).get("volumes") or ()
                claims += [(name, v.get("name", "")) for v in volumes if v.get("ephemeral")]
        self._number(sorted(nodes), "node")
        self._number(slices, "slice")
        for pod, volume in claims:
            # The claim of an ephemeral volume is found by its name.
            self._aliases[f"{pod}-{volume}"] = f"{self._name(pod, 'pod')}-{self._name(volume)}"

    def _number(self, names: list[str], word: str) -> None:
        """Assign aliases in the order of the names."""
        width = len(str(len(names)))
        for number, name in enumerate(names, 1):
            self._aliases.setdefault(name, f"{word}-{number:0{width}}")
        self._counts[word] = len(names)

    def renamed(self, obj: Object) -> Object:
        """Return an object with aliases for its names."""
        if obj["kind"] == "NodeResourceTopology":
            return self._report(obj)
        if obj["kind"] == MOVE_PLAN.kind:
            return hidden_plan(obj, self)
        if obj["kind"] in KINDS:
            return self._devices.hidden(obj, self)
        hidden: Object = self._value(obj, "", obj["kind"])
        return hidden

    def alias(self, text: str, word: str) -> str:
        """Return the alias of a name."""
        return self._name(text, word)

    def generic(self, value: Any, field: str, kind: str = "") -> Any:
        """Return any part of an object with aliases for its names."""
        return self._value(value, field, kind)

    def _report(self, obj: Object) -> Object:
        """Keep a report's zones, whose names are numbers; drop hashes of pods' names."""
        hidden = {
            name: self._value(value, name, "Node") if name == "metadata" else value
            for name, value in obj.items()
        }
        hidden["zones"] = [_without_pods(zone) for zone in obj.get("zones") or ()]
        return _without_pods(hidden)

    def _value(self, value: Any, field: str, kind: str = "") -> Any:
        if isinstance(value, dict):
            return dict(self._fields(value, field, kind))
        if isinstance(value, list):
            return [self._value(item, field) for item in value]
        if not isinstance(value, str) or _KEPT_FIELDS.fullmatch(field) or _is_load(field):
            return value
        if field in _LABEL_KEY_FIELDS:
            return self._key(value)
        if field in _IMAGE_FIELDS:
            return self._image(value)
        # Names may look like amounts; the other fields contain no such names.
        if field != "name" and _AMOUNT.fullmatch(value):
            return value
        return self._name(value, _WORD_OF.get(field, "name"))

    def _fields(
        self, fields: Mapping[str, Any], field: str, kind: str
    ) -> Iterator[tuple[str, Any]]:
        if field in _AMOUNTS or (field == "resources" and _are_amounts(fields)):
            yield from fields.items()
            return
        if field in _LABELS and all(isinstance(value, str) for value in fields.values()):
            for label, value in fields.items():
                yield self._key(label), self._label(label, value)
            return
        about = fields.get("key")
        key = about if isinstance(about, str) else None
        for name, value in fields.items():
            if key is not None and name == "key":
                yield name, self._key(key)
            elif key is not None and name in ("value", "values"):
                yield name, self._labels(key, value)
            elif field == "annotations" and name.startswith(_WORDS_OF_GROUPS):
                continue  # JSON with keywords that are names in other places
            elif name == "name" and field == "metadata":
                yield name, self._value(value, kind)
            else:
                # A container's image is text, an image volume and a node's images are objects.
                yield name, self._value(value, name, kind if name == "metadata" else "")

    def _labels(self, key: str, value: Any) -> Any:
        if isinstance(value, list):
            return [self._label(key, one) for one in value]
        return self._label(key, value) if isinstance(value, str) else value

    def _label(self, key: str, value: str) -> str:
        if key in _KEPT_VALUES_OF or _is_load(key) or _NUMBER.fullmatch(value):
            return value
        # A volume's zone may be a set of zones.
        return "__".join(self._name(part, "value") for part in value.split("__"))

    def _key(self, key: str) -> str:
        # An AppGroup's labels have no part after the domain.
        domain = key.rpartition("/")[0] or key.removesuffix(".workload")
        if key == "metadata.name" or domain.endswith(_KEPT_DOMAINS):
            return key
        return self._name(key, "label")

    def _image(self, image: str) -> str:
        name, at, digest = image.partition("@")
        has_tag = ":" in name.rpartition("/")[2]
        if at:
            return f"{self._name(name, 'image')}@sha256:{self._name(digest, 'digest')}"
        return (
            image
            if not image
            else f"{self._name(name if has_tag else name + ':latest', 'image')}:1"
        )

    def _name(self, text: str, word: str = "name") -> str:
        if text in _KEPT_WORDS or text.startswith(_KEPT_BEGINNINGS):
            return text
        alias = self._aliases.get(text)
        if alias is None:
            number = self._counts.get(word, 0) + 1
            self._counts[word] = number
            alias = self._aliases[text] = f"{word}-{number}"
        return alias


def _are_amounts(fields: Mapping[str, Any]) -> bool:
    """Return whether a map has amounts, as in measured use, and not requests and limits."""
    return bool(fields) and not any(isinstance(value, dict) for value in fields.values())


def _is_load(key: str) -> bool:
    """Return whether load-aware placement reads a label or annotation: classes and numbers."""
    return key.rpartition("/")[0].endswith(LOAD_DOMAIN)


def _without_pods(part: Object) -> Object:
    """Keep the kubelet's settings among attributes."""
    kept = [
        one
        for one in part.get("attributes") or ()
        if one.get("name", "").startswith(_KUBELET_SETTINGS)
    ]
    return {**part, "attributes": kept} if "attributes" in part else part


def hidden_plan(obj: Object, names: Names) -> Object:
    """Return a MovePlan with aliases for its names: in goals, moves and what they reserve.

    Kept are states, times, amounts and hashes. Texts that state names (reasons, summaries,
    conditions) are left out: no answer depends on them.
    """
    plan = convert(obj, MovePlan)
    free = plan.spec.goal.free_nodes
    labels = names.generic(free.match_labels, "matchLabels") if free else {}
    level = names.generic(free.level, "nodeLabel") if free else ""
    goal = replace(
        plan.spec.goal,
        waiting=_path(plan.spec.goal.waiting, names),
        free_nodes=free and replace(free, level=level, match_labels=labels),
    )
    spaces = tuple(names.alias(one, "ns") for one in plan.spec.namespaces)
    spec = replace(plan.spec, goal=goal, namespaces=spaces)
    known = plan.status
    status = MovePlanStatus(
        phase=known.phase,
        planned_for=known.planned_for,
        plan_hash=known.plan_hash,
        planned_at=known.planned_at,
        started_at=known.started_at,
        finished_at=known.finished_at,
        is_proven=known.is_proven,
        gap_percent=known.gap_percent,
        moves=tuple(_move(one, names) for one in known.moves),
    )
    return {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "metadata": names.generic(obj["metadata"], "metadata", MOVE_PLAN.kind),
        "spec": to_builtins(spec),
        "status": to_builtins(status),
    }


def _move(move: PlannedMove, names: Names) -> PlannedMove:
    # An ordinal is an index, or the name of a pod.
    is_name = not move.ordinal.isdigit()
    owner = replace(
        move.owner,
        name=names.alias(move.owner.name, "name"),
        uid=names.alias(move.owner.uid, "uid"),
    )
    return replace(
        move,
        namespace=names.alias(move.namespace, "ns"),
        name=names.alias(move.name, "pod"),
        uid=names.alias(move.uid, "uid"),
        source=names.alias(move.source, "node"),
        target=names.alias(move.target, "node"),
        owner=owner,
        ordinal=names.alias(move.ordinal, "pod") if is_name else move.ordinal,
        unit=_path(move.unit, names),
        reason="",
        host_ports=tuple(replace(one, name="", host_ip="") for one in move.host_ports),
        present=tuple(names.alias(one, "uid") for one in move.present),
        replacement=names.alias(move.replacement, "pod"),
    )


def _path(text: str, names: Names) -> str:
    """Return `namespace/name` with aliases; the index of a set's pods stays."""
    return "/".join(
        part if part.isdigit() else names.alias(part, "name" if at else "ns")
        for at, part in enumerate(text.split("/"))
    )
