"""The bookings on links in the status, counted from the present pods."""

from typing import Any

import pytest
import yaml

from operators.networktopology.operator import RECIPE
from scheduler.objects.kinds import BY_KIND
from scheduler.objects.network import REGION_LABEL, ZONE_LABEL
from scheduler.objects.node import Node, NodeMeta
from scheduler.objects.plain import read_as
from scheduler.testing import evaluate
from tests.property.making import make_pod, with_status
from tests.unit.operators import operatorrig
from tests.unit.operators.operatorrig import CRDS, passed
from tests.unit.plugins.networkobjects import (
    GROUP,
    WORKLOAD,
    app_group,
    member,
    placed_node,
    topology,
)

DEFINITION = yaml.safe_load((CRDS / "networktopologies.yaml").read_text())
TOPOLOGY = topology([("east", "west", 20, "1G")], [("z1", "z2", 5, "100M")], name="nt")
PLACES = {"a": ("east", "z1"), "b": ("east", "z2"), "c": ("west", "z3")}
GROUP_OBJECT = app_group({"web": {"db": (50, "30M")}, "db": {}})


class OperatorRig(operatorrig.OperatorRig):
    """A topology with two limited links, an application, and a node at each place."""

    def __init__(self) -> None:
        super().__init__(RECIPE, DEFINITION, "nt", spec=TOPOLOGY["spec"])
        for name, (region, zone) in PLACES.items():
            labels = {REGION_LABEL: region, ZONE_LABEL: zone}
            self.tell(self.cluster.put_node(Node(metadata=NodeMeta(name=name, labels=labels))))
        found = read_as(BY_KIND["AppGroup"], GROUP_OBJECT)
        self.tell(self.cluster.put_object("AppGroup", found))

    def tell(self, change: Any) -> None:
        self.view.note(change)
        self.view.flush()

    def place(self, name: str, workload: str, node: str) -> None:
        labels = {GROUP: "app", WORKLOAD: workload}
        pod = with_status(make_pod(name, node=node, labels=labels), phase="Running")
        self.tell(self.cluster.put_pod(pod))

    def drop(self, name: str) -> None:
        uid = next(
            one.pod.metadata.uid for one in self.view.pods() if one.pod.metadata.name == name
        )
        self.tell(self.cluster.drop_pod(uid))

    @property
    def booked(self) -> dict[tuple[str, str], int]:
        """Return the bookings of each path in the status."""
        return {
            (origin["origin"], path["destination"]): path["bandwidthAllocated"]
            for table in self.status["weights"]
            for level in table["topologyList"]
            for origin in level["originList"]
            for path in origin["costList"]
        }


@pytest.mark.looptime
async def test_bookings_follow_the_pods_that_are_there():
    """Each web pod books 30 Mbit/s, split over the databases; a deleted one releases its share.

    Costs stay in spec.
    """
    at = OperatorRig()
    async with at.open():
        await passed(2)
        nothing = at.booked
        at.place("db-0", "db", "a")
        at.place("web-0", "web", "b")
        at.place("web-1", "web", "c")
        await passed(2)
        one = at.booked
        at.place("db-1", "db", "c")
        await passed(2)
        two = at.booked
        at.drop("web-0")
        await passed(2)
        three = at.booked
        before = len(at.sent)
        at.place("other", "unused", "c")
        await passed(10)

    paths = {("z1", "z2"), ("z2", "z1"), ("east", "west"), ("west", "east")}
    assert dict.fromkeys(paths, 0) == nothing
    m = 10**6
    assert {("z2", "z1"): 30 * m, ("west", "east"): 30 * m} == {k: v for k, v in one.items() if v}
    # web-0 now has traffic over both links, half each; web-1 over the region's for one half.
    assert {("z2", "z1"): 15 * m, ("east", "west"): 15 * m, ("west", "east"): 15 * m} == {
        k: v for k, v in two.items() if v
    }
    assert {("west", "east"): 15 * m} == {k: v for k, v in three.items() if v}
    assert before == len(at.sent)
    (table,) = at.status["weights"]
    assert "UserDefined" == table["name"]
    shown = table["topologyList"][0]["originList"][0]
    assert {"destination": "west", "bandwidthCapacity": "1G", "bandwidthAllocated": 0} == shown[
        "costList"
    ][0]
    assert {20} == {
        shown["originInterStatistics"][key] for key in ("minCost", "avgCost", "maxCost")
    }


@pytest.mark.looptime
async def test_a_new_operator_books_the_same():
    """The pods alone determine them, so nothing is written after a restart."""
    at = OperatorRig()
    at.place("db-0", "db", "a")
    at.place("web-0", "web", "c")
    async with at.open():
        await passed(2)
    first = at.booked
    assert 30 * 10**6 == first["west", "east"]
    at.operator = RECIPE.make(at.operator.around)  # type: ignore[attr-defined]
    at.operator.seen(None, at.store.get(at.resource, "default", "nt").obj)
    before = len(at.sent)
    async with at.open():
        await passed(2)

    assert first == at.booked
    assert before == len(at.sent)


@pytest.mark.looptime
async def test_an_operator_that_is_gone_leaves_links_that_decide_nothing():
    """A table of links only in the status does not replace the user's costs."""
    at = OperatorRig()
    at.place("db-0", "db", "a")
    async with at.open():
        await passed(2)
        obj = at.store.get(at.resource, "default", "nt")
        at.store.replace(at.resource, obj, {**obj.obj, "spec": {}})
        await passed(2)

    assert not at.status["weights"]


def test_the_plugin_reads_the_users_costs_beside_the_bare_links():
    """Spec precedes status, so a status that shows bookings changes no decision."""
    links = {
        "name": "UserDefined",
        "topologyList": [
            {
                "topologyKey": REGION_LABEL,
                "originList": [
                    {
                        "origin": "east",
                        "costList": [
                            {
                                "destination": "west",
                                "bandwidthCapacity": "1G",
                                "bandwidthAllocated": 5,
                            }
                        ],
                    }
                ],
            }
        ],
    }
    raws = [
        evaluate(
            "NetworkOverhead",
            args={"networkTopologyName": "nt"},
            nodes=[placed_node(name, *place) for name, place in PLACES.items()],
            objects=[TOPOLOGY | status, GROUP_OBJECT],
            existing_pods=[member("db-0", "db", "a")],
            pod=member("web-0", "web"),
        ).raw
        for status in ({}, {"status": {"weights": [links]}})
    ]

    assert {"a": 0, "b": 5, "c": 20} == raws[0] == raws[1]
