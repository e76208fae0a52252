"""The output of a scenario: a live table in a terminal, plain lines in a pipe."""

import sys
from collections import Counter
from collections.abc import Sequence
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from scheduler.objects.node import Node
from scheduler.objects.pod import Pod

ZONE = "topology.kubernetes.io/zone"
RACK = "topology.trellis.dev/rack"
MOST_COLUMNS = 4
SHOWN_LINES = 12
_COLOURS = ("cyan", "green", "magenta", "yellow", "blue", "red")


class Show:
    """Print a scenario; `with` begins and ends the live table of a terminal."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(file=sys.stdout, highlight=False)
        self._shown: list[Text] = []
        self._table: Table | None = None
        self._live: Live | None = None

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self._live = Live(console=self.console, refresh_per_second=10, transient=False)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def chapter(self, number: int, title: str) -> None:
        """Start a chapter."""
        self._append(Text(f"{number}. {title}", style="bold"))

    def say(self, text: str) -> None:
        """Print a text."""
        self._append(Text(f"   {text.strip()}"))

    def did(self, what: str, lines: Sequence[str] = ()) -> None:
        """Print an action on the cluster."""
        more = f" ({len(lines)} objects)" if lines else ""
        self._append(Text(f"   $ {what}{more}", style="cyan"))

    def met(self, text: str) -> None:
        """Print that an expectation was met."""
        self._append(Text(f"   ✓ {text}", style="green"))

    def broken(self, text: str) -> None:
        """Print that an expectation was not met."""
        self._append(Text(f"   ✗ {text}", style="bold red"))

    def look(self, nodes: Sequence[Node], pods: Sequence[Pod]) -> None:
        """Draw the current state of the cluster."""
        if self._live is not None:
            self._table = cluster_table(nodes, pods)
            self._refresh()

    def _append(self, text: Text) -> None:
        self._shown.append(text)
        if self._live is None:
            self.console.print(text, soft_wrap=True)
        else:
            self._refresh()

    def _refresh(self) -> None:
        if self._live is None:
            return
        panel = Panel(Group(*self._shown[-SHOWN_LINES:]), title="trellis demo", border_style="dim")
        parts = [panel] if self._table is None else [self._table, panel]
        self._live.update(Group(*parts))


def cluster_table(nodes: Sequence[Node], pods: Sequence[Pod]) -> Table:
    """Return the nodes by rack or zone, with a block for each pod in its application's colour."""
    on: dict[str, list[Pod]] = {}
    for pod in pods:
        on.setdefault(pod.spec.node_name, []).append(pod)
    apps = sorted({_app(pod) for pod in pods})
    colour = {app: _COLOURS[number % len(_COLOURS)] for number, app in enumerate(apps)}
    label = _dividing_label(nodes)
    units = sorted({node.metadata.labels.get(label, "-") for node in nodes})
    table = Table(title=_title(pods), expand=True, show_edge=False, pad_edge=False)
    columns: list[list[Text]] = []
    for unit in units:
        table.add_column(unit)
        mine = [node for node in nodes if node.metadata.labels.get(label, "-") == unit]
        mine.sort(key=lambda node: node.metadata.name)
        columns.append([_row(node, on.get(node.metadata.name, []), colour) for node in mine])
    for number in range(max(map(len, columns), default=0)):
        table.add_row(*(rows[number] if number < len(rows) else Text() for rows in columns))
    return table


def _dividing_label(nodes: Sequence[Node]) -> str:
    """Return the label of the columns: racks if they all fit side by side, else zones."""
    racks = {node.metadata.labels.get(RACK, "") for node in nodes}
    return RACK if 1 < len(racks) <= MOST_COLUMNS and "" not in racks else ZONE


def _row(node: Node, pods: Sequence[Pod], colour: dict[str, str]) -> Text:
    closed = node.spec.unschedulable or any(t.effect == "NoSchedule" for t in node.spec.taints)
    text = Text(f"{node.metadata.name:10.10} ", style="dim" if closed else "")
    text.append("⊘ " if node.spec.unschedulable else "▲ " if closed else "  ")
    for pod in pods:
        text.append("■", style=colour[_app(pod)])
    return text


def _app(pod: Pod) -> str:
    labels = pod.metadata.labels
    return labels.get("app") or labels.get("app.kubernetes.io/name") or pod.metadata.name


def _title(pods: Sequence[Pod]) -> str:
    counts = Counter("placed" if pod.spec.node_name else "pending" for pod in pods)
    return (
        f"{counts['placed']} pods placed, {counts['pending']} pending   (■ pod  ⊘ cordoned  ▲ "
        "tainted)"
    )
