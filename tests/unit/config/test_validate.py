"""Rules across fields, with kube-scheduler's messages."""

import msgspec
import pytest

from scheduler.config.defaults import fill
from scheduler.config.fielderrors import is_extended_resource, qualified_name_faults
from scheduler.config.merge import default_plugins, merge
from scheduler.config.model import KubeSchedulerConfiguration
from scheduler.config.notices import Notices
from scheduler.config.validate import aggregate, scheduler_faults
from scheduler.framework.duration import Duration, canonical, seconds
from tests.unit.config.plugins import registry

REMOVED = (
    'was invalid in version "kubescheduler.config.k8s.io/v1" '
    '(KubeSchedulerConfiguration is version "kubescheduler.config.k8s.io/v1")'
)


def faults(config):
    """Return the texts of the rules that a configuration breaks."""
    filled = fill(msgspec.convert(config, KubeSchedulerConfiguration), Notices("", None))
    merged = [merge(default_plugins(registry()), profile.plugins) for profile in filled.profiles]
    return [text for _, text in scheduler_faults(filled, merged, [{} for _ in merged])]


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, []),
        (
            {"clientConnection": {"burst": -1}},
            ["clientConnection.burst: Invalid value: -1: must be non-negative"],
        ),
        (
            {"leaderElection": {"leaseDuration": "60s", "renewDeadline": "90s"}},
            [
                ('leaderElection.leaseDuration: Invalid value: "1m30s": '
                "must be greater than `RenewDeadline`")
            ],
        ),
        (
            {"leaderElection": {"retryPeriod": "-1500ms"}},
            [
                'leaderElection.retryPeriod: Invalid value: "-1.5s": must be greater than zero',
            ],
        ),
        ({"leaderElection": {"leaderElect": False, "retryPeriod": "-1s", "resourceLock": "x"}}, []),
        (
            {"podInitialBackoffSeconds": 0},
            ["podInitialBackoffSeconds: Invalid value: 0: must be greater than 0"],
        ),
        (
            {"profiles": [{"schedulerName": "a",
                "plugins": {"queueSort": {"disabled": [{"name": "*"}]}}},
                          {"schedulerName": "b"}]},
            [
                ('profiles[1].plugins.queueSort: Invalid value: {"Enabled":null,"Disabled":null}: '
                "must be the same for all profiles")
            ],
        ),
        (
            {"profiles": [{"plugins": {"queueSort": {"enabled": [{"name": "A"}, {"name": "B"}]}}}]},
            [
                ("profiles[0].plugins.queueSort.Enabled: Invalid value: 2: "
                "only one queue sort plugin can be enabled")
            ],
        ),
        (
            {"profiles": [{"plugins": {"filter": {"enabled": [{"name": "EBSLimits"}]}},
                           "pluginConfig": [{"name": "X"}, {"name": "X"},
                               {"name": "GCEPDLimits"}]}]},
            [
                f'profiles[0].plugins.filter.enabled[0]: Invalid value: "EBSLimits": {REMOVED}',
                'profiles[0].pluginConfig[1]: Duplicate value: "X"',
                f'profiles[0].pluginConfig[2]: Invalid value: "GCEPDLimits": {REMOVED}',
            ],
        ),
        (
            {"extenders": [{"prioritizeVerb": "p", "managedResources": [{"name": "e.io/a b"}]}]},
            [
                "extenders[0].weight: Invalid value: 0: must have a positive weight applied to it",
                ('extenders[0].managedResources[0].name: Invalid value: "e.io/a b": name part must '
                "consist of alphanumeric characters, '-', '_' or '.', and must start and end "
                "with an "
                "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used "
                "for "
                "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"),
            ],
        ),
    ],
)  # fmt: skip
def test_broken_rules_have_kube_schedulers_texts(config, expected):
    """Text and order are those of kube-scheduler 1.36."""
    assert expected == faults(config)


@pytest.mark.parametrize(
    ("name", "starts"),
    [
        ("a/b", []),
        ("a.b/C_d", []),
        ("a/b/c", ["a valid label key must consist"]),
        ("/b", ["prefix part must be non-empty"]),
        ("A/b", ["prefix part a lowercase RFC 1123 subdomain must consist"]),
        ("a/", ["name part must be non-empty", "name part must consist"]),
        ("x" * 64, ["name part must be no more than 63 bytes"]),
        (f"{'a' * 254}/b", ["prefix part must be no more than 253 bytes"]),
    ],
)
def test_qualified_names(name, starts):
    """Every fault of a name is reported, with Kubernetes' message."""
    found = list(qualified_name_faults(name))

    assert len(starts) == len(found)
    assert all(text.startswith(start) for text, start in zip(found, starts, strict=True))


def test_extended_resources_are_those_of_other_domains():
    """Kubernetes' own names and quota names are none."""
    assert is_extended_resource("example.com/gpu")
    for name in ("cpu", "kubernetes.io/x", "a.kubernetes.io/x", "requests.example.com/x"):
        assert not is_extended_resource(name)


def test_several_faults_are_joined_as_kubernetes_does():
    """A single one is alone, several are in brackets, equal ones once."""
    assert "a: x" == aggregate([("a", "x")])
    assert "[a: x, b: y]" == aggregate([("a", "x"), ("b", "y"), ("a", "x")])


@pytest.mark.parametrize(
    ("text", "value", "printed"),
    [
        ("15s", 15.0, "15s"),
        ("1h2m3.5s", 3723.5, "1h2m3.5s"),
        ("90s", 90.0, "1m30s"),
        ("500ms", 0.5, "500ms"),
        ("-.5m", -30.0, "-30s"),
        ("0", 0.0, "0s"),
        ("", 0.0, "0s"),
        ("2us", 2e-6, "2µs"),
    ],
)
def test_durations_are_gos(text, value, printed):
    """All of Go's units are read, and printed back in Go's form."""
    assert text == msgspec.convert(text, Duration)
    assert value == pytest.approx(seconds(text))
    assert printed == canonical(text)


@pytest.mark.parametrize("text", ["5", "s", "1 s", "1d", "1s\n", "--1s", "1.2.3s", "+"])
def test_what_is_no_duration_is_refused(text):
    """A bare number has no unit and is rejected."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(text, Duration)
