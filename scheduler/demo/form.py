"""The format of a scenario file.

A scenario is chapters of steps. A step does one thing (`apply`, `delete`, `drain`, `uncordon`,
`taint`, `scale`), prints a text (`say`), or checks something: the pods (`expect`), the network cost
of applications (`cost`), or that a group's placement is optimal (`prove`). A new chapter is a few
lines of YAML; docs/examples/demo/scenario.yaml is the one that `trellis demo` plays.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import yaml

from scheduler.base.errors import InputError


class _Strict(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    pass


class Expectation(_Strict, frozen=True):
    """The expected state of the pods of `namespace` with the labels of `selector`.

    `placed` and `pending` count pods with and without a node; `message` must be in the condition of
    every pending one; `nodes` are labels of the node of every placed one; `except_node` is a node
    without any of them, `per_node` is their number on each node, 0 on all others; `event` must be
    in an event on one of them. It must become true `within` so many seconds.
    """

    namespace: str = "default"
    selector: dict[str, str] = {}
    placed: int | None = None
    pending: int | None = None
    message: str = ""
    nodes: dict[str, str] = {}
    except_node: str = ""
    per_node: dict[str, int] = {}
    event: str = ""
    within: float = 30.0


class TaintStep(_Strict, frozen=True):
    """A taint to add to the nodes with the labels of `nodes`."""

    nodes: dict[str, str]
    key: str
    effect: str
    value: str = ""


class ScaleStep(_Strict, frozen=True):
    """A Deployment and its new number of replicas."""

    name: str
    replicas: int
    namespace: str = "default"


class CostLimit(_Strict, frozen=True):
    """A limit on the cost of all applications, as a share of their cost under the profiles of a
    file.
    """

    against: str
    at_most: float


class ScenarioStep(_Strict, frozen=True):
    """One step; exactly one field is set. Files are named relative to the scenario's."""

    say: str | None = None
    apply: str | None = None
    delete: str | None = None
    drain: str | None = None
    uncordon: str | None = None
    taint: TaintStep | None = None
    scale: ScaleStep | None = None
    expect: Expectation | None = None
    cost: CostLimit | None = None
    prove: str | None = None

    def given(self) -> tuple[str, ...]:
        """Return the names of the fields that are set."""
        return tuple(name for name in self.__struct_fields__ if getattr(self, name) is not None)


class Chapter(_Strict, frozen=True):
    """A part of the scenario."""

    title: str
    steps: tuple[ScenarioStep, ...]


class ScenarioFile(_Strict, frozen=True):
    """A whole scenario.

    `shape` is the file that describes the cluster, `config` the daemon's, if any.
    """

    title: str
    shape: str
    chapters: tuple[Chapter, ...]
    config: str = ""
    api_version: str = "trellis.dev/v1alpha1"
    kind: str = "Scenario"


def read_scenario(path: Path) -> ScenarioFile:
    """Return a scenario; InputError names the file and its fault."""
    try:
        scenario = msgspec.convert(yaml.safe_load(path.read_text(encoding="utf-8")), ScenarioFile)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=str(path)) from error
    except yaml.YAMLError as error:
        raise InputError(" ".join(str(error).split()), where=str(path)) from error
    except msgspec.ValidationError as error:
        raise InputError(str(error), where=str(path)) from error
    for problem in _problems(scenario):
        raise InputError(problem, where=str(path))
    return scenario


def _problems(scenario: ScenarioFile) -> Iterator[str]:
    for number, chapter in enumerate(scenario.chapters):
        for index, step in enumerate(chapter.steps):
            if len(step.given()) != 1:
                known = ", ".join(ScenarioStep.__struct_fields__)
                yield f"chapters[{number}].steps[{index}]: exactly one of {known} is needed"
