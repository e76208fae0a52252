"""Tokens of metric providers come from a file or Secret, and never appear in written or shown
data.
"""

import pytest

from operators.metricproviders.http import HttpSettings
from scheduler.base.errors import ConfigError
from scheduler.config import load, to_configz, to_yaml
from scheduler.intree import registry
from scheduler.objects.kinds import BY_KIND
from scheduler.snapshot.export import exported

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: trellis
  plugins: {multiPoint: {enabled: [{name: LoadVariationRiskBalancing}]}}
  pluginConfig:
  - name: LoadVariationRiskBalancing
    args: {metricProvider: {type: Prometheus, address: "http://p", %s}}
"""


def test_a_token_in_a_configuration_is_refused():
    """The error does not repeat the token; the path of a token file is shown."""
    with pytest.raises(ConfigError, match="tokenFile") as refused:
        load(CONFIG % "token: hunter2", file="f.yaml", registry=registry())

    assert "hunter2" not in str(refused.value)
    loaded = load(CONFIG % "tokenFile: /var/run/token", file="f.yaml", registry=registry())
    assert "/var/run/token" in to_yaml(loaded)
    assert "/var/run/token" in str(to_configz(loaded))


def test_settings_with_a_token_do_not_print_it():
    """The token is not in any log of the settings."""
    settings = HttpSettings("http://p", token="hunter2")

    assert "hunter2" not in f"{settings} {settings!r}"


def test_a_snapshot_has_no_reference_to_a_secret():
    """Not even the name of a Secret."""
    provider = {"type": "Prometheus", "address": "http://p", "secretRef": {"name": "hunter2"}}
    raw = {"metadata": {"name": "nt"}, "spec": {"metricProvider": provider}}
    found = exported("NetworkTopology", "networktopology.diktyo.x-k8s.io/v1alpha1", raw)

    assert "hunter2" not in str(found)
    assert "http://p" in str(found)


def test_secrets_are_no_kind_that_is_watched():
    """Watched objects are in memory, logged for replays and shown for debugging."""
    assert "Pod" in BY_KIND
    assert "Secret" not in BY_KIND
