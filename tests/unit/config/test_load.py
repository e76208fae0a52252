"""Configuration text in, profiles and settings out; or every mistake with its place."""

import pytest

from scheduler.config import InvalidConfigError, default_config, load, to_configz, to_yaml
from tests.unit.config.plugins import registry

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
OURS = "apiVersion: trellis.dev/v1alpha1\nkind: TrellisConfiguration\n"


def loaded(text):
    """Load a file."""
    return load(text, file="s.yaml", registry=registry())


def refused(text):
    """Return the lines of the error that a file is refused with."""
    with pytest.raises(InvalidConfigError) as error:
        loaded(text)
    return str(error.value).splitlines()


def notices(text):
    """Return the notices about a file, without those of the plugins that are missing here."""
    return [str(n) for n in loaded(text).notices if "not there yet" not in n.text]


def test_without_a_file_one_profile_with_our_name_runs():
    """Reading changes nothing, so only missing plugins are reported."""
    config = default_config(registry())

    assert ["trellis"] == [spec.scheduler_name for spec in config.profiles]
    assert "trellis" == config.scheduler.leader_election.resource_name
    assert config.scheduler.client_connection.qps is None
    assert all("not there yet" in notice.text for notice in config.notices)


def test_a_file_of_kube_scheduler_does_not_take_its_place():
    """Names that the file does not set are ours, and a notice states it."""
    assert [
        's.yaml:3:1: the Lease is "trellis" in our own namespace, not kube-scheduler\'s',
        (
            's.yaml:5:3: a profile without schedulerName serves "trellis"; '
            "to take the default scheduler's place write schedulerName: default-scheduler"
        ),
    ] == notices(f"{HEAD}leaderElection: {{leaderElect: true}}\nprofiles:\n- plugins: {{}}\n")


def test_a_file_without_leader_election_gets_no_notice_about_it():
    """A configuration written for Trellis needs no notice about another Lease."""
    text = f"{HEAD}profiles:\n- schedulerName: mine\n"
    assert [] == [notice for notice in notices(text) if "Lease" in notice]


def test_names_that_are_written_out_are_kept():
    """The default scheduler's name is accepted, with a warning about its Lease."""
    text = f"""{HEAD}
leaderElection: {{resourceName: kube-scheduler, resourceNamespace: kube-system}}
profiles: [{{schedulerName: default-scheduler}}]
"""
    config = loaded(text)

    assert "default-scheduler" == config.profiles[0].scheduler_name
    assert "kube-system" == config.scheduler.leader_election.resource_namespace
    assert "only one of the two works" in notices(text)[0]


def test_settings_have_their_units():
    """Durations become seconds; zero and a missing value are the default."""
    scheduler = loaded(
        f"{HEAD}leaderElection: {{leaseDuration: 1m30s, renewDeadline: 4500ms, retryPeriod: 0s}}\n"
        "podMaxBackoffSeconds: 60\nclientConnection: {qps: 5, burst: 7}\n"
    ).scheduler
    election, client = scheduler.leader_election, scheduler.client_connection

    assert (90.0, 4.5, 2.0) == (
        election.lease_duration_s,
        election.renew_deadline_s,
        election.retry_period_s,
    )
    assert (1.0, 60.0) == (scheduler.pod_initial_backoff_s, scheduler.pod_max_backoff_s)
    assert (5.0, 7) == (client.qps, client.burst)


@pytest.mark.parametrize(
    ("common", "own", "expected"),
    [
        ("", "", None),
        ("0", "", None),
        ("100", "", None),
        ("30", "", 30),
        ("30", "50", 50),
        ("30", "0", None),
        ("30", "100", None),
    ],
)
def test_nodes_are_sampled_only_when_a_file_asks_for_it(common, own, expected):
    """A share below 100 counts; the profile's own wins (D1)."""
    text = HEAD + (f"percentageOfNodesToScore: {common}\n" if common else "")
    text += "profiles:\n- schedulerName: a\n"
    text += f"  percentageOfNodesToScore: {own}\n" if own else ""

    assert expected == loaded(text).profiles[0].percentage_of_nodes_to_score


def test_arguments_are_decoded_by_the_plugins_struct():
    """apiVersion and kind inside are checked and left out; plugins without entry get defaults."""
    config = loaded(
        f"""{HEAD}
profiles:
- schedulerName: a
  plugins: {{filter: {{enabled: [{{name: Filtering}}]}}}}
  pluginConfig:
  - name: Filtering
    args: {{apiVersion: kubescheduler.config.k8s.io/v1, kind: FilteringArgs, limit: 9}}
  - name: SomebodyElses
    args: {{what: ever}}
"""
    )

    assert 9 == config.profiles[0].args["Filtering"].limit
    assert 3 == config.profiles[0].args["NodeResourcesFit"].limit
    assert "SomebodyElses" not in config.profiles[0].args


def test_wrong_arguments_have_place_and_context():
    """The message names profile entry and plugin; all of them are reported."""
    context = "decoding profiles[0].pluginConfig[0]: decoding args for plugin Filtering: "
    text = f"""{HEAD}profiles:
- schedulerName: a
  pluginConfig:
  - name: Filtering
    args: {{limt: 1, ratio: []}}
  - name: Extra
    args: {{kind: FilteringArgs}}
"""

    assert [
        f's.yaml:7:12: {context}unknown field "limt" (did you mean "limit"?)',
        f"s.yaml:7:28: {context}ratio: expected a number, got a list",
        (
            "s.yaml:9:12: decoding profiles[0].pluginConfig[1]: decoding args for plugin Extra: "
            'expected kind "ExtraArgs", got "FilteringArgs"'
        ),
    ] == refused(text)


def test_rules_across_fields_come_with_the_path():
    """All errors are reported at once, with kube-scheduler's text after line and column."""
    text = f"""{HEAD}parallelism: 0
profiles:
- schedulerName: a
  pluginConfig: [{{name: Filtering, args: {{limit: -1}}}}]
- schedulerName: a
  percentageOfNodesToScore: 101
"""

    assert [
        "s.yaml:3:1: parallelism: Invalid value: 0: should be an integer value greater than zero",
        (
            "s.yaml:6:43: profiles[0].pluginConfig[0].args.limit: Invalid value: -1: must not be "
            "negative"
        ),
        (
            "s.yaml:8:3: profiles[1].percentageOfNodesToScore: Invalid value: 101: "
            "not in valid range [0-100]"
        ),
        "s.yaml:7:3: profiles[1].schedulerName: Duplicate value: {}",
    ] == refused(text)


def test_what_is_found_at_start_comes_with_the_path_too():
    """Lists of all profiles are checked before an error is raised."""
    text = f"""{HEAD}profiles:
- schedulerName: a
  plugins: {{filter: {{enabled: [{{name: Exta}}]}}}}
- schedulerName: b
  plugins:
    multiPoint: {{enabled: [{{name: Nope}}]}}
- schedulerName: c
  pluginConfig: [{{name: NodeResourcesFit, args: {{limit: -1}}}}]
- schedulerName: d
  plugins: {{bind: {{disabled: [{{name: "*"}}]}}, multiPoint: {{enabled: [{{name: OtherSort}}]}}}}
"""
    start = "initializing profiles: creating profile for scheduler name"

    assert [
        f's.yaml:5:33: {start} a: FilterPlugin "Exta" does not exist (did you mean "Extra"?)',
        f's.yaml:8:29: {start} b: PreFilterPlugin "Nope" does not exist',
        (
            f's.yaml:10:50: {start} c: initializing plugin "NodeResourcesFit": '
            "limit: Invalid value: -1: must not be negative"
        ),
        (
            f"s.yaml:12:3: {start} d: only one queue sort plugin required for profile with "
            'scheduler name "d", but got 2'
        ),
        (
            f"s.yaml:12:13: {start} d: at least one bind plugin is needed for profile with "
            'scheduler name "d"'
        ),
    ] == refused(text)


def test_all_profiles_need_the_same_queue_sort():
    """In queueSort it is a rule of validation; through multiPoint it is detected at start."""
    one = "{multiPoint: {disabled: [{name: PrioritySort}], enabled: [{name: OtherSort}]}}"
    two = '{queueSort: {disabled: [{name: "*"}], enabled: [{name: OtherSort}]}}'
    profiles = "profiles:\n- schedulerName: a\n- schedulerName: b\n  plugins: "

    assert [
        (
            "s.yaml:6:3: initializing profiles: different queue sort plugins for profile "
            '"b": "OtherSort", first: "PrioritySort"'
        )
    ] == refused(f"{HEAD}{profiles}{one}")
    assert [
        (
            's.yaml:6:13: profiles[1].plugins.queueSort: Invalid value: {"Enabled":[{"Name":'
            '"OtherSort","Weight":0}],"Disabled":[{"Name":"*","Weight":0}]}: '
            "must be the same for all profiles"
        )
    ] == refused(f"{HEAD}{profiles}{two}")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "s.yaml:1:1: the file is empty; it needs apiVersion"),
        ("---\n", "s.yaml:1:1: the file is empty"),
        ("[]", "s.yaml:1:1: a configuration is an object with apiVersion and kind"),
        ("a: 1", "s.yaml:1:1: Object 'Kind' is missing: write kind: ..."),
        ("kind: A", "s.yaml:1:1: Object 'apiVersion' is missing"),
        (f"{HEAD}---\n{HEAD}", "s.yaml:4:1: a second KubeSchedulerConfiguration in one file"),
        ("kind: Policy\napiVersion: v1", "trellis convert"),
        (
            HEAD.replace("/v1", "/v1beta3"),
            (
                's.yaml:2:1: no kind "KubeSchedulerConfiguration" is registered for version '
                '"kubescheduler.config.k8s.io/v1beta3" '
                "(the version is kubescheduler.config.k8s.io/v1 today)"
            ),
        ),
        (HEAD.replace("Scheduler", "Schedular"), '(did you mean "KubeSchedulerConfiguration"?)'),
        (
            f"{HEAD}leaderElection: {{retryPeriod: 9s}}",
            "s.yaml:3:1: renewDeadline must be greater than retryPeriod*JitterFactor",
        ),
        (
            f"{OURS}capacity: {{shapes: [{{name: '', manifest: x}}]}}",
            "capacity.shapes[0].name: Invalid value",
        ),
        (
            f"{OURS}capacity: {{shapes: [{{name: a, manifest: x}}, {{name: a, manifest: x}}]}}",
            'capacity.shapes[1].name: Duplicate value: "a"',
        ),
        (
            f"{OURS}page: {{bindAddress: here}}",
            'page.bindAddress: Invalid value: "here": must be an IP address',
        ),
        (
            f"{OURS}page: {{port: 70000}}",
            "s.yaml:3:14: page.port: expected `int` <= 65535",
        ),
        (f"{OURS}page: {{enabled: 1}}", "s.yaml:3:17: page.enabled: expected true or false, got 1"),
        (
            f"{OURS}operators: {{nodeMetric: {{provider: prom}}}}",
            'operators.nodeMetric.provider: Invalid value: "prom": none of metricProviders',
        ),
        (f"{OURS}metricProviders: [{{}}]", 's.yaml:3:19: missing field "metricProviders[0].name"'),
        (
            f"{OURS}featureGates: {{TaintTolerationComparisonOperator: true}}",
            (
                "s.yaml:3:16: featureGates.TaintTolerationComparisonOperator: unrecognized feature "
                "gate: TaintTolerationComparisonOperator "
                '(did you mean "TaintTolerationComparisonOperators"?)'
            ),
        ),
    ],
)
def test_documents_that_cannot_be_used(text, error):
    """The missing or unknown part is named, with what to write instead."""
    assert error in refused(text)[0]


def test_our_document_stands_beside_kube_schedulers_in_any_order():
    """Either may be absent."""
    for text in (
        f"{HEAD}---\n{OURS}solver: {{workers: 9}}\n",
        f"{OURS}solver: {{workers: 9}}\n---\n{HEAD}",
    ):
        assert 9 == loaded(text).trellis.solver.workers
    assert 9 == loaded(f"{OURS}solver: {{workers: 9}}").trellis.solver.workers
    assert 1 == loaded(HEAD).trellis.solver.workers


def test_old_names_are_read_as_todays():
    """Each is a notice; also keys inside the arguments of a renamed plugin."""
    text = f"""{HEAD}profiles:
- schedulerName: a
  plugins:
    score: {{disabled: [{{name: BalancedAllocation}}]}}
  pluginConfig:
  - name: CheckRiskNodebandwidth
    args: {{RiskThreshold: 1}}
"""

    assert [
        (
            's.yaml:6:25: the plugin "BalancedAllocation" is called '
            '"NodeResourcesBalancedAllocation" today; read as that'
        ),
        (
            's.yaml:8:5: the plugin "CheckRiskNodebandwidth" is called "CheckRiskNodeBandwidth" '
            "today; read as that"
        ),
        's.yaml:9:12: the argument "RiskThreshold" is called "riskThreshold" today; read as that',
    ] == notices(text)[:3]


def test_dangerous_and_ineffective_entries_are_reported():
    """A filter that protects nodes, and a disabled name that is unknown."""
    text = f"""{HEAD}profiles:
- schedulerName: a
  plugins:
    filter: {{disabled: [{{name: NodeResourcesFit}}]}}
    score: {{disabled: [{{name: Imagelocality}}, {{name: VolumeZone}}]}}
"""

    assert [
        (
            's.yaml:7:25: nothing to disable: no plugin is named "Imagelocality" '
            '(did you mean "ImageLocality"?)'
        ),
        (
            "s.yaml:5:3: the filter of NodeResourcesFit is disabled: pods are placed on nodes "
            "without free capacity"
        ),
    ] == notices(text)[-2:]


def test_extenders_take_their_resources_out_of_the_fit():
    """Resources that an extender manages are not counted by NodeResourcesFit of any profile."""
    text = f"""{HEAD}
extenders:
- urlPrefix: http://x/
  enableHTTPS: true
  managedResources: [{{name: e.io/a, ignoredByScheduler: true}}, {{name: e.io/b}}]
profiles:
- schedulerName: a
  pluginConfig: [{{name: NodeResourcesFit, args: {{ignoredResources: [x.io/y]}}}}]
"""
    config = loaded(text)

    assert ("x.io/y", "e.io/a") == config.profiles[0].args["NodeResourcesFit"].ignored_resources
    assert "5s" == config.scheduler.extenders[0].http_timeout
    assert config.scheduler.extenders[0].enable_https


def test_the_printed_configuration_loads_as_the_same():
    """The output is complete: loading it changes nothing."""
    text = f"""{HEAD}
percentageOfNodesToScore: 30
clientConnection: {{qps: 3}}
extenders: [{{urlPrefix: "http://x/", filterVerb: f}}]
profiles:
- schedulerName: a
  percentageOfNodesToScore: 0
  plugins:
    score: {{enabled: [{{name: ImageLocality, weight: 5}}], disabled: [{{name: NodeAffinity}}]}}
  pluginConfig: [{{name: NodeResourcesFit, args: {{ratio: 2}}}}]
- schedulerName: b
---
{OURS}
decisionLog: {{path: /tmp/x}}
"""
    first = loaded(text)
    second = loaded(to_yaml(first))

    assert first.profiles == second.profiles
    assert first.scheduler == second.scheduler
    assert first.trellis == second.trellis
    assert to_configz(first) == to_configz(second)
