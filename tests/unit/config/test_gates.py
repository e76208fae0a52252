"""Feature gates: those of kube-scheduler by name, and the effect of each."""

import pytest

from scheduler.base.errors import ConfigError
from scheduler.base.release import V1_36, V1_37, V1_38
from scheduler.config import InvalidConfigError, load, read_gates
from scheduler.config.featuregates.gates import (
    KNOWN,
    Effect,
    gate_effect,
    gate_faults,
    gates_in_effect,
)
from scheduler.framework.registry import Registry
from scheduler.intree import IN_TREE

REGISTRY = Registry(IN_TREE)


SWITCHES = {
    "TaintTolerationComparisonOperators": (False, False, False),
    "StorageCapacityScoring": (False, True, True),
    "VolumeLimitScaling": (False, True, True),
    "DRADeviceTaintRules": (False, True, True),
    "DRAFractionalCapacityRange": (False, False, True),
}


def test_a_gate_is_a_switch_or_has_one_value_or_changes_nothing():
    """No gate is rejected with both values, and gates of groups are done when on."""
    refused = {
        value: {gate for gate, _ in gate_faults(dict.fromkeys(sorted(KNOWN), value))}
        for value in (True, False)
    }
    neutral = {gate for gate in KNOWN if gate_effect(gate, True)[0] is Effect.WITHOUT}

    assert set() == refused[True] & refused[False]
    assert {"DRADerivedAttributes", "DRANodeAllocatableResources"} <= refused[True]
    assert {"SchedulerAsyncPreemption", "PodLevelResources"} <= refused[False]
    assert {"OpportunisticBatching", "SchedulerAsyncAPICalls", "SELinuxMount"} <= neutral
    assert {"WatchListClient", "ContextualLogging", "AnyVolumeDataSource"} <= neutral
    assert Effect.DONE is gate_effect("GenericWorkload", True)[0]
    assert Effect.WITHOUT is gate_effect("GenericWorkload", False)[0]
    assert "1.37 removed" in gate_effect("GangScheduling", True)[1]


def test_the_defaults_of_switches_follow_the_release():
    """An omitted switch has the default of the release: three are on since 1.37, one since 1.38."""
    for number, release in enumerate((V1_36, V1_37, V1_38)):
        defaults = {name: values[number] for name, values in SWITCHES.items()}
        assert defaults == gates_in_effect({}, release)
    given = dict.fromkeys(SWITCHES, False)
    assert given == gates_in_effect(given, V1_37)


@pytest.mark.parametrize(
    ("gates", "fault"),
    [
        ("{Nope: true}", "featureGates.Nope: unrecognized feature gate: Nope"),
        (
            "{DRADerivedAttributes: true}",
            "the feature behind the gate DRADerivedAttributes does not exist here; leave it off",
        ),
        (
            "{SchedulerQueueingHints: false}",
            "the feature gate SchedulerQueueingHints cannot be turned off here; leave it on",
        ),
        (
            "{TaintTolerationComparisonOperator: true}",
            '(did you mean "TaintTolerationComparisonOperators"?)',
        ),
    ],
)
def test_a_gate_in_a_file(gates, fault):
    """Refused by name, with line and column."""
    text = f"apiVersion: trellis.dev/v1alpha1\nkind: TrellisConfiguration\nfeatureGates: {gates}\n"
    with pytest.raises(InvalidConfigError) as refused:
        load(text, file="f.yaml", registry=REGISTRY)

    assert fault in str(refused.value)
    assert str(refused.value).startswith("f.yaml:3:")


def test_the_flag():
    """The format is that of kube-scheduler."""
    assert {} == read_gates("")
    read = read_gates(
        " TaintTolerationComparisonOperators=T , PodLevelResources=1,GangScheduling=f"
    )

    assert {
        "TaintTolerationComparisonOperators": True,
        "PodLevelResources": True,
        "GangScheduling": False,
    } == read


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("PodLevelResources", "missing bool value for PodLevelResources"),
        ("PodLevelResources=yes", 'invalid value of PodLevelResources=yes: parsing "yes"'),
        ("Nope=true", "unrecognized feature gate: Nope"),
        ("DRADerivedAttributes=true", "does not exist here"),
    ],
)
def test_a_wrong_flag(text, fault):
    """One line names the gate."""
    with pytest.raises(ConfigError, match=fault):
        read_gates(text)
