"""Feature gates: those of kube-scheduler by name, and what becomes of each."""

import pytest

from scheduler.base.errors import ConfigError
from scheduler.config import InvalidConfigError, load, read_gates
from scheduler.config.gates import KNOWN, gate_faults
from scheduler.framework.registry import Registry
from scheduler.intree import IN_TREE

REGISTRY = Registry(IN_TREE)


def test_each_gate_may_be_what_it_is_by_default():
    """A file that spells the defaults out loads; one value of each is refused unless it is a switch."""
    refused = {
        value: {gate for gate, _ in gate_faults(dict.fromkeys(sorted(KNOWN), value))}
        for value in (True, False)
    }

    assert set() == refused[True] & refused[False]
    assert {"TaintTolerationComparisonOperators"} == KNOWN - refused[True] - refused[False]
    assert {"GangScheduling", "StorageCapacityScoring", "VolumeLimitScaling"} <= refused[True]
    assert {"SchedulerAsyncPreemption", "PodLevelResources"} <= refused[False]


@pytest.mark.parametrize(
    ("gates", "fault"),
    [
        ("{Nope: true}", "featureGates.Nope: unrecognized feature gate: Nope"),
        (
            "{GangScheduling: true}",
            "the feature behind the gate GangScheduling does not exist here; leave it off",
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
    """As kube-scheduler reads it."""
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
        ("GangScheduling=true", "does not exist here"),
    ],
)
def test_a_wrong_flag(text, fault):
    """One line that names the gate."""
    with pytest.raises(ConfigError, match=fault):
        read_gates(text)
