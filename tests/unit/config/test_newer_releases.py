"""Files that were written for kube-scheduler 1.37 and for the betas of 1.38."""

import pytest

from scheduler.config import InvalidConfigError, load, to_yaml
from scheduler.config.featuregates.effects import effects
from scheduler.framework.registry import Registry
from scheduler.intree import IN_TREE

REGISTRY = Registry(IN_TREE)
NEWER = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
percentageOfPlacementsToScore: 50
profiles:
- schedulerName: ours
  percentageOfPlacementsToScore: 10
  plugins:
    multiPoint:
      enabled:
      - {name: GangScheduling}
      - {name: TopologyPlacementGenerator}
      - {name: DeferredPodScheduling}
      - {name: NodeName}
      - {name: NodeUnschedulable}
    placementScore:
      enabled: [{name: PodGroupPodsCount, weight: 2}, {name: NodeResourcesFit}]
    podGroupPostFilter:
      enabled: [{name: DynamicResources}, {name: DefaultPreemption}]
  pluginConfig:
  - name: VolumeBinding
    args: {shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]}
---
apiVersion: trellis.dev/v1alpha1
kind: TrellisConfiguration
featureGates: {GenericWorkload: true, StorageCapacityScoring: true, SchedulerPreQueueingHints: true}
"""
EVERY = "every placement of a group is searched, with a proof or a bound"
GROUPS = "groups are placed by ClusterTopologyPlacementGroup, in every profile"


def loaded(text):
    """Load a file."""
    return load(text, file="f.yaml", registry=REGISTRY)


def test_a_file_of_newer_releases_loads_and_each_effect_is_named():
    """A setting without effect is a notice with its position; one with an effect is listed as
    done.
    """
    config = loaded(NEWER)

    assert [
        f'f.yaml:10:10: the plugin "GangScheduling" is accepted without effect: {GROUPS}',
        (
            f'f.yaml:11:10: the plugin "TopologyPlacementGenerator" is accepted without effect: '
            f"{GROUPS}"
        ),
        (
            'f.yaml:12:10: the plugin "DeferredPodScheduling" is accepted without effect: '
            "a deferred resize of a bound pod evicts no other pod here"
        ),
        f'f.yaml:16:18: the plugin "PodGroupPodsCount" is accepted without effect: {GROUPS}',
        f"f.yaml:3:1: percentageOfPlacementsToScore is accepted without effect: {EVERY}",
        f"f.yaml:6:3: percentageOfPlacementsToScore is accepted without effect: {EVERY}",
        (
            "f.yaml:17:5: podGroupPostFilter is accepted without effect: "
            "the profile's group plugin evicts for groups"
        ),
        (
            "f.yaml:25:69: the feature gate SchedulerPreQueueingHints is accepted without effect: "
            "changes the speed or the metrics of kube-scheduler, no decision"
        ),
    ] == [str(notice) for notice in config.notices]
    assert [
        (
            "featureGates.GenericWorkload: done: every profile places groups; "
            "disable ClusterTopologyPlacementGroup to gate their pods"
        ),
        "featureGates.StorageCapacityScoring: done: turned on, the default since Kubernetes 1.37",
        (
            "profiles[0].pluginConfig[VolumeBinding].args.shape: done: on "
            "(feature gate StorageCapacityScoring)"
        ),
    ] == list(effects(config))
    assert config.profiles == loaded(to_yaml(config)).profiles


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        (
            "StorageCapacityScoring: true",
            "StorageCapacityScoring: false",
            (
                "f.yaml:21:12: profiles[0].pluginConfig[0].args.shape: Invalid value: "
                '[{"utilization":0,"score":0},{"utilization":100,"score":10}]: unexpected field '
                "`shape`, remove it or turn on the feature gate StorageCapacityScoring"
            ),
        ),
        (
            "percentageOfPlacementsToScore: 50",
            "percentageOfPlacementsToScore: 101",
            (
                "f.yaml:3:1: percentageOfPlacementsToScore: Invalid value: 101: "
                "not in valid range [0-100]"
            ),
        ),
        (
            "{name: DefaultPreemption}",
            "{name: NodePorts}",
            'plugin "NodePorts" does not extend PodGroupPostFilterPlugin plugin',
        ),
    ],
)
def test_a_mistake_in_it_is_refused(old, new, fault):
    """The refusal has its place, and kube-scheduler's message."""
    with pytest.raises(InvalidConfigError) as refused:
        loaded(NEWER.replace(old, new))

    assert fault in str(refused.value)


def test_a_shape_without_a_gate_waits_for_the_release():
    """The API server's version is not known when the file is read."""
    text = NEWER.replace("StorageCapacityScoring: true", "VolumeLimitScaling: false")

    assert (
        "profiles[0].pluginConfig[VolumeBinding].args.shape: done: on Kubernetes 1.37 and later "
        "(feature gate StorageCapacityScoring)"
    ) in list(effects(loaded(text)))
