"""Helpers for tests of simulations: objects in, records out."""

from functools import cache

import msgspec

from scheduler.config import default_config, load
from scheduler.framework.registry import Registry
from scheduler.intree import IN_TREE
from scheduler.simulate.simulate import simulate
from scheduler.simulate.stage import AnswerOptions, Setup
from scheduler.snapshot.documents import items_of_objects
from scheduler.snapshot.snapshot import read_snapshot
from scheduler.testing import pod as plain_pod

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


@cache
def default_setup():
    """Return the setup without a configuration file."""
    return setup()


def setup(*classes, config=""):
    """The in-tree plugins and `classes`, which the profile `trellis` enables at all their
    points.
    """
    registry = Registry((*IN_TREE, *classes))
    if not classes and not config:
        return Setup(default_config(registry), registry)
    enabled = ", ".join(f"{{name: {cls.name}}}" for cls in classes)
    text = config or f"{HEAD}profiles: [{{plugins: {{multiPoint: {{enabled: [{enabled}]}}}}}}]\n"
    return Setup(load(text, file="test.yaml", registry=registry), registry)


def pod(name, **fields):
    """A pending pod of the default profile."""
    spec = {"schedulerName": "trellis"} | (fields.pop("spec", None) or {})
    return plain_pod(name, spec=spec, **fields)


def snapshot(*objects, given=()):
    """Return a snapshot of plain objects."""
    return read_snapshot(items_of_objects(objects, "objects"), items_of_objects(given, "given"))


def place(*objects, given=(), using=None, **options):
    """Simulate plain objects and return the result."""
    cluster = snapshot(*objects, given=given)
    return simulate(cluster, using or default_setup(), AnswerOptions(**options))


def results(simulation):
    """Return the result of each pod: its node, or the outcome in words."""
    return {one.name: one.node or one.result.value for one in simulation.pods}


def plain(record):
    """Return a record as in its JSON."""
    return msgspec.json.decode(msgspec.json.encode(record))
