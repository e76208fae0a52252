"""The examples of Volcano's objects have the results that their pages state."""

import pytest
import yaml

from scheduler.testing import node
from tests.docs.pages import ROOT
from tests.unit.simulate.asking import place, results

FOLDER = ROOT / "docs" / "examples" / "volcano"
RACK = "topology.trellis.dev/rack"
NODES = [
    node(f"r{at % 2 + 1}-{at}", cpu="4", memory="16Gi", pods="110", labels={RACK: f"r{at % 2 + 1}"})
    for at in range(6)
]


def placed(name: str) -> list[str]:
    """Return the nodes of an example's pods."""
    objects = list(yaml.safe_load_all((FOLDER / f"{name}.yaml").read_text()))
    done = place(*NODES, *objects)
    (reported,) = done.groups
    assert "Bound" == reported.status
    assert reported.optimal
    return list(results(done).values())


@pytest.mark.parametrize("name", ["job", "hypernodes"])
def test_an_example_is_placed_whole(name: str):
    """Four pods are placed; in the second example they are below one leaf switch."""
    found = placed(name)

    assert 4 == len(found)
    if name == "hypernodes":
        assert 1 == len({one.partition("-")[0] for one in found})
