"""The chart's Grafana dashboards, from the panels of docs/generate/panels.yaml.

A row is a list of panels; a text as its first element begins a section that folds.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

PANELS = Path(__file__).parent / "panels.yaml"
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
# `$S` in a query: the series of the chosen release. `.*` also matches a missing label.
SELECTION = 'cluster=~"$cluster",namespace=~"$namespace",job=~"$job"'
WIDTH = 24
# Colours of series by words of their legends, so that green is good and red is broken in every
# panel. The first row that matches counts.
MEANINGS = {
    "red": "error|failed|failure|lost|rejected|denied|expired|dropped|overcommitted|5..|infeasible",
    "orange": "unschedulable|backoff|errors|stale|unproven|"
    "timed out|waiting|4..|useless|preempted|missing",
    "yellow": "gated|pending|unknown|held|partial",
    "green": "scheduled|bound|success|ok|optimal|fresh|proven|active|useful|deciding|2..",
}
Json = dict[str, Any]


def dashboards() -> dict[str, Json]:
    """Return the dashboards by the name of their file."""
    described = yaml.safe_load(PANELS.read_text(encoding="utf-8"))
    return {name: dashboard(name, one) for name, one in described.items()}


def dashboard(name: str, described: Json) -> Json:
    """Return one dashboard as Grafana JSON."""
    return {
        "uid": f"trellis-{name}",
        "title": f"Trellis / {described['title']}",
        "description": described["description"],
        "tags": ["trellis", "kubernetes", "scheduler"],
        "timezone": "browser",
        "schemaVersion": 39,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "links": [
            {
                "type": "dashboards",
                "title": "Trellis",
                "tags": ["trellis"],
                "asDropdown": False,
                "includeVars": True,
                "keepTime": True,
            }
        ],
        "templating": {"list": list(variables())},
        "panels": list(panels(described["rows"])),
    }


def variables() -> Iterator[Json]:
    """Yield the variables of a dashboard: data source, cluster, namespace and release."""
    yield {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
    }
    for name, label in (("cluster", "Cluster"), ("namespace", "Namespace"), ("job", "Release")):
        yield {
            "name": name,
            "label": label,
            "type": "query",
            "datasource": SOURCE,
            "query": f"label_values(trellis_build_info, {name})",
            "refresh": 2,
            "includeAll": True,
            "allValue": ".*",
            "current": {"text": "All", "value": "$__all"},
        }


def panels(rows: list[list[Any]]) -> Iterator[Json]:
    """Yield the panels, row by row from left to right, and the titles of sections."""
    top, number = 0, 0
    for given in rows:
        row = [one for one in given if not isinstance(one, str)]
        for title in given[: len(given) - len(row)]:
            number += 1
            yield section(number, title, top)
            top += 1
        height = 4 if all(one.get("kind") == "stat" for one in row) else 8
        for place, one in enumerate(row):
            number += 1
            width = WIDTH // len(row)
            where = {"x": place * width, "y": top, "w": width, "h": height}
            yield panel(number, one, where)
        top += height


def section(number: int, title: str, top: int) -> Json:
    """Return the title of a section, open at first; its panels follow it."""
    where = {"x": 0, "y": top, "w": WIDTH, "h": 1}
    return {"id": number, "type": "row", "title": title, "collapsed": False, "gridPos": where}


def panel(number: int, described: Json, where: dict[str, int]) -> Json:
    """Return one panel; `stacked` in `described` stacks series whose sum has a meaning."""
    kind = described.get("kind", "timeseries")
    drawn: Json = {}
    if kind == "timeseries":
        stacked = bool(described.get("stacked"))
        drawn = {
            "fillOpacity": 40 if stacked else 8,
            "lineWidth": 1,
            "showPoints": "never",
            "stacking": {"mode": "normal" if stacked else "none"},
        }
    options: Json = {"reduceOptions": {"calcs": ["lastNotNull"]}} if kind == "stat" else {}
    if kind == "state-timeline":
        drawn = {"fillOpacity": 80, "lineWidth": 0}
        options = {"mergeValues": True, "showValue": "auto", "rowHeight": 0.8}
    defaults: Json = {"unit": described["unit"], "min": 0, "custom": drawn}
    if "values" in described:
        shown = {
            str(value): {"text": text, "color": colour, "index": at}
            for at, (value, (text, colour)) in enumerate(described["values"].items())
        }
        defaults["mappings"] = [{"type": "value", "options": shown}]
    if "thresholds" in described:
        defaults["color"] = {"mode": "thresholds"}
        defaults["thresholds"] = {"mode": "absolute", "steps": steps(described["thresholds"])}
    return {
        "id": number,
        "type": kind,
        "title": described["title"],
        "description": described["description"],
        "datasource": SOURCE,
        "gridPos": where,
        "fieldConfig": {
            "defaults": defaults,
            "overrides": list(overrides()) if kind == "timeseries" else [],
        },
        "options": options,
        "targets": [
            {
                "refId": chr(ord("A") + place),
                "datasource": SOURCE,
                "expr": query.replace("$S", SELECTION),
                "legendFormat": legend,
            }
            for place, (legend, query) in enumerate(described["queries"].items())
        ],
    }


def steps(thresholds: dict[str, float]) -> list[Json]:
    """Return Grafana threshold steps: each colour with its least value, None for the first."""
    first, *others = thresholds.items()
    return [
        {"color": first[0], "value": None},
        *({"color": colour, "value": value} for colour, value in others),
    ]


def overrides() -> Iterator[Json]:
    """Yield Grafana overrides that colour series by `MEANINGS`."""
    for colour, words in reversed(MEANINGS.items()):
        yield {
            "matcher": {"id": "byRegexp", "options": rf"/^({words})\b/i"},
            "properties": [{"id": "color", "value": {"mode": "fixed", "fixedColor": colour}}],
        }


def page(name: str) -> str:
    """Return a dashboard's file."""
    return json.dumps(dashboards()[name], indent=1, ensure_ascii=False) + "\n"
