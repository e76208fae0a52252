"""Events in the engine's inbox, with their texts where the turns are recorded."""

from scheduler.daemon.inbox import LONGEST_LIST, Inbox
from scheduler.engine.decisionlog import LogBuffer, decode_step, encode_step
from scheduler.engine.effects import Complete, Event, Leading, Listed, Watched
from scheduler.objects.node import Node, NodeMeta


def test_texts_are_those_of_the_events_in_their_order():
    """The log has the texts of the events in order, also those of a list that is split."""
    nodes = tuple(Node(metadata=NodeMeta(name=f"n{number}")) for number in range(LONGEST_LIST + 1))
    encoder = LogBuffer()
    inbox = Inbox(encoder.arrive)
    for event in (Leading(active=True), Listed("Node", nodes), Listed("Node", nodes[:2])):
        inbox.put(event)
    first, second = inbox.take(3), inbox.take(1000)
    events = [event for event, _ in (*first, *second)]

    kinds: list[type[Event]] = [Leading, *[Watched] * len(nodes), Complete, Listed]
    assert kinds == list(map(type, events))
    for turn in (first, [], second):
        encoder.end_turn(1.5, sum(size for _, size in turn), 3, ())
    lines = bytes(encoder.take()).splitlines(keepends=True)
    assert [encode_step(1.5, events[:3], 3, ()), encode_step(1.5, [], 3, ())] == lines[:2]
    assert events == [event for line in lines for event in decode_step(line).events]
    assert not encoder.take()


def test_nothing_is_encoded_without_a_recorder():
    """Texts would cost time."""
    inbox = Inbox()
    inbox.put(Leading(active=True))

    assert [(Leading(active=True), 0)] == inbox.take(1)
