"""Integers beyond 64 bits on the watch path: rejected or clamped, without effect on other objects.

JSON has no limit, an API server passes on the content of a custom resource or an old object, and a
quantity may be a number.
"""

import json
from typing import Any

import pytest

from scheduler.config import default_config
from scheduler.engine.decisionlog import decode_step, encode_step
from scheduler.engine.effects import Bind, Listed, Watched
from scheduler.engine.engine import Engine
from scheduler.framework.registry import Registry
from scheduler.intree import IN_TREE
from scheduler.kube.watching.decode import Bookmark, DecodeFault, Decoder
from scheduler.objects.kinds import BY_KIND
from scheduler.testing.builders import node, pod

HUGE = ["9223372036854775808", "-9223372036854775809", "1" + "0" * 30, "1" + "0" * 400, "9" * 5000,
        "-" + "9" * 5000, "1e400", "-1e308"]  # fmt: skip
PLACES = {
    "allocatable cpu": ("Node", ("status", "allocatable", "cpu")),
    "allocatable memory": ("Node", ("status", "allocatable", "memory")),
    "allocatable pods": ("Node", ("status", "allocatable", "pods")),
    "allocatable gpu": ("Node", ("status", "allocatable", "example.com/gpu")),
    "image bytes": ("Node", ("status", "images")),
    "request cpu": ("Pod", ("spec", "containers", 0, "resources", "requests", "cpu")),
    "request memory": ("Pod", ("spec", "containers", 0, "resources", "requests", "memory")),
    "request gpu": ("Pod", ("spec", "containers", 0, "resources", "requests", "example.com/gpu")),
    "limit memory": ("Pod", ("spec", "containers", 0, "resources", "limits")),
    "overhead": ("Pod", ("spec", "overhead")),
    "priority": ("Pod", ("spec", "priority")),
    "host port": ("Pod", ("spec", "containers", 0, "ports")),
}
AROUND = {
    "image bytes": '[{"names": ["registry.example/app:1"], "sizeBytes": %s}]',
    "limit memory": '{"memory": %s}',
    "overhead": '{"memory": %s}',
    "host port": '[{"containerPort": 80, "hostPort": %s}]',
}
MARK = "@number@"


def line(manifest: dict[str, Any], place: str = "", number: str = "") -> bytes:
    """Return a line of a watch, with a number inserted literally in one place."""
    manifest["metadata"] |= {"uid": f"uid-{manifest['metadata']['name']}", "resourceVersion": "7"}
    if place:
        *parents, last = PLACES[place][1]
        inside: Any = manifest
        for step in parents:
            inside = inside[step]
        inside[last] = MARK
    text = json.dumps({"type": "ADDED", "object": manifest})
    return text.replace(f'"{MARK}"', AROUND.get(place, "%s") % number).encode()


@pytest.mark.parametrize("number", HUGE, ids=lambda text: f"{text[:22]}-{len(text)}")
@pytest.mark.parametrize("place", PLACES)
def test_a_huge_number_affects_no_other_object(place: str, number: str):
    """The object is left out or its amounts are clamped.

    Other pods are bound, and the log replays.
    """
    faults: list[DecodeFault] = []
    decoders = {kind: Decoder(BY_KIND[kind], faults.append) for kind in ("Node", "Pod")}
    odd = (
        node("odd") if PLACES[place][0] == "Node" else pod("odd", spec={"schedulerName": "trellis"})
    )
    registry = Registry(IN_TREE)
    engine = Engine(default_config(registry).profiles, registry)
    for kind in ("Node", "Pod", "Namespace"):
        engine.handle(Listed(kind, ()), 1.0)
    lines = [
        ("Node", line(node("plain"))),
        (PLACES[place][0], line(odd, place, number)),
        ("Pod", line(pod("good", requests={"cpu": "1"}, spec={"schedulerName": "trellis"}))),
    ]
    events: list[Any] = []
    for kind, data in lines:
        event = decoders[kind].line(data)
        if isinstance(event, Bookmark):
            assert ["odd"] == [fault.key.rpartition("/")[2] for fault in faults]
            continue
        assert isinstance(event, Watched)
        events.append(event)
        engine.handle(event, 1.0)
    effects = [*engine.run(1.0, 8), *engine.run(30.0, 8)]

    assert "good" in [effect.name for effect in effects if isinstance(effect, Bind)]
    step: Any = decode_step(encode_step(1.0, events, 8, tuple(effects)))
    assert [event.object.metadata.name for event in step.events] == [
        event.object.metadata.name for event in events
    ]
