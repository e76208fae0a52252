"""The kinds that the daemon watches follow from its configuration."""

import pytest

from scheduler.config import default_config, load
from scheduler.daemon.process import watched_kinds
from scheduler.framework.registry import Registry
from scheduler.intree import IN_TREE
from scheduler.objects.kinds import MOVE_PLAN, POD_MIX_HISTORY, WATCHED

REGISTRY = Registry(IN_TREE)
PROFILE = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: trellis
  plugins: {multiPoint: {enabled: [{name: FragmentationAware}]}}
  pluginConfig: [{name: FragmentationAware, args: {%s}}]
"""
MOVES = """---
apiVersion: trellis.dev/v1alpha1
kind: TrellisConfiguration
operators: {movePlan: {enabled: true}}
"""


def watched(text: str) -> set[str]:
    """Return the names of the kinds that a daemon with this file watches."""
    return {kind.kind for kind in watched_kinds(load(text, file="f", registry=REGISTRY))}


@pytest.mark.parametrize(("args", "is_watched"), [("history: pods", True), ("", False)])
def test_a_history_of_pods_is_watched_where_a_profile_names_one(args, is_watched):
    """A daemon whose profiles name no history needs no right to list PodMixHistories."""
    assert (POD_MIX_HISTORY.kind in watched(PROFILE % args)) is is_watched


def test_by_default_neither_histories_nor_plans_are_watched():
    """All other kinds are watched, because their definitions may be created later."""
    kinds = watched_kinds(default_config(REGISTRY))
    assert set(kinds) == set(WATCHED) - {POD_MIX_HISTORY}
    assert MOVE_PLAN.kind in watched(PROFILE % "" + MOVES)
