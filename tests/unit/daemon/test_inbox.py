"""Events on their way to the engine, with their texts where the turns are recorded."""

from scheduler.daemon.inbox import LONGEST_LIST, Inbox
from scheduler.engine.decisionlog import decode_step, encode_event, encode_step, encode_turn
from scheduler.engine.effects import Complete, Event, Leading, Listed, Watched
from scheduler.objects.node import Node, NodeMeta


def test_texts_are_those_of_the_events_in_their_order():
    """Also of a list that is taken apart."""
    nodes = tuple(Node(metadata=NodeMeta(name=f"n{number}")) for number in range(LONGEST_LIST + 1))
    inbox = Inbox(encode_event)
    for event in (Leading(active=True), Listed("Node", nodes), Listed("Node", nodes[:2])):
        inbox.put(event)
    arrived = [*inbox.take(3), *inbox.take(1000)]
    events = [event for event, _ in arrived]

    kinds: list[type[Event]] = [Leading, *[Watched] * len(nodes), Complete, Listed]
    assert kinds == list(map(type, events))
    line = encode_turn(1.5, [text for _, text in arrived if text is not None], 3, ())
    assert encode_step(1.5, events, 3, ()) == line
    assert events == list(decode_step(line).events)


def test_nothing_is_encoded_where_nobody_records():
    """Texts cost time."""
    inbox = Inbox()
    inbox.put(Leading(active=True))

    assert [(Leading(active=True), None)] == inbox.take(1)
