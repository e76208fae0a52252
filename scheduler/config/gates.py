"""kube-scheduler's feature gates: which may be set here, and to what.

A gate of kube-scheduler 1.36 may be set to what we do anyway, so that its files and flags carry over; the
other value is refused by name, and so is a name that kube-scheduler does not know. Only what is
`SWITCHED` changes anything. Called for the configuration file and for `--feature-gates`.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from scheduler.base.errors import ConfigError
from scheduler.base.text import did_you_mean

# On by default, and what we do.
_ALWAYS_ON: Final = frozenset(
    {
        "InPlacePodVerticalScaling",
        "MatchLabelKeysInPodAffinity",
        "MatchLabelKeysInPodTopologySpread",
        "NodeDeclaredFeatures",
        "NodeInclusionPolicyInPodTopologySpread",
        "NominatedNodeNameForExpectation",
        "OpportunisticBatching",  # changes metrics alone
        "PodLevelResources",
        "SchedulerAsyncPreemption",
        "SchedulerPopFromBackoffQ",
        "SchedulerQueueingHints",
        # Their pods are held and told so, which is what turning them off would not do.
        "DRAAdminAccess",
        "DRAConsumableCapacity",
        "DRADeviceBindingConditions",
        "DRADeviceTaints",
        "DRAExtendedResource",
        "DRAPartitionableDevices",
        "DRAPrioritizedList",
        "DRAResourceClaimDeviceStatus",
        "DRASchedulerFilterTimeout",
        "DynamicResourceAllocation",
    }
)
# Off by default, and not there.
_ALWAYS_OFF: Final = frozenset(
    {
        "DRADeviceTaintRules",
        "DRAListTypeAttributes",
        "DRANodeAllocatableResources",
        "DRAWorkloadResourceClaims",
        "GangScheduling",
        "GenericWorkload",
        "SchedulerAsyncAPICalls",
        "StorageCapacityScoring",
        "TopologyAwareWorkloadScheduling",
        "VolumeLimitScaling",
        "WorkloadAwarePreemption",
    }
)
SWITCHED: Final = frozenset({"TaintTolerationComparisonOperators"})
KNOWN: Final = _ALWAYS_ON | _ALWAYS_OFF | SWITCHED

# Go's strconv.ParseBool.
_TRUE, _FALSE = (
    frozenset(["1", "t", "T", "TRUE", "true", "True"]),
    frozenset(["0", "f", "F", "FALSE", "false", "False"]),
)


def gate_faults(gates: Mapping[str, bool]) -> Iterator[tuple[str, str]]:
    """Yield (gate, what is wrong) for each that cannot be set so."""
    for gate, value in gates.items():
        if gate not in KNOWN:
            yield gate, f"unrecognized feature gate: {gate}{did_you_mean(gate, KNOWN)}"
        elif value and gate in _ALWAYS_OFF:
            yield gate, f"the feature behind the gate {gate} does not exist here; leave it off"
        elif not value and gate in _ALWAYS_ON:
            yield gate, f"the feature gate {gate} cannot be turned off here; leave it on"


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
