"""The page of events and conditions: each is made by the function that the daemon makes it by."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from docs.generate import markdown
from scheduler.base import reasons
from scheduler.engine.attempt import failure
from scheduler.engine.effects import Record
from scheduler.engine.queue.pod import QueuedPod
from scheduler.framework.calls import PodEvent, WaitUntil
from scheduler.groups.topology.tree import RESOURCES_CHOOSE_NOTHING
from scheduler.intree import registry
from scheduler.objects.node import Node, NodeMeta
from scheduler.objects.pod import Pod, PodMeta, PodSpec
from scheduler.plugins.loadaware.plugin import silence
from scheduler.state.podindex import place
from scheduler.state.shapes import Shapes

PLUGINS = Path(__file__).parents[2] / "scheduler" / "plugins"

INTRODUCTION = f"""\
# Events and conditions

{markdown.origin("the functions that write them")}

Words in capitals are placeholders.
Events about pods and nodes are `events.k8s.io/v1` with the profile's schedulerName as
`reportingController` and notes of at most 1,024 bytes. A repeated event becomes a series.
Without leader election there is no Lease, and no event about it.

    kubectl events --for pod/NAME
    kubectl get events -A --field-selector reportingComponent=trellis
"""

REASONS = """\
The possible REASONS. Each follows the number of nodes that it rejects; `trellis explain POD`
names them.
"""

_POD: Final = Pod(
    metadata=PodMeta(namespace="NAMESPACE", name="NAME", uid="UID"),
    spec=PodSpec(scheduler_name="PROFILE"),
)
_PLACED: Final = place(_POD, Shapes().of(_POD), "NODE")
_BY: Final = failure.PreemptionRecord(_POD, "NODE", "PLUGIN")
_NODE: Final = Node(metadata=NodeMeta(name="NODE"))
_STARTS: Final = ("node(s) ", "Insufficient ", "Too many ")


class Entry(NamedTuple):
    """One row: an event or a condition, and when it is written."""

    reason: str
    about: str
    text: str
    when: str


def events() -> Iterator[Entry]:
    """Yield every event of the table with its texts."""
    for about, when in reasons.EVENTS.items():
        for reason, moment in when.items():
            for kind, text in _TEXTS[about, reason]:
                yield Entry(reason, f"{about}, {kind}", text, moment)


def _records() -> Iterator[Record]:
    """Yield events about pods and nodes, each from the function that the daemon calls."""
    yield failure.scheduled_event(_POD, "NODE", 0.0)
    yield failure.failed_event(_POD, "MESSAGE", 0.0)
    volumes = WaitUntil(bool, ("PersistentVolume", "PersistentVolumeClaim"), 600.0)
    yield failure.waiting(QueuedPod(_POD, 0, 0.0), "NODE", volumes, 0.0)[1]
    devices = "waiting for binding conditions for device on node NODE"
    pending = PodEvent(reasons.BINDING_CONDITIONS_PENDING, "Scheduling", devices)
    yield failure.plain_event(_POD, pending, 0.0)
    together = msgspec.structs.replace(_BY, node="ANOTHER")
    for_group = msgspec.structs.replace(_BY, group="GROUP")
    for by in (_BY, together, for_group):
        yield failure.preempted_event(_PLACED, by, 0.0)
    yield failure.preempting_event(_BY, (_PLACED,), 0.0)
    yield failure.missing_event(_POD, "TEXT", 0.0)
    yield failure.released_event(_POD, "GROUP", "MESSAGE", 0.0)
    silent = silence(0.0, 600.0)
    yield failure.node_event(_NODE, "PROFILE", reasons.NODE_METRIC_EXPIRED, silent, 0.0)
    yield failure.node_event(_NODE, "PROFILE", reasons.INVALID_TOPOLOGY_DATA, "TEXT", 0.0)


def _texts() -> dict[tuple[str, str], list[tuple[str, str]]]:
    """Return (type, text) of each event by (object, reason)."""
    group, tree = "ConfigMap or PodGroup", "ConfigMap of the topology"
    bound = "bound COUNT pods of the group to COUNT nodes"
    gone = "Pods of the group are evicted for the group GROUP (or the pod NAMESPACE/NAME): PODS"
    shrunk = (
        "The group gives up COUNT pods of COUNT for the group GROUP (or the pod NAMESPACE/NAME) "
        "and goes on with COUNT: PODS"
    )
    left = "The bound members PODS go: the group was never whole, and TEXT"
    kept = "TEXT; groups are placed in the tree as it was before"
    leads = [("Normal", f"REPLICA {text}") for text in ("became leader", "stopped leading")]
    found = {
        (group, reasons.SCHEDULED): [("Normal", bound)],
        (group, reasons.FAILED_SCHEDULING): [("Warning", "TEXT")],
        (group, reasons.GROUP_PREEMPTED): [("Warning", gone), ("Warning", shrunk)],
        (group, reasons.GROUP_RELEASED): [("Warning", left)],
        (tree, reasons.TOPOLOGY_NOT_USED): [("Warning", kept)],
        (tree, reasons.TOPOLOGY_KEY_IGNORED): [("Normal", RESOURCES_CHOOSE_NOTHING)],
        ("Lease", reasons.LEADER_ELECTION): leads,
        ("Lease", reasons.CONFIGURATION_RELOADED): [("Normal", "REPLICA says: TEXT")],
        ("Lease", reasons.CONFIGURATION_NOT_RELOADED): [("Warning", "REPLICA says: TEXT")],
        **_move_plans(),
    }
    for record in _records():
        found.setdefault((record.kind, record.reason), []).append((record.type, record.note))
    return found


def _move_plans() -> dict[tuple[str, str], list[tuple[str, str]]]:
    """Return the events of MovePlans."""
    path = "NAMESPACE/NAME from NODE to NODE"
    texts = {
        reasons.MOVE_PLAN_CALCULATED: "STATEMENT",
        reasons.MOVE_PLAN_APPROVED: "plan HASH is approved by spec.approved",
        reasons.MOVE_PLAN_WAITING: "TEXT",
        reasons.MOVE_PLAN_STALE: "TEXT",
        reasons.MOVE_PLAN_COMPLETED: "REASON: TEXT",
        reasons.MOVE_PLAN_ABORTED: "REASON: TEXT",
        reasons.MOVE_RESERVED: "reserved NODE for the replacement of NAMESPACE/NAME",
        reasons.MOVE_RELEASED: "released NODE",
        reasons.MOVE_EVICTED: f"evicted {path}, so that GOAL",
        reasons.MOVE_DONE: f"moved {path}: NAME is Ready",
        reasons.MOVE_POD_LEFT: "NAMESPACE/NAME left NODE without an eviction by this plan: TEXT",
    }
    warnings = (reasons.MOVE_PLAN_STALE, reasons.MOVE_PLAN_ABORTED)
    return {
        ("MovePlan", reason): [("Warning" if reason in warnings else "Normal", text)]
        for reason, text in texts.items()
    }


_TEXTS: Final = _texts()


def conditions() -> Iterator[Entry]:
    """Yield the reasons of a pod's PodScheduled condition with status False, and of a victim's."""
    no_node = "0/COUNT nodes are available: REASONS."
    yield Entry(
        reasons.UNSCHEDULABLE,
        "PodScheduled",
        no_node,
        "no node is feasible for the pod or its group",
    )
    yield Entry(
        reasons.SCHEDULER_ERROR,
        "PodScheduled",
        "TEXT",
        "the attempt failed with an error, or the binding failed",
    )
    yield Entry(
        reasons.WAITING_ON_PRE_BIND,
        "PodScheduled",
        "TEXT",
        "the pod has a node, and its volumes are not ready after 30 s",
    )
    yield Entry(
        reasons.WAITING_FOR_GROUP, "PodScheduled", "TEXT", "members of its group are missing"
    )
    yield Entry(
        "SchedulingGated",
        "PodScheduled",
        "",
        "written by the API server: the pod has scheduling gates",
    )
    yield Entry(
        "Scheduled, Unschedulable, SchedulerError",
        "PodGroupScheduled or PodGroupInitiallyScheduled, of a PodGroup of scheduling.k8s.io",
        "TEXT",
        "True once its minimum is bound, and permanently; False with the reason of its pods",
    )
    yield Entry(
        reasons.PREEMPTION_BY_SCHEDULER,
        "DisruptionTarget",
        "PROFILE: preempting to accommodate a higher priority pod",
        "the pod is evicted for a preemptor",
    )


def page() -> str:
    """Return the whole page."""
    header = ("reason", "about, type", "text", "when")
    reasons = ((markdown.code(text), ", ".join(names)) for text, names in rejections())
    return "\n".join(
        [
            INTRODUCTION,
            "## Events\n",
            markdown.table(header, map(_row, events())),
            "## Conditions of pods\n",
            markdown.table(("reason", "condition", "message", "when"), map(_row, conditions())),
            "## Why nodes are rejected\n",
            REASONS,
            markdown.table(("text", "plugin"), reasons),
        ]
    )


def _row(entry: Entry) -> tuple[str, str, str, str]:
    return (
        markdown.code(entry.reason),
        entry.about,
        markdown.text(entry.text),
        markdown.text(entry.when),
    )


def rejections() -> list[tuple[str, list[str]]]:
    """Return the reasons of plugins for rejecting a node, each with the plugins that return it."""
    known = {cls.name: cls.__module__ for cls in registry()}
    found: dict[str, list[str]] = {}
    for file in sorted(PLUGINS.rglob("*.py")):
        source = file.read_text()
        if not any(start in source for start in _STARTS):
            continue
        for statement in ast.parse(source).body:
            plugins = plugins_of(file, getattr(statement, "name", ""), known)
            found |= {text: plugins for text in texts_in(statement) if text.startswith(_STARTS)}
    return sorted(found.items())


def plugins_of(file: Path, name: str, known: dict[str, str]) -> list[str]:
    """Return the plugin of this name, else those defined in the file, else those in its folder."""
    module = ".".join(file.relative_to(PLUGINS.parents[1]).with_suffix("").parts)
    here = [plugin for plugin, place in known.items() if place == module]
    family = module.rpartition(".")[0]
    if name in here:
        return [name]
    return here or [plugin for plugin, place in known.items() if place.startswith(f"{family}.")]


def texts_in(node: ast.AST) -> Iterator[str]:
    """Yield the string literals below a node; fields of f-strings become words in capitals."""
    if isinstance(node, ast.JoinedStr):
        yield "".join(
            str(part.value)
            if isinstance(part, ast.Constant)
            else ast.unparse(part.value).rpartition(".")[2].upper().replace("_", " ")
            for part in node.values
            if isinstance(part, ast.Constant | ast.FormattedValue)
        )
        return
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value.replace("{}", "RESOURCE").strip()
    for child in ast.iter_child_nodes(node):
        yield from texts_in(child)
