"""The effect of a TrellisConfiguration on its profiles, and its settings without effect."""

import pytest

from scheduler.config import InvalidConfigError, Loaded, load
from scheduler.groups.args import ClusterTopologyPlacementGroupArgs
from scheduler.intree import registry

NAME = "ClusterTopologyPlacementGroup"
TEXT = """apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {{preEnqueue: {{enabled: [{{name: ClusterTopologyPlacementGroup}}]}}}}
  pluginConfig:
  - name: ClusterTopologyPlacementGroup
    args: {args}
---
apiVersion: trellis.dev/v1alpha1
kind: TrellisConfiguration
{ours}
"""


def loaded(args: str, ours: str) -> Loaded:
    return load(TEXT.format(args=args, ours=ours), file="f.yaml", registry=registry())


def reported(found: Loaded) -> list[str]:
    return [str(one) for one in found.notices if "f.yaml:11:" in str(one)]


@pytest.mark.parametrize(
    ("args", "solver", "expected"),
    [
        ("{}", "{}", (2.0, 3.0, 1)),
        ("{}", "{timeLimitSeconds: 2.5, workers: 4}", (2.0, 2.5, 4)),
        ("{solverTimeLimitSeconds: 50}", "{}", (50.0, 3.0, 1)),
        ("{solverTimeLimitSeconds: 50, solverWorkers: 2}", "{workers: 8}", (50.0, 3.0, 2)),
        ("{solverWorkers: 9}", "{timeLimitSeconds: 1, workers: 8}", (1.0, 1.0, 8)),
    ],
)
def test_the_smaller_limit_holds(args: str, solver: str, expected: tuple[float, float, int]):
    """The smaller limit of the process and of the plugin counts; a plugin without a limit has the
    process's workers.
    """
    found = loaded(args, f"solver: {solver}").profiles[0].args[NAME]

    assert isinstance(found, ClusterTopologyPlacementGroupArgs)
    times = found.solver_time_limit_seconds, found.preemption_time_limit_seconds
    assert expected == (*times, found.solver_workers)


@pytest.mark.parametrize("given", ["Healthy=false", "=True", "Healthy="])
def test_a_condition_has_a_type_and_a_status_of_the_api(given: str):
    """A type alone means status True."""
    read = loaded("{avoidConditions: [Deadlock, Healthy=False]}", "").profiles[0].args[NAME]
    assert isinstance(read, ClusterTopologyPlacementGroupArgs)
    assert {"Deadlock=True", "Healthy=False"} == read.avoided_conditions

    with pytest.raises(InvalidConfigError, match="neither a type nor Type=True"):
        loaded(f'{{avoidConditions: ["{given}"]}}', "")


def test_truncation_is_reported():
    """The notice has its position; defaults of Trellis are not reported."""
    args = "{solverWorkers: 9, solverTimeLimitSeconds: 5}"
    found = loaded(args, "solver: {timeLimitSeconds: 2.5, workers: 8}")

    assert [
        f"f.yaml:11:1: {NAME} asks for solverTimeLimitSeconds: 5; solver allows 2.5",
        f"f.yaml:11:1: {NAME} asks for solverWorkers: 9; solver allows 8",
    ] == reported(found)
    assert [] == reported(loaded("{}", "solver: {timeLimitSeconds: 0.5, workers: 8}"))
