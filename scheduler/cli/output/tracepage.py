"""`simulate --trace -o html`: the figures of one or two plays as one file for a browser.

Charts are SVG in the file; it has no script and loads nothing. Every text is escaped.
"""

import base64
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape

from scheduler.simulate.traces.samples import TracePoint
from scheduler.simulate.traces.summary import TraceSummary

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 720, 220, 56, 24
_COLOURS = ("#1f6feb", "#d1570b")
_MOST_ROWS = 500
_STYLE = """
body{font:14px system-ui,sans-serif;margin:2em auto;max-width:60em;padding:0 1em;color:#1f2328}
table{border-collapse:collapse;margin:1em 0;display:block;overflow-x:auto}
td,th{border-bottom:1px solid #d0d7de;padding:3px 10px;text-align:right;white-space:nowrap}
td:nth-child(-n+2),th:nth-child(-n+2){text-align:left}
svg{width:100%;height:auto}text{font-size:11px;fill:#57606a}
.key{display:inline-block;width:1em;height:.7em;margin-right:.4em}
"""

Value = Callable[[TracePoint], float | None]


def html(found: Mapping[str, TraceSummary]) -> str:
    """Return the page for one or two plays, keyed by title."""
    digest = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'"
    parts = ["<h1>Trace simulation</h1>", _keys(found), _overview(found)]
    parts += [_chart(title, unit, value, found) for title, unit, value in _charts(found)]
    for title, summary in found.items():
        parts.append(f"<h2>{escape(title)}</h2>")
        if not summary.complete:
            parts.append("<p>Stopped: the figures cover the trace up to here.</p>")
        parts += [_waiting(summary), _jobs(summary)]
    body = "\n".join(parts)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Trellis: trace simulation</title>
<style>{_STYLE}</style>
</head>
<body>
{body}
</body>
</html>
"""


def _keys(found: Mapping[str, TraceSummary]) -> str:
    keys = (
        f'<svg class="key" viewBox="0 0 10 7"><rect width="10" height="7" '
        f'fill="{colour}"/></svg>{escape(title)}'
        for title, colour in zip(found, _COLOURS, strict=False)
    )
    return f"<p>{'<br>'.join(keys)}</p>"


def _overview(found: Mapping[str, TraceSummary]) -> str:
    rows: list[Sequence[str]] = []
    for title, one in found.items():
        figures = (one.pods, one.bound, one.never_bound, one.evicted)
        rows.append((title, f"{one.seconds / 3600:.2f} h", *map(str, figures)))
    uses = [
        (title, use.resource, f"{use.mean:.2f} %", f"{use.peak:.2f} %")
        for title, one in found.items()
        for use in one.allocation
    ]
    titles = ("configuration", "time", "pods", "bound", "never bound", "evicted")
    return _table(titles, rows) + _table(
        ("configuration", "resource", "mean allocation", "peak"), uses
    )


def _charts(found: Mapping[str, TraceSummary]) -> list[tuple[str, str, Value]]:
    """Return the charts: title, unit, and the value of a point."""
    points = [point for one in found.values() for point in one.points]
    names = sorted({name for point in points for name in point.allocation})
    charts: list[tuple[str, str, Value]] = [("Waiting pods", "", lambda point: point.waiting)]
    for name in names:
        charts.append((f"Allocated {name}", "%", _of_allocation(name)))
        charts.append((f"Fragmented part of what is free of {name}", "%", _of_fragmentation(name)))
    if any(point.network_cost is not None for point in points):
        charts.append(("Network cost", "", lambda point: point.network_cost))
    return charts


def _of_allocation(name: str) -> Value:
    return lambda point: point.allocation.get(name)


def _of_fragmentation(name: str) -> Value:
    return lambda point: point.fragmentation.get(name)


def _chart(title: str, unit: str, value: Value, found: Mapping[str, TraceSummary]) -> str:
    """Return a line chart with one line per play."""
    lines = [
        [(point.seconds, y) for point in one.points if (y := value(point)) is not None]
        for one in found.values()
    ]
    last = max((x for line in lines for x, _ in line), default=0.0) or 1.0
    top = 100.0 if unit == "%" else max((y for line in lines for _, y in line), default=0.0) or 1.0
    paths = "".join(
        f'<polyline fill="none" stroke="{colour}" stroke-width="1.5" '
        f'points="{_points(line, last, top)}"/>'
        for line, colour in zip(lines, _COLOURS, strict=False)
    )
    right, bottom = _WIDTH - 8, _HEIGHT - _BOTTOM
    frame = f'<path fill="none" stroke="#d0d7de" d="M{_LEFT} 8V{bottom}H{right}"/>'
    texts = (
        f'<text x="4" y="16">{top:g}{escape(unit)}</text><text x="4" y="{bottom}">0</text>'
        f'<text x="{right - 60}" y="{_HEIGHT - 6}">{last / 3600:.1f} h</text>'
    )
    return (
        f"<h3>{escape(title)}</h3>\n"
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">{frame}{paths}{texts}</svg>'
    )


def _points(line: Iterable[tuple[float, float]], last: float, top: float) -> str:
    width, height = _WIDTH - 8 - _LEFT, _HEIGHT - _BOTTOM - 8
    return " ".join(
        f"{_LEFT + x / last * width:.1f},{8 + height - y / top * height:.1f}" for x, y in line
    )


def _waiting(summary: TraceSummary) -> str:
    titles = ("namespace", "shape", "pods", "bound", "refused at first", "evicted")
    rows = [
        (
            one.namespace,
            one.shape,
            *map(str, (one.pods, one.bound, one.refused, one.evicted)),
            *map(_number, (one.waiting_p50, one.waiting_p95, one.waiting_p99)),
        )
        for one in summary.waiting
    ]
    return _table((*titles, "waiting p50 s", "p95 s", "p99 s"), rows)


def _jobs(summary: TraceSummary) -> str:
    titles = ("namespace", "shape", "jobs", "completed", "completion p50 s", "p95 s", "p99 s")
    rows = [
        (
            one.namespace,
            one.shape,
            *map(str, (one.jobs, one.completed)),
            *map(_number, (one.completion_p50, one.completion_p95, one.completion_p99)),
            f"{one.gangs_started} of {one.gangs}",
            *map(_number, (one.gang_wait_p50, one.gang_wait_p95)),
        )
        for one in summary.jobs
    ]
    return _table((*titles, "gangs started", "gang wait p50 s", "p95 s"), rows)


def _number(value: float) -> str:
    return f"{value:g}"


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(title)}</th>" for title in titles)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>"
        for row in rows[:_MOST_ROWS]
    )
    rest = len(rows) - _MOST_ROWS
    more = f"<p>{rest} more rows: use -o json.</p>" if rest > 0 else ""
    return f"<table><tr>{head}</tr>{body}</table>{more}"
