"""The pictures of the dashboards: complete, self-contained, and drawn correctly."""

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from docs.generate.dashboards import dashboards
from docs.generate.panel_svg import OTHERS, Line, nice, picture, runs, shown, stacked

IMAGES = Path(__file__).parents[2] / "docs" / "images"
FOUND = dashboards()


@pytest.mark.parametrize("name", FOUND)
def test_the_picture_shows_the_dashboard_as_it_is(name: str):
    """A stale picture fails; `python -m docs.generate.dashboard_pictures` draws it again in two
    minutes.
    """
    text = (IMAGES / f"dashboard-{name}.svg").read_text()
    words = {"".join(one.itertext()) for one in ET.fromstring(text).iter() if one.text}

    assert {panel["title"] for panel in FOUND[name]["panels"]} <= words
    assert "href" not in text
    assert "url(" not in text


def test_lines_lie_where_their_values_are():
    """Half of the largest value is in the middle of the plot; a gap ends a line."""
    (panel,) = (one for one in FOUND["health"]["panels"] if one["title"] == "Watch events received")
    line = Line("Pod", (0.0, 5.0, None, 10.0))
    drawn = picture({"title": "T", "panels": [panel]}, {panel["id"]: [line]}, 60)
    paths = [
        one.attrib["d"] for one in ET.fromstring(drawn).iter() if one.get("stroke") == OTHERS[0]
    ]
    bottom, middle, top = (
        float(point.split()[1]) for path in paths for point in path[1:].split("h")[0].split("L")
    )

    assert 2 == len(paths)
    assert pytest.approx(middle, abs=0.1) == (bottom + top) / 2
    assert bottom > top
    for text in ("Pod", "10/s", "5/s", "0:30", "1:00"):
        assert f">{text}<" in drawn


def test_stacked_lines_stand_on_one_another():
    """A missing value adds nothing."""
    lines = [Line("a", (1.0, 2.0, None)), Line("b", (1.0, None, 3.0))]
    (below, first), (middle, second) = stacked(lines)

    assert (1.0, 2.0, None) == first.values
    assert (2.0, None, 3.0) == second.values
    assert ((0.0, 0.0, 0.0), (1.0, 2.0, 0.0)) == (below and below.values, middle and middle.values)


def test_gaps_end_a_run():
    """A point without a value divides the line."""
    assert [[(0, 1.0)], [(2, 2.0), (3, 3.0)]] == runs((1.0, None, 2.0, 3.0, None))
    assert [] == runs((None,))


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0042, "s", "4.2 ms"),
        (86400 * 300, "s", "300 d"),
        (150 << 20, "bytes", "150 MiB"),
        (0.123, "percentunit", "12.3 %"),
        (12.5, "ops", "12.5/s"),
        (0.25, "reqps", "0.25/s"),
        (3, "short", "3"),
        (12345, "none", "12,345"),
        (0, "s", "0"),
    ],
)
def test_values_have_units(value: float, unit: str, text: str):
    """Values have the usual units."""
    assert text == shown(value, unit)


@pytest.mark.parametrize(("value", "round_one"), [(0, 1), (0.7, 0.8), (7, 8), (10, 10), (110, 150)])
def test_axes_end_at_round_numbers(value: float, round_one: float):
    """The last axis label is not below the largest value."""
    assert round_one == pytest.approx(nice(value))
