"""kube-scheduler's feature gates: which exist, in which releases, and the effect of each value
here.

One table for kube-scheduler 1.36 to the betas of 1.38. A gate is a switch, or has one fixed
behaviour: the other value is then rejected with the gate's name. A gate that changes no decision
takes both values. Unknown names are rejected. Called for the configuration file and for
`--feature-gates`.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from scheduler.base.errors import ConfigError
from scheduler.base.release import V1_37, V1_38, Release
from scheduler.base.text import did_you_mean
from scheduler.config.featuregates.componentgates import (
    OTHER_COMPONENTS,
    OTHER_COMPONENTS_UNTIL_1_37,
)


class Effect(StrEnum):
    """The effect of a setting of a configuration file."""

    DONE = "done"
    WITHOUT = "accepted without effect"
    REFUSED = "refused"


class _Acts(StrEnum):
    """The behaviour of a gate: a switch, always on, never, as groups do, or none."""

    SWITCH = "switch"
    ALWAYS = "always"
    NEVER = "never"
    GROUPS = "groups"
    NEUTRAL = "neutral"


class Gate(NamedTuple):
    """One gate.

    `on_since` is the release that enables it by default, `gone_in` the first without it.
    """

    acts: _Acts
    note: str = ""
    on_since: Release | None = None
    gone_in: Release | None = None


_GROUPS: Final = (
    "every profile places groups; disable ClusterTopologyPlacementGroup to gate their pods"
)
_SPEED: Final = "changes the speed or the metrics of kube-scheduler, no decision"
_ELSEWHERE: Final = "a gate of the API server, the kubelet or a controller"


def _gates(acts: _Acts, names: str, **facts: Release | str | None) -> dict[str, Gate]:
    return dict.fromkeys(names.split(), Gate(acts, **facts))  # type: ignore[arg-type]


GATES: Final[Mapping[str, Gate]] = {
    **_gates(_Acts.SWITCH, "TaintTolerationComparisonOperators"),
    **_gates(
        _Acts.SWITCH,
        "StorageCapacityScoring VolumeLimitScaling DRADeviceTaintRules",
        on_since=V1_37,
    ),
    # On where `--min-compatibility-version` is 1.37 or later; its default is the release before.
    **_gates(_Acts.SWITCH, "DRAFractionalCapacityRange", on_since=V1_38),
    **_gates(
        _Acts.ALWAYS,
        "InPlacePodVerticalScaling InPlacePodLevelResourcesVerticalScaling"
        " InPlacePodVerticalScalingInitContainers"
        " MatchLabelKeysInPodAffinity MatchLabelKeysInPodTopologySpread"
        " MatchLabelKeysInPodTopologySpreadSelectorMerge"
        " NodeDeclaredFeatures NodeInclusionPolicyInPodTopologySpread"
        " NominatedNodeNameForExpectation ClearingNominatedNodeNameAfterBinding PodLevelResources"
        " SchedulerAsyncPreemption SchedulerPopFromBackoffQ VolumeAttributesClass"
        " DRAAdminAccess DRAConsumableCapacity DRADeviceBindingConditions DRADeviceTaints"
        " DRAExtendedResource DRAPartitionableDevices DRAPrioritizedList"
        " DRAResourceClaimDeviceStatus DRASchedulerFilterTimeout DynamicResourceAllocation",
    ),
    **_gates(_Acts.ALWAYS, "SchedulerQueueingHints", gone_in=V1_37),
    **_gates(_Acts.ALWAYS, "SidecarContainers", gone_in=V1_37),
    **_gates(
        _Acts.GROUPS,
        "GenericWorkload TopologyAwareWorkloadScheduling CompositePodGroup PodGroupPreemptionPolicy"
        " DRAWorkloadResourceClaims",
        note=_GROUPS,
    ),
    **_gates(_Acts.GROUPS, "GangScheduling WorkloadAwarePreemption", note=_GROUPS, gone_in=V1_37),
    **_gates(
        _Acts.NEVER,
        "DRAListTypeAttributes DRANodeAllocatableResources DRADerivedAttributes"
        " DRADeviceCompatibilityGroups DRAOptionalNodeOperations DRAPartitionableDevicesType"
        " InPlacePodVerticalScalingSchedulerPreemption VolumeBindMountOptions",
    ),
    **_gates(
        _Acts.NEUTRAL,
        "OpportunisticBatching SchedulerAsyncAPICalls InterPodAffinityHostnameFastPath"
        " SchedulerPreQueueingHints",
        note=_SPEED,
    ),
    **_gates(
        _Acts.NEUTRAL,
        "DRAResourceClaimGranularStatusAuthorization DRAResourcePoolStatus EmptyDirVolumeMode"
        " EvictionRequestAPI InPlacePodVerticalScalingMemoryBackedVolumes"
        " NodeControllerLeaseCircuitBreaker NodeLifecycleConditions PodLevelResourceManagers"
        " PodLevelResourcesFixDefaulting SELinuxMount WorkloadWithJob" + OTHER_COMPONENTS,
        note=_ELSEWHERE,
    ),
    **_gates(_Acts.NEUTRAL, OTHER_COMPONENTS_UNTIL_1_37, note=_ELSEWHERE, gone_in=V1_37),
}
KNOWN: Final = frozenset(GATES)

# Go's strconv.ParseBool.
_TRUE, _FALSE = (
    frozenset(["1", "t", "T", "TRUE", "true", "True"]),
    frozenset(["0", "f", "F", "FALSE", "false", "False"]),
)


def gates_in_effect(given: Mapping[str, bool], release: Release) -> dict[str, bool]:
    """Return the value of every switch for a release: as set, else that release's default."""
    return {
        name: given.get(name, gate.on_since is not None and release >= gate.on_since)
        for name, gate in GATES.items()
        if gate.acts is _Acts.SWITCH
    }


def gate_effect(name: str, value: bool) -> tuple[Effect, str]:
    """Return the effect of a gate with a value, and the reason or the remedy."""
    gate = GATES.get(name)
    if gate is None:
        return Effect.REFUSED, f"unrecognized feature gate: {name}{did_you_mean(name, KNOWN)}"
    gone = f"; kube-scheduler {gate.gone_in} removed this gate" if gate.gone_in is not None else ""
    if gate.acts is _Acts.NEVER and value:
        return (
            Effect.REFUSED,
            f"the feature behind the gate {name} does not exist here; leave it off",
        )
    if gate.acts is _Acts.ALWAYS and not value:
        return Effect.REFUSED, f"the feature gate {name} cannot be turned off here; leave it on"
    if gate.acts is _Acts.NEUTRAL or (gate.acts is _Acts.GROUPS and not value):
        return Effect.WITHOUT, gate.note + gone
    return Effect.DONE, _done(gate, value) + gone


def _done(gate: Gate, value: bool) -> str:
    if gate.acts is _Acts.SWITCH:
        since = f", the default since Kubernetes {gate.on_since}" if gate.on_since and value else ""
        return f"turned {'on' if value else 'off'}{since}"
    if gate.acts is _Acts.GROUPS:
        return gate.note
    return "always on here" if value else "always off here"


def gate_faults(gates: Mapping[str, bool]) -> Iterator[tuple[str, str]]:
    """Yield (gate, fault) for each gate with a value that is not accepted."""
    for name, value in gates.items():
        effect, text = gate_effect(name, value)
        if effect is Effect.REFUSED:
            yield name, text


def read_gates(text: str) -> dict[str, bool]:
    """Read the flag `A=true,B=false` as kube-scheduler does; ConfigError for anything else."""
    gates: dict[str, bool] = {}
    for part in text.split(","):
        name, sign, value = (piece.strip() for piece in part.partition("="))
        if not part.strip():
            continue
        if not sign:
            raise ConfigError(f"missing bool value for {name}", where="--feature-gates")
        if value not in _TRUE | _FALSE:
            text = f'invalid value of {name}={value}: parsing "{value}": invalid syntax'
            raise ConfigError(text, where="--feature-gates")
        gates[name] = value in _TRUE
    for _, fault in gate_faults(gates):
        raise ConfigError(fault, where="--feature-gates")
    return gates
