"""`simulate --against F -o html`: two simulations of one snapshot as one file for a browser.

The file is the page with its data embedded: it needs no server and no network, and its policy
blocks all loading. Names cannot become markup: data is JSON without a character that begins a tag.
"""

import base64
import hashlib
import re
from typing import Any

import msgspec

from scheduler.explain.grouprows import shown_groups
from scheduler.serve.pageroutes import page_files
from scheduler.simulate.diff import SimulationDiff, diff
from scheduler.simulate.outcome import after, figures
from scheduler.simulate.records import Simulation
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.views import sections

_IMPORT = re.compile(r'from "\./([a-z]+)\.js"')


class ComparedSide(msgspec.Struct, frozen=True):
    """One simulation: its name (the configuration file), its result, and the resulting cluster."""

    title: str
    simulation: Simulation
    snapshot: Snapshot


def side(title: str, snapshot: Snapshot, simulation: Simulation) -> ComparedSide:
    """Return a simulation of `snapshot` as a side of a comparison."""
    return ComparedSide(title, simulation, after(snapshot, simulation))


def document(before: ComparedSide, later: ComparedSide, found: SimulationDiff) -> dict[str, Any]:
    """Return the data of a report."""
    scores = [_scores(one.simulation) for one in (before, later)]
    return {
        "sides": [_side(before), _side(later)],
        "pods": [
            {
                "pod": one.key,
                "before": one.before,
                "after": one.after,
                "scores": [by_key.get(one.key, {}) for by_key in scores],
            }
            for one in found.pods
        ],
        "same": found.same,
    }


def html(before: ComparedSide, later: ComparedSide) -> str:
    """Return the whole file."""
    files = {name: body.decode() for name, body in page_files().items()}
    data = msgspec.json.encode(document(before, later, diff(before.simulation, later.simulation)))
    # In a script element only "<" could end the element or begin a tag.
    text = data.decode().replace("<", "\\u003c")
    icon = _data("image/svg+xml", files["icon.svg"])
    modules = {
        f"trellis/{name.removesuffix('.js')}": _data(
            "text/javascript", _IMPORT.sub(r'from "trellis/\1"', body)
        )
        for name, body in files.items()
        if name.endswith(".js")
    }
    imports = msgspec.json.encode({"imports": modules}).decode()
    start = 'import "trellis/app";'
    style = files["style.css"]
    scripts = f"'{_hash(imports)}' '{_hash(start)}' data:"
    policy = (
        f"default-src 'none'; script-src {scripts}; style-src '{_hash(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    body = files["index.html"]
    _, _, rest = body.partition("<body>")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Trellis</title>
<link rel="icon" href="{icon}">
<style>{style}</style>
<script type="importmap">{imports}</script>
</head>
<body>{rest.replace('src="icon.svg"', f'src="{icon}"').partition("</body>")[0]}
<script type="application/json" id="report">{text}</script>
<script type="module">{start}</script>
</body>
</html>
"""


def _side(one: ComparedSide) -> dict[str, Any]:
    return {
        "title": one.title,
        "figures": figures(one.snapshot, one.simulation),
        "sections": sections(one.snapshot, one.snapshot.taken_at, one.snapshot.notices),
        "plan": {
            "groups": shown_groups(one.simulation.groups),
            "queueOrder": one.simulation.queue_order,
            # The placed pods are listed with their nodes.
            "pods": [pod for pod in one.simulation.pods if pod.node is None],
        },
    }


def _scores(simulation: Simulation) -> dict[str, dict[str, int]]:
    return {pod.key: pod.scores for pod in simulation.pods if isinstance(pod.scores, dict)}


def _data(kind: str, text: str) -> str:
    return f"data:{kind};base64,{base64.b64encode(text.encode()).decode()}"


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
