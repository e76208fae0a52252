"""The invariant of eviction events: no running pod is evicted before an event names the preemptor
and the reason.
"""

from collections.abc import Collection, Iterable

from scheduler.engine.effects import Effects, Evict, Record
from scheduler.engine.engine import Engine
from scheduler.groups.plugin import ClusterTopologyPlacementGroup

# The note of a victim's event, by its reason: the preemptor, or the group evicted with it.
EVICTION_REASONS = ("Preempted", "GroupReleased")


def check_eviction_events(
    effects: Iterable[Effects], engine: Engine, undescribed: Collection[str] = ()
) -> None:
    """Check one turn of an engine: every eviction follows an event with preemptor and reason.

    The group of a pod gets an event as well, if an object describes it; none existed when those of
    `undescribed` (uids) were evicted.
    """
    reported: dict[str, Record] = {}
    listed: set[str] = set()
    groups: list[str] = []
    for effect in effects:
        if isinstance(effect, Record):
            if effect.reason == "GroupPreempted":
                groups.append(effect.note)
            if effect.reason in EVICTION_REASONS:
                reported[effect.uid] = effect
            if effect.reason == "Preempting":
                listed.add(effect.uid)
        if isinstance(effect, Evict):
            record = reported.get(effect.uid)
            assert record is not None, (
                f"{effect.namespace}/{effect.name} is evicted without an event"
            )
            _check(record, listed)
            if (
                record.reason == "Preempted"
                and effect.uid not in undescribed
                and is_of_a_group(engine, effect.uid)
            ):
                # The names of the victims end the note.
                named = [note.rpartition(": ")[2].split(", ") for note in groups]
                assert any(effect.name in names for names in named), f"no word of {effect.name}"


def is_of_a_group(engine: Engine, uid: str) -> bool:
    """Return whether a pod on a node is a member of a group that an object describes."""
    pod = engine.cluster.pods.get(uid)
    return any(
        isinstance(planner, ClusterTopologyPlacementGroup)
        and bool(planner._members.described_by(planner.group_of(placed.pod)))
        for placed in ([] if pod is None else [pod])
        for planner in engine.group_planners()
    )


def _check(record: Record, listed: set[str]) -> None:
    if record.reason == "GroupReleased":
        assert "lets its bound members go" in record.note
        return
    assert record.related is not None, record.note
    namespace, name, uid = record.related
    assert uid in listed, f"{namespace}/{name} has no event that names its victim"
    assert uid in record.note
    assert f"{namespace}/{name}" in record.note
    plugin = record.note.partition(" frees capacity")[0].rpartition(": ")[2]
    assert plugin.isidentifier(), record.note
    assert " on node " in record.note
