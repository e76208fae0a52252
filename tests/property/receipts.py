"""The law of receipts: nothing that runs is taken away before it is told who takes it, and why."""

from collections.abc import Iterable

from scheduler.engine.effects import Effects, Evict, Record

# What a victim is told, by the reason of its event: for whom it goes, or with what.
RECEIPTS = ("Preempted", "GroupReleased")


def check_receipts(effects: Iterable[Effects]) -> None:
    """Check one turn of an engine: every eviction comes after an event that says who and why."""
    told: dict[str, Record] = {}
    listed: set[str] = set()
    for effect in effects:
        if isinstance(effect, Record):
            if effect.reason in RECEIPTS:
                told[effect.uid] = effect
            if effect.reason == "Preempting":
                listed.add(effect.uid)
        if isinstance(effect, Evict):
            record = told.get(effect.uid)
            assert record is not None, f"{effect.namespace}/{effect.name} goes without a receipt"
            _check(record, listed)


def _check(record: Record, listed: set[str]) -> None:
    if record.reason == "GroupReleased":
        assert "lets its bound members go" in record.note
        return
    assert record.related is not None, record.note
    namespace, name, uid = record.related
    assert uid in listed, f"{namespace}/{name} is not told whom it evicts"
    assert uid in record.note
    assert f"{namespace}/{name}" in record.note
    plugin = record.note.partition(" makes room")[0].rpartition(": ")[2]
    assert plugin.isidentifier(), record.note
    assert " on node " in record.note
