"""The operators' settings follow from the profiles, so that no value is configured twice."""

import pytest

from scheduler.cli.verbs.start.run import operators_settings
from scheduler.config.load import load
from scheduler.intree import registry

PROFILE = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: plain
- schedulerName: near
  plugins:
    multiPoint:
      enabled: [{name: NetworkOverhead}]
  pluginConfig:
  - name: NetworkOverhead
    args:
      {namespaces: [platform, default], networkTopologyName: measured, weightsName: NetperfCosts}
"""
OURS = """
---
apiVersion: trellis.dev/v1alpha1
kind: TrellisConfiguration
operators: {appGroup: {weightsName: Mine}}
"""


@pytest.mark.parametrize(("text", "weights"), [(PROFILE, "NetperfCosts"), (PROFILE + OURS, "Mine")])
def test_costs_of_applications_go_by_the_plugins_table(text: str, weights: str):
    """Costs of applications are read from the plugin's table, unless the file names another one."""
    found = operators_settings(load(text, file="f", registry=registry())).app_group

    assert ("platform", "default") == found.namespaces
    assert ("measured", weights) == (found.network_topology, found.weights)


def test_without_a_network_plugin_the_defaults_of_one_count():
    """Without a network plugin, the operator has the settings of a plugin without arguments."""
    text = PROFILE[: PROFILE.index("- schedulerName: near")]
    found = operators_settings(load(text, file="f", registry=registry())).app_group

    assert (("default",), "nt-default", "UserDefined") == (
        found.namespaces,
        found.network_topology,
        found.weights,
    )
