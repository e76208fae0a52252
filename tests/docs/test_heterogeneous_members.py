"""The examples of heterogeneous members have the results that their page states, and equal
docs/examples.
"""

import pytest
import yaml

from scheduler.testing import node
from tests.docs import heterogeneous
from tests.docs.pages import blocks
from tests.unit.simulate.asking import place, results

PAGE = "howto/head-and-workers.md"
NODES = [
    node(f"n{at}", cpu="8", memory="32Gi", pods="110", labels={heterogeneous.RACK: f"r{at % 3}"})
    for at in range(12)
]


@pytest.mark.parametrize("name", heterogeneous.INVARIANTS)
def test_an_example_stands_as_it_says(name):
    """All rules hold, by a plain count; the minimised values are proven."""
    pods = [one | {"spec": one["spec"] | {"priority": 0}} for one in heterogeneous.pods(name)]
    done = place(*NODES, heterogeneous.group(name), *pods)

    where = {pod: (f"r{int(at[1:]) % 3}", at) for pod, at in results(done).items()}
    assert len(pods) == len(where)
    assert heterogeneous.INVARIANTS[name](where), where
    (reported,) = done.groups
    assert reported.optimal
    assert reported.objective == reported.bound
    assert ("cost" in reported.terms) == (name in ("ray", "serving"))


def test_the_head_is_beside_the_first_worker():
    """The first worker by name is placed beside the head."""
    where = results(place(*NODES, heterogeneous.group("ray"), *heterogeneous.pods("ray")))

    assert int(where["ray-head-0"][1:]) % 3 == int(where["ray-worker-0"][1:]) % 3


@pytest.mark.parametrize("name", heterogeneous.INVARIANTS)
def test_the_page_shows_the_example(name):
    """The PodGroup on the page is the one of the demo."""
    shown = [next(yaml.safe_load_all(block.text)) for block in blocks(PAGE, "yaml")]

    assert heterogeneous.group(name) in shown


def test_groups_in_a_group_stand_as_the_page_says():
    """Each of the three replicas is in one rack; with capacity for two, the third is left out as a
    whole.
    """
    (root, *_), members = heterogeneous.objects("composite"), heterogeneous.pods("composite")
    groups = [one for one in heterogeneous.objects("composite") if one["kind"].endswith("PodGroup")]
    done = place(*NODES, *groups, *members)
    where = {pod: int(at[1:]) % 3 for pod, at in results(done).items()}

    assert "CompositePodGroup" == root["kind"]
    for at in range(3):
        assert 4 == sum(pod.split("-")[1] == str(at) for pod in where)
        assert 1 == len({rack for pod, rack in where.items() if pod.split("-")[1] == str(at)})

    few = results(place(*NODES[:5], *groups, *members))
    assert 4 == sum(at == "Unschedulable" for at in few.values())


def test_the_page_shows_the_groups_in_a_group():
    """The root and the first PodGroup are those of the file."""
    shown = [one for block in blocks(PAGE, "yaml") for one in yaml.safe_load_all(block.text)]

    for one in heterogeneous.objects("composite")[:2]:
        assert one in shown
