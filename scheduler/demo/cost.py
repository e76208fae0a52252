"""Network costs of applications as they are placed, and as other profiles would place them.

The first is the state of the cluster; the second is `simulate` on the same nodes with the same
pods.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from scheduler.base.errors import InputError
from scheduler.config import Loaded
from scheduler.intree import registry
from scheduler.objects.groups import GROUP_LABEL
from scheduler.simulate.simulate import simulate
from scheduler.simulate.stage import AnswerOptions, Setup
from scheduler.snapshot.documents import items_of_objects
from scheduler.snapshot.snapshot import read_snapshot

Object = dict[str, Any]


class ScenarioCosts(NamedTuple):
    """The total costs; `pods` is the number of placed pods of applications."""

    placed: int
    otherwise: int
    pods: int


def costs(objects: Sequence[Object], config: Loaded, other: Loaded) -> ScenarioCosts:
    """Compare; InputError when the profiles of `other` would leave pods of applications pending."""
    placed = simulate(
        read_snapshot(items_of_objects(objects, "cluster")), Setup(config, registry())
    )
    members = [one for one in objects if _is_member(one)]
    rest = [one for one in objects if not _is_member(one)]
    snapshot = read_snapshot(
        items_of_objects(rest, "cluster"), items_of_objects(map(_unplaced, members), "members")
    )
    found = simulate(snapshot, Setup(other, registry()), AnswerOptions())
    if found.summary.scheduled != len(members):
        few = f"{found.summary.scheduled} of {len(members)} pods of applications would be placed"
        raise InputError(few, where="cost")
    return ScenarioCosts(placed.summary.network_cost, found.summary.network_cost, len(members))


def _is_member(one: Object) -> bool:
    labels = one["metadata"].get("labels") or {}
    return one["kind"] == "Pod" and GROUP_LABEL in labels and bool(one["spec"].get("nodeName"))


def _unplaced(pod: Object) -> Object:
    spec = {field: value for field, value in pod["spec"].items() if field != "nodeName"}
    return {**pod, "spec": spec, "status": {}}
