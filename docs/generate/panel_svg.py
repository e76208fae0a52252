"""Draw a Grafana dashboard as SVG from its own JSON and the answers of a Prometheus.

Supports the panels of Trellis' dashboards: time series, stacked or not, and single figures. The
SVG contains no script, font or external picture. Called by dashboard_pictures.py.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from html import escape
from itertools import pairwise
from typing import Any, NamedTuple

Json = dict[str, Any]

COLUMN, ROW, GAP = 60, 26, 6
HEAD = 56
# Colours of series that match no row of `MEANINGS`.
OTHERS = ("#5794f2", "#b877d9", "#8ab8ff", "#c8a2ff", "#3274d9", "#56a3a6", "#ca95e5", "#c0d8ff")
# Grafana's colour names in its dark theme.
NAMED = {
    "green": "#73bf69",
    "yellow": "#f2cc0c",
    "orange": "#ff780a",
    "red": "#f2495c",
    "blue": "#5794f2",
}
SCALES = {
    "s": ((86400, " d"), (3600, " h"), (60, " min"), (1, " s"), (1e-3, " ms"), (1e-6, " µs")),
    "bytes": ((1 << 30, " GiB"), (1 << 20, " MiB"), (1 << 10, " KiB")),
    "percentunit": ((0.01, " %"),),
    "ops": ((1e3, " k/s"), (1, "/s")),
    "reqps": ((1e3, " k/s"), (1, "/s")),
}
STYLE = (
    "text{font-family:system-ui,sans-serif;font-size:11px;fill:#9fa7b3}"
    ".t{font-size:13px;font-weight:500;fill:#d8d9da}"
    ".h{font-size:20px;font-weight:500;fill:#d8d9da}"
    ".n{font-size:34px;font-weight:600;fill:#73bf69;text-anchor:middle}"
    ".y{text-anchor:end}.x{text-anchor:middle}"
)


class Line(NamedTuple):
    """One series: its legend, and one value (or None) per sample time."""

    legend: str
    values: tuple[float | None, ...]


class Box(NamedTuple):
    """A rectangle of the drawing, in pixels."""

    x: float
    y: float
    width: float
    height: float


def picture(dashboard: Json, lines: dict[int, list[Line]], seconds: float) -> str:
    """Return a dashboard as SVG; `lines` by panel id, over `seconds` of time."""
    bottom = max(one["gridPos"]["y"] + one["gridPos"]["h"] for one in dashboard["panels"])
    width, height = 24 * COLUMN + GAP, HEAD + bottom * ROW + GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        f"<title>{escape(dashboard['title'])}</title>",
        f"<style>{STYLE}</style>",
        f'<rect width="{width}" height="{height}" fill="#111217"/>',
        f'<text class="h" x="16" y="35">{escape(dashboard["title"])}</text>',
    ]
    for panel in dashboard["panels"]:
        where = panel["gridPos"]
        box = Box(
            where["x"] * COLUMN + GAP,
            where["y"] * ROW + HEAD,
            where["w"] * COLUMN - GAP,
            where["h"] * ROW - GAP,
        )
        own = lines.get(panel["id"], [])
        if panel["type"] == "row":
            title = escape(panel["title"])
            parts.append(f'<text class="t" x="{box.x + 4}" y="{box.y + 18}">{title}</text>')
        elif panel["type"] == "state-timeline":
            parts += _states(panel, box, own)
        else:
            parts += _panel(panel, box, own, seconds)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _frame(panel: Json, box: Box) -> Iterator[str]:
    """Yield the frame of a panel with its title."""
    yield (
        f'<rect x="{box.x}" y="{box.y}" width="{box.width}" height="{box.height}" rx="2" '
        'fill="#181b1f" stroke="#2c3235"/>'
    )
    yield f'<text class="t" x="{box.x + 10}" y="{box.y + 20}">{escape(panel["title"])}</text>'


def _states(panel: Json, box: Box, lines: list[Line]) -> Iterator[str]:
    """Yield a band for each series, coloured by its states over time."""
    yield from _frame(panel, box)
    states = panel["fieldConfig"]["defaults"]["mappings"][0]["options"]
    height = (box.height - 44) / max(1, len(lines))
    for place, line in enumerate(lines):
        top, step = box.y + 34 + place * height, (box.width - 20) / max(1, len(line.values))
        for at, value in enumerate(line.values):
            state = {} if value is None else states.get(f"{value:g}", {})
            if state:
                yield (
                    f'<rect x="{box.x + 10 + at * step:.1f}" y="{top:.1f}" '
                    f'width="{step + 0.3:.1f}" height="{height - 4:.1f}" '
                    f'fill="{NAMED[state["color"]]}" shape-rendering="crispEdges"/>'
                )
        known = [value for value in line.values if value is not None]
        text = states.get(f"{known[-1]:g}", {}).get("text", "") if known else ""
        words = escape(f"{line.legend}: {text}")
        where = f'x="{box.x + 16}" y="{top + height / 2:.1f}" style="fill:#111217"'
        yield f'<text class="t" {where}>{words}</text>'


def _panel(panel: Json, box: Box, lines: list[Line], seconds: float) -> Iterator[str]:
    yield from _frame(panel, box)
    defaults = panel["fieldConfig"]["defaults"]
    if panel["type"] == "stat":
        known = [value for line in lines for value in line.values if value is not None]
        figure = shown(known[-1], defaults["unit"]) if known else "-"
        colour = threshold(defaults, known[-1]) if known else NAMED["green"]
        middle = (box.x + box.width / 2, box.y + box.height / 2 + 20)
        at = f'x="{middle[0]:.0f}" y="{middle[1]:.0f}"'
        yield f'<text class="n" {at} style="fill:{colour}">{escape(figure)}</text>'
        return
    rows = math.ceil(min(len(lines), 9) / 3)
    plot = Box(box.x + 62, box.y + 34, box.width - 76, box.height - 60 - 15 * rows)
    is_stacked = defaults["custom"]["stacking"]["mode"] == "normal"
    drawn = stacked(lines) if is_stacked else [(None, line) for line in lines]
    top = nice(max([0.0, *(v for _, line in drawn for v in line.values if v is not None)]))
    yield from _axes(plot, top, defaults["unit"], seconds)
    colours = colours_of(panel, [line.legend for line in lines])
    for (below, line), colour in zip(drawn, colours, strict=True):
        yield from _series(plot, top, line, below, colour)
    yield from _legends(box, lines, rows, colours)


def _axes(plot: Box, top: float, unit: str, seconds: float) -> Iterator[str]:
    for part in (0.0, 0.5, 1.0):
        y = plot.y + plot.height * (1 - part)
        yield f'<path d="M{plot.x} {y:.1f}h{plot.width}" stroke="#2c3235"/>'
        label = escape(shown(top * part, unit, largest=top))
        yield f'<text class="y" x="{plot.x - 6}" y="{y + 4:.1f}">{label}</text>'
    for part in (0.0, 0.5, 1.0):
        x = plot.x + plot.width * part
        minutes, rest = divmod(round(seconds * part), 60)
        label = f"{minutes}:{rest:02}"
        yield f'<text class="x" x="{x:.1f}" y="{plot.y + plot.height + 15:.1f}">{label}</text>'


def _series(plot: Box, top: float, line: Line, below: Line | None, colour: str) -> Iterator[str]:
    last = max(1, len(line.values) - 1)

    def at(place: int, value: float) -> str:
        x = plot.x + plot.width * place / last
        return f"{x:.1f} {plot.y + plot.height * (1 - min(value / top, 1.0)):.1f}"

    for run in runs(line.values):
        upper = [at(place, value) for place, value in run]
        path = "M" + "L".join(upper)
        if len(run) == 1:
            path += "h1.5"
        yield f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.3"/>'
        if below is not None:
            lower = [at(place, below.values[place] or 0.0) for place, _ in reversed(run)]
            area = "M" + "L".join([*upper, *lower]) + "z"
            yield f'<path d="{area}" fill="{colour}" opacity=".35"/>'


def _legends(box: Box, lines: list[Line], rows: int, colours: list[str]) -> Iterator[str]:
    width = (box.width - 20) / min(3, max(1, len(lines)))
    longest = int((width - 22) / 6.2)
    for number, line in enumerate(lines[:9]):
        x = box.x + 12 + (number % 3) * width
        y = box.y + box.height - 8 - 15 * (rows - 1 - number // 3)
        text = line.legend if len(line.legend) <= longest else line.legend[: longest - 1] + "…"
        colour = colours[number]
        yield f'<rect x="{x:.0f}" y="{y - 5:.0f}" width="10" height="3" fill="{colour}"/>'
        yield f'<text x="{x + 15:.0f}" y="{y:.0f}">{escape(text)}</text>'


def threshold(defaults: Json, value: float) -> str:
    """Return the colour of a single figure: that of the highest threshold it reaches."""
    found = NAMED["green"]
    for step in defaults.get("thresholds", {}).get("steps", ()):
        if step["value"] is None or value >= step["value"]:
            found = NAMED[step["color"]]
    return found


def colours_of(panel: Json, legends: Sequence[str]) -> list[str]:
    """Return each series' colour: the last matching override of the panel, else one of `OTHERS`."""
    free = iter(range(len(legends)))
    found = []
    for legend in legends:
        colour = ""
        for override in panel["fieldConfig"]["overrides"]:
            pattern = override["matcher"]["options"].removeprefix("/").removesuffix("/i")
            if re.search(pattern, legend, re.IGNORECASE):
                colour = NAMED[override["properties"][0]["value"]["fixedColor"]]
        found.append(colour or OTHERS[next(free) % len(OTHERS)])
    return found


def stacked(lines: Sequence[Line]) -> list[tuple[Line | None, Line]]:
    """Return (lower edge, upper edge) of each stacked line."""
    found: list[tuple[Line | None, Line]] = []
    sums: list[float] = [0.0] * max((len(line.values) for line in lines), default=0)
    for line in lines:
        below = Line("", tuple(sums))
        sums = [total + (value or 0.0) for total, value in zip(sums, line.values, strict=True)]
        whole = (
            total if value is not None else None
            for total, value in zip(sums, line.values, strict=True)
        )
        found.append((below, Line(line.legend, tuple(whole))))
    return found


def runs(values: Sequence[float | None]) -> list[list[tuple[int, float]]]:
    """Return the runs without gaps, as (index, value) pairs."""
    there = [(place, value) for place, value in enumerate(values) if value is not None]
    found = [[there[0]]] if there else []
    for before, one in pairwise(there):
        if one[0] == before[0] + 1:
            found[-1].append(one)
        else:
            found.append([one])
    return found


def nice(value: float) -> float:
    """Return the next round number up; 1 for 0."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(
        power * step for step in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if power * step >= value * 0.999
    )


def shown(value: float, unit: str, *, largest: float | None = None) -> str:
    """Return a value in Grafana's notation, in the unit that suits `largest`."""
    reference = value if largest is None else largest
    if unit not in SCALES or not reference:
        return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"
    scales = SCALES[unit]
    size, name = next((one for one in scales if reference >= one[0]), scales[-1])
    return f"{value / size:.3g}{name}"


def legend(template: str, labels: dict[str, str]) -> str:
    """Return a legend with the labels of `metric` filled in."""
    return re.sub(r"{{(\w+)}}", lambda found: labels.get(found[1], ""), template)
