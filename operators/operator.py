"""The runner's view of an operator: a kind to watch, and a handler of its objects.

Operators import neither kopf nor the runner. An operator watches exactly one kind; it reads
everything else from `ClusterView`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from operators.client import Client
from operators.settings import OperatorsSettings
from scheduler.base.clock import Clock
from scheduler.base.meters import Meters
from scheduler.objects.kinds import Kind
from scheduler.state.view import ClusterView


class JobOutcome(Protocol):
    """The end of a job: `blob` is the result if it is `ok`, else `message` is the error."""

    @property
    def ok(self) -> bool: ...
    @property
    def blob(self) -> bytes: ...
    @property
    def message(self) -> str: ...


class Calculator(Protocol):
    """Runs long calculations in another process (`scheduler.workers`), beside the event loop."""

    async def run(self, kind: str, payload: bytes, limit_s: float) -> JobOutcome:
        """Run a job of a kind; the payload is JSON, and every failure is an outcome."""


class Planner(Calculator, Protocol):
    """A helper process for plans of moves: they take longer than questions of groups may wait."""

    async def close(self) -> None:
        """End the process; the next job starts another one."""


class OperatorSurroundings(NamedTuple):
    """The inputs of an operator at its start.

    `legacy` means that the kind has no status subresource. `report` receives an error that does not
    end the operator, '' when it is over. `reported` receives the state of a source of measurements:
    its name, the time of its last response, and its error. Without a `calculator` long calculations
    are skipped.
    """

    view: ClusterView
    api: Client
    legacy: bool
    settings: OperatorsSettings
    clock: Clock
    report: Callable[[str], None]
    calculator: Calculator | None = None
    planner: Planner | None = None
    meters: Meters = Meters()
    reported: Callable[[str, float | None, str], None] = lambda *_: None


class Operator(Protocol):
    """One run of an operator: its memory is empty at the start and ends with the run."""

    def seen(self, type_: str | None, raw: dict[str, Any]) -> None:
        """Receive the current version of an object; `type_` DELETED means that it was deleted."""

    async def work(self) -> None:
        """Keep the objects until cancelled."""


class Recipe(NamedTuple):
    """How to make an operator: `name` in metrics and settings, the kind it keeps.

    With `watches` false `seen` is not called: the operator reads its objects from `ClusterView`.
    """

    name: str
    kind: Kind
    make: Callable[[OperatorSurroundings], Operator]
    watches: bool = True
