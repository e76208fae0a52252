"""The sandbox's history is correct: replaying a watch, or listing the past, yields the past
state.
"""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from scheduler.base.clock import ManualClock
from scheduler.sandbox.api.request import parse
from scheduler.sandbox.api.status import StatusError
from scheduler.sandbox.api.watching import WatchStream
from scheduler.sandbox.kinds.kinds import CONFIGMAPS, NAMESPACES, Kinds
from scheduler.sandbox.store.store import ObjectStore

Move = tuple[str, int, int]

NAMES = ("a", "b", "ab", "c")
MOVES = st.lists(
    st.tuples(
        st.sampled_from(["create", "change", "label", "delete", "look"]),
        st.integers(0, len(NAMES) - 1),
        st.integers(0, 2),
    ),
    max_size=40,
)


def make_store() -> ObjectStore:
    store = ObjectStore(ManualClock(1_000_000.0), seed=1)
    store.create(NAMESPACES, {"metadata": {"name": "ns"}})
    store.forget_history()
    return store


def apply_move(store: ObjectStore, move: Move) -> None:
    what, which, number = move
    name = NAMES[which]
    labels = {"n": str(number)}
    try:
        if what == "create":
            body = {"metadata": {"name": name, "labels": labels}, "data": {"n": str(number)}}
            store.create(CONFIGMAPS, body, "ns")
        elif what == "change":
            store.change(CONFIGMAPS, "ns", name, lambda obj: {**obj, "data": {"n": str(number)}})
        elif what == "label":
            store.change(
                CONFIGMAPS,
                "ns",
                name,
                lambda obj: {**obj, "metadata": {**obj["metadata"], "labels": labels}},
            )
        elif what == "delete":
            store.delete(CONFIGMAPS, "ns", name)
    except StatusError as refused:
        # Taken names and missing objects are expected.
        if refused.code not in (404, 409):
            raise


def state_of(store: ObjectStore, version: int | None = None) -> dict[str, Any]:
    found = (
        store.list(CONFIGMAPS, "ns")
        if version is None
        else store.list_at(CONFIGMAPS, "ns", version)
    )
    return {stored.name: stored.obj for stored in found}


def replay(state: dict[str, Any], lines: bytes) -> None:
    """Apply the lines of a watch to `state` as a client does, and reject impossible ones."""
    for line in lines.splitlines():
        event = json.loads(line)
        name = event["object"]["metadata"]["name"]
        if event["type"] == "ADDED":
            assert name not in state
            state[name] = event["object"]
        elif event["type"] == "MODIFIED":
            assert name in state
            state[name] = event["object"]
        else:
            del state[name]


@given(MOVES)
def test_the_past_can_be_listed(moves: list[Move]):
    """Every version is listed as it was, however much was written since."""
    store = make_store()
    seen = {store.version: state_of(store)}
    for move in moves:
        apply_move(store, move)
        seen[store.version] = state_of(store)

    for version, state in seen.items():
        assert state == state_of(store, version)


@given(MOVES, st.sampled_from(["", "n=1", "n!=1", "n in (0,2)", "!n"]))
def test_a_replayed_watch_equals_the_list(moves: list[Move], selector: str):
    """Applying the events of a watch yields the list: with and without a selector, for any reading
    interval and start version.
    """
    store = make_store()
    query = f"watch=true&labelSelector={selector}"
    call = parse(Kinds(), "GET", "/api/v1/namespaces/ns/configmaps", query)
    early = WatchStream(store, call, lambda: None)
    state: dict[str, Any] = {}
    replay(state, early.first())
    for move in moves:
        apply_move(store, move)
        if move[0] == "look":
            replay(state, early.next())
    replay(state, early.next())
    late: dict[str, Any] = {}
    replay(late, WatchStream(store, call, lambda: None).first())

    assert late == state
    assert {name for name, obj in state_of(store).items() if accepts(selector, obj)} == set(state)


def accepts(selector: str, obj: dict[str, Any]) -> bool:
    """The five selectors above, written again."""
    value = (obj["metadata"].get("labels") or {}).get("n")
    return {
        "": True,
        "n=1": value == "1",
        "n!=1": value != "1",
        "n in (0,2)": value in ("0", "2"),
        "!n": value is None,
    }[selector]
