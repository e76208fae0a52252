"""The page of events and conditions: each is made by the function that the daemon makes it by."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from docs.generate import markdown
from scheduler.cli.installed import registry
from scheduler.daemon.supervisor import NOT_RELOADED, RELOADED
from scheduler.engine.attempt import failure
from scheduler.engine.effects import Record
from scheduler.engine.group.steps import WAITING_FOR_GROUP
from scheduler.kube.lease import LEADER_ELECTION
from scheduler.objects.node import Node, NodeMeta
from scheduler.objects.pod import Pod, PodMeta, PodSpec
from scheduler.plugins.loadaware.plugin import EVENT_EXPIRED
from scheduler.plugins.loadaware.telling import silence
from scheduler.plugins.numa.plugin import STALE_EVENT
from scheduler.state.podindex import place
from scheduler.state.shapes import Shapes

PLUGINS = Path(__file__).parents[2] / "scheduler" / "plugins"

INTRODUCTION = f"""\
# Events and conditions

{markdown.origin("the functions that write them")}

Words in capitals stand for what differs from case to case.
Events about pods and nodes are `events.k8s.io/v1` with the profile's schedulerName as `reportingController`, notes of at most 1,024 bytes; one that repeats becomes a series.
Without leader election there is no Lease, and no event about it.

    kubectl events --for pod/NAME
    kubectl get events -A --field-selector reportingComponent=trellis
"""

REASONS = """\
What REASONS may be: each stands behind the number of its nodes. `trellis explain POD` names the nodes.
"""

_POD: Final = Pod(
    metadata=PodMeta(namespace="NAMESPACE", name="NAME", uid="UID"),
    spec=PodSpec(scheduler_name="PROFILE"),
)
_PLACED: Final = place(_POD, Shapes().of(_POD), "NODE")
_BY: Final = failure.Preemption(_POD, "NODE", "PLUGIN")
_NODE: Final = Node(metadata=NodeMeta(name="NODE"))
_STARTS: Final = ("node(s) ", "Insufficient ", "Too many ")


class Told(NamedTuple):
    """One event or condition, and when it is written."""

    reason: str
    about: str
    text: str
    when: str


def events() -> Iterator[Told]:
    """Yield the events about pods and nodes, then those about the Lease."""
    scheduled = failure.scheduled_event(_POD, "NODE", 0.0)
    yield _told(scheduled, "the binding was confirmed")
    failed = failure.failed_event(_POD, "MESSAGE", 0.0)
    yield _told(failed, "an attempt failed; the text is that of the condition")
    waiting = failure.waiting_event(_POD, "TEXT", 0.0)
    yield _told(waiting, "its node is chosen, and its volumes are not ready for half a minute")
    yield _told(
        failure.preempted_event(_PLACED, _BY, 0.0), "it is evicted for a pod of higher priority"
    )
    together = msgspec.structs.replace(_BY, node="ANOTHER")
    yield _told(failure.preempted_event(_PLACED, together, 0.0), "so is the rest of its group")
    for_group = msgspec.structs.replace(_BY, group="GROUP")
    yield _told(failure.preempted_event(_PLACED, for_group, 0.0), "it is evicted for a group")
    yield _told(failure.preempting_event(_BY, (_PLACED,), 0.0), "pods are evicted for it")
    missing = failure.missing_event(_POD, "TEXT", 0.0)
    yield _told(missing, "an AppGroup or NetworkTopology that its labels ask for is not there")
    expired = failure.node_event(_NODE, "PROFILE", EVENT_EXPIRED, silence(0.0, 600.0), 0.0)
    yield _told(expired, "LoadAwareScheduling leaves the node out; once per silence")
    stale = failure.node_event(_NODE, "PROFILE", STALE_EVENT, "TEXT", 0.0)
    yield _told(
        stale,
        "NodeResourceTopologyMatch cannot account for pods on the node; which, and since when",
    )
    released = failure.released_event(_POD, "GROUP", "MESSAGE", 0.0)
    yield _told(released, "it is deleted, as its group cannot become whole")
    yield from _of_groups()
    for text in ("became leader", "stopped leading"):
        yield Told(LEADER_ELECTION, "Lease, Normal", f"REPLICA {text}", "the Lease changes hands")
    yield Told(RELOADED, "Lease, Normal", "REPLICA says: TEXT", "a changed file is in use")
    yield Told(
        NOT_RELOADED, "Lease, Warning", "REPLICA says: TEXT", "a changed file cannot be used"
    )


def _of_groups() -> Iterator[Told]:
    """Yield the events about the object that describes a group, whichever kind it is."""
    about = "ConfigMap or PodGroup"
    bound = "bound COUNT pods of the group to COUNT nodes"
    yield Told("Scheduled", f"{about}, Normal", bound, "a PodGroup has its minimum")
    yield Told("FailedScheduling", f"{about}, Warning", "TEXT", "a PodGroup does not fit, and why")
    gone = "Pods of the group are evicted for the group GROUP: PODS"
    yield Told("GroupPreempted", f"{about}, Warning", gone, "before they are")
    left = "The bound members PODS go: the group was never whole, and TEXT"
    yield Told("GroupReleased", f"{about}, Warning", left, "before they go")


def conditions() -> Iterator[Told]:
    """Yield the reasons of a pod's PodScheduled condition with status False, and of a victim's."""
    no_node = "0/COUNT nodes are available: REASONS."
    yield Told(
        failure.UNSCHEDULABLE, "PodScheduled", no_node, "no node takes the pod, or its group"
    )
    yield Told(
        failure.SCHEDULER_ERROR,
        "PodScheduled",
        "TEXT",
        "the attempt broke off: a fault, a failed binding",
    )
    yield Told(
        failure.WAITING,
        "PodScheduled",
        "TEXT",
        "its node is chosen, and its volumes are not ready for half a minute",
    )
    yield Told(WAITING_FOR_GROUP, "PodScheduled", "TEXT", "members of its group are not there yet")
    yield Told(
        "SchedulingGated",
        "PodScheduled",
        "",
        "written by the API server: the pod has scheduling gates",
    )
    yield Told(
        "Scheduled, Unschedulable, SchedulerError",
        "PodGroupScheduled or PodGroupInitiallyScheduled, of a PodGroup of scheduling.k8s.io",
        "TEXT",
        "True when its minimum is bound, and then for good; False with what its pods say",
    )
    yield Told(
        "PreemptionByScheduler",
        "DisruptionTarget",
        "PROFILE: preempting to accommodate a higher priority pod",
        "the pod is evicted for another one",
    )


def _told(record: Record, when: str) -> Told:
    return Told(record.reason, f"{record.kind}, {record.type}", record.note, when)


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
            "## Why nodes are left out\n",
            REASONS,
            markdown.table(("text", "plugin"), reasons),
        ]
    )


def _row(told: Told) -> tuple[str, str, str, str]:
    return (
        markdown.code(told.reason),
        told.about,
        markdown.text(told.text),
        markdown.text(told.when),
    )


def rejections() -> list[tuple[str, list[str]]]:
    """Return the texts by which plugins reject nodes, each with the plugins that may say it."""
    known = {cls.name: cls.__module__ for cls in registry()}
    found: dict[str, list[str]] = {}
    for file in sorted(PLUGINS.rglob("*.py")):
        source = file.read_text()
        if not any(start in source for start in _STARTS):
            continue
        for statement in ast.parse(source).body:
            speakers = plugins_of(file, getattr(statement, "name", ""), known)
            found |= {text: speakers for text in texts_in(statement) if text.startswith(_STARTS)}
    return sorted(found.items())


def plugins_of(file: Path, name: str, known: dict[str, str]) -> list[str]:
    """Return the plugin of this name, else those that are defined in the file, else in its folder."""
    module = ".".join(file.relative_to(PLUGINS.parents[1]).with_suffix("").parts)
    here = [plugin for plugin, place in known.items() if place == module]
    family = module.rpartition(".")[0]
    if name in here:
        return [name]
    return here or [plugin for plugin, place in known.items() if place.startswith(f"{family}.")]


def texts_in(node: ast.AST) -> Iterator[str]:
    """Yield the strings below a node as they are written, with capitals for what is filled in."""
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
