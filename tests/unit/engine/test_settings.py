"""The engine's settings apply to every caller that builds one."""

import msgspec

from scheduler.config import load
from scheduler.engine.attempt.cycle import Ties
from scheduler.engine.settings import EngineSettings, engine_settings
from scheduler.framework.registry import Registry
from scheduler.intree import IN_TREE
from scheduler.simulate.stage import AnswerOptions, Setup, build_engine

UNUSUAL = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
podInitialBackoffSeconds: 3
podMaxBackoffSeconds: 70
percentageOfNodesToScore: 37
extenders:
- urlPrefix: http://extender.example
  filterVerb: filter
---
apiVersion: trellis.dev/v1alpha1
kind: TrellisConfiguration
featureGates:
  TaintTolerationComparisonOperators: true
"""


def test_every_setting_is_read_from_the_configuration():
    """An unread field would keep its default; ties are not in the configuration."""
    registry = Registry(IN_TREE)
    settings = engine_settings(load(UNUSUAL, file="c.yaml", registry=registry), seed=5)

    usual = EngineSettings()
    same = {
        name
        for name in EngineSettings.__struct_fields__
        if getattr(settings, name) == getattr(usual, name)
    }
    assert {"ties"} == same


def test_what_if_differs_from_production_by_name_only():
    """The settings of `simulate` and `explain` differ from the daemon's only in the tie-break and
    in extenders, which are not called.
    """
    registry = Registry(IN_TREE)
    loaded = load(UNUSUAL, file="c.yaml", registry=registry)
    engine = build_engine(Setup(loaded, registry), AnswerOptions(ties=Ties.NAME, seed=9))

    production = engine_settings(loaded, seed=9)
    expected = msgspec.structs.replace(production, ties=Ties.NAME, extenders=())
    assert expected == engine.settings
