"""The dashboards have descriptions, use existing metrics and refer to no external service."""

import json
import re
from typing import Any

import pytest

from docs.generate import dashboards
from scheduler.base.meters import Meters
from tests.chart.queries import names_in
from tests.chart.test_chart import HELM, render

FOUND = dashboards.dashboards()
PANELS = [
    (name, panel)
    for name, one in FOUND.items()
    for panel in one["panels"]
    if panel["type"] != "row"
]
NAMES = {spec.name for spec in Meters.table().values()}


@pytest.mark.parametrize("name", FOUND)
def test_a_dashboard_can_be_imported_anywhere(name: str):
    """The dashboard has a variable for the data source, has its own ids and refers to no external
    object.
    """
    one = FOUND[name]
    ids = [panel["id"] for panel in one["panels"]]

    assert f"trellis-{name}" == one["uid"]
    assert sorted(set(ids)) == ids
    assert ["datasource", "cluster", "namespace", "job"] == [
        variable["name"] for variable in one["templating"]["list"]
    ]
    assert "://" not in json.dumps(one)
    corners = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in one["panels"]}
    assert len(corners) == len(ids)


@pytest.mark.parametrize(
    ("name", "panel"), PANELS, ids=lambda one: one if isinstance(one, str) else one["title"]
)
def test_a_panel_says_what_it_shows(name: str, panel: dict[str, Any]):
    """Each panel has title, description and unit; each query reads metrics of Trellis, of the
    chosen release alone.
    """
    del name
    assert panel["title"]
    assert panel["description"].endswith(".")
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert "${datasource}" == panel["datasource"]["uid"]
    assert panel["targets"]
    for target in panel["targets"]:
        assert names_in(target["expr"]) <= NAMES
        series = re.findall(r"(?:scheduler|trellis|rest_client|process)_[a-z_]+", target["expr"])
        assert len(series) == target["expr"].count(dashboards.SELECTION)
        assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= labels_of(target["expr"])


def labels_of(query: str) -> set[str]:
    """Return the labels that a query's series have, if the query names them."""
    kept = re.findall(r"by \(([^)]*)\)", query)
    named = {label.strip() for labels in kept for label in labels.split(",")}
    return named or {"instance", "version", "python_version"}


@pytest.mark.skipif(HELM is None, reason="helm is not installed (make tools)")
def test_they_are_config_maps_for_grafanas_sidecar():
    """Each dashboard is one ConfigMap with its label and folder; there is none by default."""
    maps = [
        one
        for one in render("grafanaDashboard.enabled=true", "grafanaDashboard.namespace=grafana")
        if one["metadata"].get("labels", {}).get("grafana_dashboard") == "1"
    ]

    assert sorted(FOUND) == sorted(
        json.loads(*one["data"].values())["uid"].removeprefix("trellis-") for one in maps
    )
    assert {"grafana"} == {one["metadata"]["namespace"] for one in maps}
    assert all("Trellis" == one["metadata"]["annotations"]["grafana_folder"] for one in maps)
    assert "grafana_dashboard" not in json.dumps(render())
