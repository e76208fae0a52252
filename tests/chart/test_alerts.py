"""The alerts: each fires in its situation, clears afterwards, and is silent in a healthy
cluster.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from scheduler.base.meters import Meters
from tests.chart.queries import names_in

ROOT = Path(__file__).parents[2]
RULES = ROOT / "charts" / "trellis" / "files" / "alerts.yaml"
RUNBOOKS = ROOT / "docs" / "runbooks"
PROMTOOL = shutil.which(
    "promtool", path=os.environ.get("KUBEBUILDER_ASSETS", "") + os.pathsep + os.environ["PATH"]
)
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="promtool is not there (make tools)")
ALERTS: list[dict[str, Any]] = yaml.safe_load(RULES.read_text())["groups"][0]["rules"]

# The series of a healthy cluster: series → values, one per minute.
WELL = {
    "trellis_devices_idle{}": "20x120",
    'trellis_devices_unusable{size="every"}': "1x120",
    'trellis_build_info{instance="a"}': "1x120",
    'trellis_leading{instance="a"}': "1x120",
    'trellis_leading{instance="b"}': "0x120",
    'scheduler_pending_pods{queue="unschedulable"}': "0x9 7x9 0x100",
    'trellis_event_loop_lag_seconds_bucket{le="0.001"}': "0+60x120",
    'trellis_event_loop_lag_seconds_bucket{le="0.256"}': "0+60x120",
    'trellis_event_loop_lag_seconds_bucket{le="+Inf"}': "0+60x120",
    'trellis_plugin_errors_total{plugin="Own",extension_point="Filter"}': "3x120",
    'trellis_extender_request_duration_seconds_count{extender="e",result="error"}': "4x120",
    'trellis_decisions_paused{kind="Pod"}': "0x50 1x2 0x68",
    'trellis_effects_waiting{effect="Bind"}': "2x120",
    'trellis_bind_conflicts_total{reason="bound"}': "0+1x120",
    "trellis_overcommitted_nodes{}": "0x120",
    'trellis_solver_duration_seconds_count{result="died"}': "1x120",
    'trellis_solver_duration_seconds_count{result="done"}': "0+9x120",
    'trellis_solver_solutions_total{status="optimal"}': "0+9x120",
    'trellis_solver_solutions_total{status="feasible"}': "0+1x120",
    "trellis_numa_stale_since_timestamp_seconds{}": "0x120",
    'trellis_node_metrics{state="fresh"}': "99x120",
    'trellis_node_metrics{state="expired"}': "1x120",
    'trellis_node_metrics{state="missing"}': "400x120",
    'trellis_network_weights_age_seconds{topology="default/nt"}': "0+30x9 0+30x110",
    'trellis_watch_restarts_total{kind="Pod",reason="closed"}': "0+1x120",
    'trellis_watch_restarts_total{kind="Pod",reason="error"}': "2x120",
    'trellis_operator_restarts_total{operator="appgroup"}': "1x120",
    'trellis_moves_total{result="aborted"}': "2x120",
    "trellis_config_last_reload_successful{}": "1x120",
    "trellis_certificate_expiry_timestamp_seconds{}": "9e6x120",
}


class Case(NamedTuple):
    """The changed series, a time before the alert fires, a time when it fires, and a time when it
    has cleared.
    """

    changed: dict[str, str]
    waits: int
    fires: int
    clear: int


CASES = {
    "TrellisDown": Case({'trellis_build_info{instance="a"}': "1x5 _x19 1x90"}, 14, 16, 26),
    "TrellisNoLeader": Case({'trellis_leading{instance="a"}': "1x5 0x9 1x90"}, 7, 8, 16),
    "TrellisPodsPending": Case(
        {'scheduler_pending_pods{queue="unschedulable"}': "0x5 3x24 0x90"}, 20, 22, 31
    ),
    "TrellisLoopLate": Case(
        {'trellis_event_loop_lag_seconds_bucket{le="0.001"}': "0+40x30 1230+60x90"}, 9, 12, 40
    ),
    "TrellisPluginErrors": Case(
        {
            'trellis_plugin_errors_total{plugin="Own",extension_point="Filter"}': "3x10 4+1x5 9x90"
        }, 11, 13, 33,
    ),
    "TrellisExtenderFails": Case(
        {
            'trellis_extender_request_duration_seconds_count{extender="e",result="error"}': (
                "4x10 5+1x9 14x90"
            )
        }, 14, 17, 27,
    ),
    "TrellisDecisionsPaused": Case(
        {'trellis_decisions_paused{kind="Pod"}': "0x5 1x10 0x90"}, 9, 12, 18
    ),
    "TrellisWritesRefused": Case(
        {'trellis_effects_waiting{effect="Bind"}': "0x5 64x10 0x90"}, 9, 12, 18
    ),
    "TrellisBindConflicts": Case(
        {'trellis_bind_conflicts_total{reason="bound"}': "0x5 0+90x20 1800x90"}, 14, 21, 34
    ),
    "TrellisOvercommitted": Case({"trellis_overcommitted_nodes{}": "0x5 2x15 0x90"}, 14, 17, 23),
    "TrellisSolverFails": Case(
        {'trellis_solver_duration_seconds_count{result="died"}': "1x10 2+1x4 6x90"}, 11, 17, 32
    ),
    "TrellisSolverUnproven": Case(
        {
            'trellis_solver_solutions_total{status="optimal"}': "0x30 0+9x90",
            'trellis_solver_solutions_total{status="feasible"}': "0+1x30 30x90",
        }, 14, 20, 50,
    ),
    "TrellisNumaStale": Case(
        {"trellis_numa_stale_since_timestamp_seconds{}": "0x5 300x30 0x90"}, 19, 23, 38
    ),
    "TrellisNodeMetricStale": Case(
        {'trellis_node_metrics{state="expired"}': "1x5 50x15 1x90"}, 14, 17, 23
    ),
    "TrellisNetworkCostsOld": Case(
        {'trellis_network_weights_age_seconds{topology="default/nt"}': "0x5 3700+60x20 0x90"},
        14, 17, 28,
    ),
    "TrellisWatchRestarts": Case(
        {'trellis_watch_restarts_total{kind="Pod",reason="error"}': "2x5 2+2x10 22x90"}, 7, 12, 34
    ),
    "TrellisDevicesUnusable": Case(
        {'trellis_devices_unusable{size="every"}': "0x5 9x40 0x90"}, 32, 37, 48
    ),
    "TrellisOperatorDown": Case(
        {'trellis_operator_restarts_total{operator="appgroup"}': "1x5 1+1x8 9x90"}, 7, 12, 32
    ),
    "TrellisMovePlanAborted": Case(
        {'trellis_moves_total{result="aborted"}': "2x5 3x100"}, 5, 8, 24
    ),
    "TrellisConfigReloadFailed": Case(
        {"trellis_config_last_reload_successful{}": "1x5 0x10 1x90"}, 10, 12, 18
    ),
    "TrellisCertificateExpires": Case(
        {"trellis_certificate_expiry_timestamp_seconds{}": "9e6x5 6e5x20 9e6x90"}, 14, 17, 28
    ),
}  # fmt: skip


# Another cause of the same alert: expired costs are not old, they are missing.
AGES = 'trellis_network_weights_age_seconds{topology="default/nt"}'
MORE = (("TrellisNetworkCostsOld", Case({AGES: "0+30x40 _x90"}, 50, 60, 85)),)


def test_every_alert_has_a_case():
    """Every alert has a case in which it fires."""
    assert [rule["alert"] for rule in ALERTS] == list(CASES)


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: str(rule["alert"]))
def test_rules_say_what_they_mean_and_what_to_do(rule: dict[str, Any]):
    """Rules have a severity, a description and an existing runbook; their metrics are ours and of
    this job alone.
    """
    page = RUNBOOKS / f"{rule['alert']}.md"
    specs = {spec.name: spec for spec in Meters.table().values()}

    assert rule["labels"]["severity"] in ("info", "warning", "critical")
    assert rule["annotations"]["summary"].endswith((".", ")."))
    assert rule["annotations"]["description"].endswith((".", "?"))
    assert f"docs/runbooks/{page.name}" == rule["annotations"]["runbook_url"]
    assert page.read_text().startswith(f"# {page.stem}\n")
    names = names_in(rule["expr"])
    assert names
    assert names <= set(specs)
    assert len(re.findall(r"\{", rule["expr"])) == rule["expr"].count('{job="trellis"')


@pytest.mark.real
@needs_promtool
def test_alerts_fire_and_clear(tmp_path: Path):
    """Each alert fires alone, in its own situation, after its time; none fires in a healthy
    cluster.
    """
    tests = [case_of(name, case) for name, case in (*CASES.items(), *MORE)]
    tests.append(situation("well", WELL, dict.fromkeys((1, 30, 60, 119), "")))
    file = tmp_path / "cases.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "tests": tests}))
    done = subprocess.run(
        [str(PROMTOOL), "test", "rules", str(file)],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip

    assert 0 == done.returncode, done.stdout + done.stderr


def case_of(name: str, case: Case) -> dict[str, Any]:
    assert case.changed.keys() <= WELL.keys(), name
    return situation(name, WELL | case.changed, {case.waits: "", case.fires: name, case.clear: ""})


def situation(name: str, series: dict[str, str], firing: dict[int, str]) -> dict[str, Any]:
    """Return a test of promtool: at these minutes exactly these alerts fire."""
    return {
        "name": name,
        "interval": "1m",
        "input_series": [
            {"series": of_job(one), "values": values} for one, values in series.items()
        ],
        "promql_expr_test": [
            {
                "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                "eval_time": f"{minute}m",
                "exp_samples": [{"labels": f'{{alertname="{alert}"}}', "value": 1}]
                if alert
                else [],
            }
            for minute, alert in firing.items()
        ],
    }


def of_job(series: str) -> str:
    return series.replace("{", '{job="trellis",').replace(",}", "}")
