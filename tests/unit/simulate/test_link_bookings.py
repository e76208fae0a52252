"""Bandwidth through the whole engine: a link fills pod by pod, and a restart books the same."""

from tests.unit.plugins.networkobjects import app_group, member, placed_node, topology
from tests.unit.simulate.asking import place, results

NODES = [placed_node(f"{zone}{n}", "r", zone) for zone in ("z1", "z2") for n in "xy"]
OBJECTS = [
    app_group({"player": {"store": (15, "300M")}, "store": {}}, name="stream"),
    topology(zones=[("z1", "z2", 5, "1G")]),
]
STORE = member("store", "store", "z2x", group="stream")
TEXT = (
    '0/4 nodes are available: 2 link between zones "z1" and "z2" has no headroom: '
    "capacity 1000000000 bit/s, booked 900000000, asked 300000000, "
    "2 node(s) didn't match Pod's node affinity/selector."
)


def player(number, on=""):
    raw = member(f"p{number}", "player", on, group="stream")
    raw["spec"] |= {
        "schedulerName": "trellis",
        "nodeSelector": {"topology.kubernetes.io/zone": "z1"},
    }
    return raw


def test_a_link_fills_and_the_next_pod_gets_the_reason():
    """Link, capacity, booked and requested bandwidth are in the pod's condition; no link is
    overbooked.
    """
    waiting = [player(number) for number in range(5)]
    found = place(*NODES, *OBJECTS, STORE, given=waiting)

    placed = results(found)
    assert [name for name, where in placed.items() if where == "Unschedulable"] == ["p3", "p4"]
    refused = [pod.message for pod in found.pods if not pod.node]
    assert all(message.startswith(TEXT) for message in refused), refused


def test_a_restart_books_the_same():
    """An engine that lists the pods of another one refuses the next pod with the same figures."""
    found = place(*NODES, *OBJECTS, STORE, given=[player(number) for number in range(3)])
    placed = results(found)
    bound = [player(number, on=placed[f"p{number}"]) for number in range(3)]
    again = place(*NODES, *OBJECTS, STORE, *bound, given=[player(3)])

    assert not {*placed.values()} - {"z1x", "z1y"}
    (refused,) = again.pods
    assert refused.message.startswith(TEXT)
