"""Limits on what users may write into a cluster: each is in force, and on the security page."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
import yaml

from operators.appgroup import status as appgroup
from scheduler.base.errors import ConfigError, ObjectError, TrellisError
from scheduler.base.meters.values import MAX_CHILDREN
from scheduler.cli.inputs import logged
from scheduler.config import document, load
from scheduler.daemon import answering, rights
from scheduler.daemon.records import decisions
from scheduler.engine.effects import Record
from scheduler.groups import args
from scheduler.groups.description import spec as group
from scheduler.groups.sources import appgroup as application
from scheduler.groups.sources import configmap, inputs
from scheduler.groups.topology import tree as topology
from scheduler.intree import registry
from scheduler.kube.connection import http1
from scheduler.kube.watching import watch
from scheduler.kube.writing import eventbody, recorder
from scheduler.objects.groups.appgroup import AppGroup, AppGroupSpec
from scheduler.objects.groups.grouporder import MOST_WORKLOADS
from scheduler.objects.quantity import quantity
from scheduler.plugins.numa import zones
from scheduler.serve import debug, pageroutes
from scheduler.serve.app import LARGEST_BODY_BYTES
from scheduler.snapshot import yamltext

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/explanation/security.md").read_text()


class Limit(NamedTuple):
    """A limit, an input just above it, and the result."""

    what: str
    value: int
    exceed: Callable[[], object]
    error: type[Exception]


def tree(depth: int) -> dict[str, object]:
    return {"u": tree(depth - 1)} if depth else {}


def read_group(size: object) -> group.GroupSpec:
    return configmap.from_config_map("ns", {"name": "g", "size": str(size)}, "a ConfigMap")


def read_gang(workloads: int, dependencies: int = 0) -> group.GroupSpec:
    entries = [
        {
            "workload": {"selector": f"w{number}"},
            "dependencies": [{"workload": {"selector": "w0"}}] * dependencies,
        }
        for number in range(workloads)
    ]
    spec = {"gang": True, "workloads": entries}
    return application.SOURCE.read(msgspec.convert({"spec": spec}, AppGroup))


def read_tree(units: dict[str, object]) -> topology.Topology:
    return topology.from_config_map({"tree": json.dumps(units)}, "a ConfigMap")


def read_yaml(text: str) -> list[object]:
    return list(yamltext.parse(text.encode(), "f.yaml"))


def read_config(text: str) -> object:
    return load(text, file="f.yaml", registry=registry())


LIMITS = [
    Limit("bytes of a configuration file", document.MAX_BYTES,
          lambda: read_config("#" * (document.MAX_BYTES + 1)), ConfigError),
    Limit("levels of a configuration file", document.MAX_DEPTH,
          lambda: read_config("[" * (document.MAX_DEPTH + 1)), ConfigError),
    Limit("characters of a key in a group's ConfigMap", inputs.LONGEST_TEXT,
          lambda: inputs.parsed({"tree": " " * inputs.LONGEST_TEXT + "{}"}, "tree"), ObjectError),
    Limit("pods of a group", group.LARGEST_GROUP,
          lambda: read_group(group.LARGEST_GROUP + 1), ObjectError),
    Limit("any number in a group's ConfigMap", inputs.LARGEST_NUMBER,
          lambda: read_group(inputs.LARGEST_NUMBER + 1), ObjectError),
    Limit("workloads of a gang", application.MOST_WORKLOADS,
          lambda: read_gang(application.MOST_WORKLOADS + 1), ObjectError),
    Limit("dependencies of a gang", application.MOST_DEPENDENCIES,
          lambda: read_gang(1, application.MOST_DEPENDENCIES + 1), ObjectError),
    Limit("levels of a tree of units", topology.DEEPEST,
          lambda: read_tree(tree(topology.DEEPEST + 1)), ObjectError),
    Limit("characters of a quantity", 64, lambda: quantity("1" * 65), ObjectError),
    Limit("bytes of the head of an answer", http1.MAX_HEAD_BYTES,
          lambda: http1.AnswerReader().feed(b"HTTP/1.1 200 "
              b"OK\r\nx: " + b"y" * http1.MAX_HEAD_BYTES),
          http1.HttpProtocolError),
    Limit("bytes of an answer", http1.MAX_BODY_BYTES,
          lambda: http1.AnswerReader().feed(
              b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (http1.MAX_BODY_BYTES + 1)),
          http1.HttpProtocolError),
    Limit("levels of a snapshot in YAML", yamltext.MAX_DEPTH,
          lambda: read_yaml("[" * (yamltext.MAX_DEPTH + 1)), TrellisError),
    Limit("bytes of a snapshot in YAML", yamltext.MAX_BYTES,
          lambda: read_yaml("#" * (yamltext.MAX_BYTES + 1)), TrellisError),
]  # fmt: skip


def leaves(count: int) -> dict[str, str]:
    """Return a topology ConfigMap's data with this many nodes in one level."""
    units: dict[str, object] = {str(number): {} for number in range(count)}
    return {"tree": json.dumps(units), "level-names": '["node"]'}


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: limit.what)
def test_more_than_the_limit_is_refused(limit: Limit):
    """The error is one of the project, and affects one object or one file and nothing else."""
    with pytest.raises(limit.error):
        limit.exceed()


def test_a_tree_of_too_many_nodes_is_refused(monkeypatch):
    """While it is read: the remaining nodes are not evaluated."""
    monkeypatch.setattr(topology, "MOST_UNITS", 50)

    assert 50 == len(topology.from_config_map(leaves(50), "c").leaves)
    with pytest.raises(ObjectError, match="more than 50 nodes"):
        topology.from_config_map(leaves(51), "c")


def test_nesting_beyond_the_decoder_is_refused():
    """Endless brackets in a ConfigMap end in an error that names the key."""
    with pytest.raises(ObjectError, match=r"data\.tree"):
        inputs.parsed({"tree": "[" * 100_000}, "tree")


def test_a_long_note_is_cut():
    """The API server accepts the event of a message of any length."""
    record = Record("ns", "p", "u", "1", "s", "Warning", "R", "A", "ä" * 5000, 0.0)
    body = msgspec.json.decode(eventbody.EventBodies("host").event(record, "e", 1, 0.0))

    assert eventbody.NOTE_BYTES >= len(body["note"].encode()) > eventbody.NOTE_BYTES - 4


def test_workloads_beyond_the_limit_are_reported():
    """A fault names the limit of an AppGroup with more workloads than it."""
    entry = {"workload": {"kind": "Deployment", "name": "w", "selector": "w"}}
    many = {"workloads": [entry] * (MOST_WORKLOADS + 1)}
    spec = msgspec.convert(many, AppGroupSpec, strict=False)

    assert f"only the first {MOST_WORKLOADS}" in " ".join(appgroup.faults(spec))


def test_lists_in_our_kinds_are_bounded():
    """Every list that a user writes into one of our specs has a maximum size."""

    def unbounded(schema: dict[str, object], path: str) -> list[str]:
        found = [path] if schema.get("type") == "array" and "maxItems" not in schema else []
        for name, inner in (schema.get("properties") or {}).items():  # type: ignore[attr-defined]
            found += unbounded(inner, f"{path}.{name}")
        items = schema.get("items")
        return found + (unbounded(items, f"{path}[]") if isinstance(items, dict) else [])

    for file in sorted((ROOT / "crds").glob("*.yaml")):
        definition = yaml.load(file.read_text(), Loader=yaml.CSafeLoader)
        if "koordinator" in file.read_text() or "topology.node.k8s.io" in file.read_text():
            continue  # kinds of other projects, written by agents
        for version in definition["spec"]["versions"]:
            spec = version["schema"]["openAPIV3Schema"]["properties"].get("spec", {})
            assert [] == unbounded(spec, f"{file.stem}.spec")


def test_the_page_lists_every_limit():
    """The table of docs/explanation/security.md has each with its number."""
    reported = {
        "bytes of a line of a watch": watch.MAX_LINE_BYTES,
        "bytes of a request to the daemon": LARGEST_BODY_BYTES,
        "bytes of an event's note": eventbody.NOTE_BYTES,
        "events that are remembered": recorder.MAX_SERIES,
        "series of one metric": MAX_CHILDREN,
        "workloads of an AppGroup": MOST_WORKLOADS,
        "zones of a node": zones.MOST_ZONES,
        "nodes in a tree of units": topology.MOST_UNITS,
        "seconds of a group's solve": int(args.LONGEST_SOLVE_S),
        "bytes of a request of the page": pageroutes.LARGEST_QUESTION_BYTES,
        "characters that the page may ask to try": pageroutes.LARGEST_MANIFEST_BYTES,
        "pages that are open at a time": pageroutes.MOST_READERS,
        "reviews for one user of the page": rights.MOST_REVIEWS,
        "waiting requests of the page": answering.MOST_WAITING,
        "seconds of an answer to the page": int(answering.ANSWER_S),
        "seconds of a profile": debug.LONGEST_PROFILE_S,
        "attempts that are kept": decisions.KEPT,
        "bytes of a decision log that is looked into": logged.MOST_BYTES,
        **{limit.what: limit.value for limit in LIMITS},
    }

    assert [] == [
        what for what, number in reported.items() if f"| {what} | {number:,} |" not in PAGE
    ]
