"""Files written for Koordinator load unchanged; a value out of range is reported with its place."""

import pytest

from scheduler.base.errors import ConfigError
from scheduler.plugins.loadaware.args import LoadAwareSchedulingArgs, effective
from scheduler.plugins.loadaware.settings import Percentile, settings_of
from tests.unit.simulate.asking import HEAD, setup

KOORDINATOR = f"""{HEAD}profiles:
- schedulerName: koord-scheduler
  plugins:
    preFilter: {{enabled: [{{name: LoadAwareScheduling}}]}}
    filter: {{enabled: [{{name: LoadAwareScheduling}}]}}
    score: {{enabled: [{{name: LoadAwareScheduling, weight: 1}}]}}
    reserve: {{enabled: [{{name: LoadAwareScheduling}}]}}
  pluginConfig:
  - name: LoadAwareScheduling
    args:
      apiVersion: kubescheduler.config.k8s.io/v1
      kind: LoadAwareSchedulingArgs
      filterExpiredNodeMetrics: false
      nodeMetricExpirationSeconds: 300
      resourceWeights: {{cpu: 1, memory: 1}}
      usageThresholds: {{cpu: 65, memory: 95}}
      prodUsageThresholds: {{cpu: 55}}
      estimatedScalingFactors: {{cpu: 80}}
      aggregated:
        usageThresholds: {{cpu: 60}}
        usageAggregationType: p95
        usageAggregatedDuration: 5m
        scoreAggregationType: p90
"""


def loaded(text):
    """Return the plugin's arguments as a configuration gives them."""
    (profile,) = setup(config=text).loaded.profiles
    return profile.args["LoadAwareScheduling"]


def test_a_file_of_koordinator_loads_unchanged():
    """Points, type fields and values are taken as they are."""
    args = loaded(KOORDINATOR)
    settings = settings_of(args)

    assert effective(args).estimated_scaling_factors == {"cpu": 80, "memory": 70}
    assert settings.filter_percentile == Percentile("p95", 300)
    assert settings.score_percentile == Percentile("p90", 0)
    assert settings.usage_thresholds == (65, 95)
    assert settings.prod_thresholds == (55, 0)


def test_defaults_are_those_of_the_notes():
    """Weights are defaulted only without a dominant weight; empty thresholds are the defaults."""
    plain = effective(LoadAwareSchedulingArgs())
    dominant = effective(LoadAwareSchedulingArgs(dominant_resource_weight=1))

    assert plain.node_metric_expiration_seconds == 180
    assert plain.filter_expired_node_metrics
    assert not plain.enable_schedule_when_node_metrics_expired
    assert plain.resource_weights == {"cpu": 1, "memory": 1}
    assert plain.usage_thresholds == {"cpu": 65, "memory": 95}
    assert dominant.resource_weights == {}


@pytest.mark.parametrize(
    ("args", "error"),
    [
        ("nodeMetricExpirationSeconds: 0", "nodeMetricExpirationSeconds: Invalid value: 0"),
        ("usageThresholds: {cpu: 101}", "usageThresholds.cpu: Invalid value: 101"),
        ("resourceWeights: {cpu: 0}", "resourceWeights.cpu: Invalid value: 0"),
        ("resourceWeights: {gpu: 1}", "resourceWeights.gpu: Not found"),
        ("estimatedScalingFactors: {cpu: 0}", "estimatedScalingFactors.cpu: Invalid value: 0"),
        ("dominantResourceWeight: 101", "dominantResourceWeight: Invalid value: 101"),
        ("aggregated: {usageAggregationType: p42}", 'Unsupported value: "p42"'),
        ("aggregated: {scoreAggregatedDuration: -1m}", "scoreAggregatedDuration"),
        ("scoringStrategy: Packed", 'scoringStrategy: Unsupported value: "Packed"'),
        ("thresholds: Gentle", 'thresholds: Unsupported value: "Gentle"'),
        ("usageTresholds: {cpu: 5}", "usageTresholds"),
    ],
)
def test_a_value_out_of_range_is_reported_with_its_position(args, error):
    """Each field is reported, as for every other plugin."""
    text = f"{HEAD}profiles: [{{pluginConfig: [{{name: LoadAwareScheduling, args: {{{args}}}}}]}}]"
    with pytest.raises(ConfigError) as reported:
        loaded(text)
    assert error in str(reported.value)
