"""The settings of the operators: times, and which operators run.

The command line fills it from the configuration; every default suits a cluster of any size.
"""

import msgspec

from operators.metricproviders.http import HttpSettings


class NodeMetricSettings(msgspec.Struct, frozen=True):
    """The settings for NodeMetrics; `source` names the source of agents' figures, "" for none."""

    config_map: str = "koordinator-system/slo-controller-config"
    config_poll_s: float = 15.0
    # How long the view may lag behind a write before the write is repeated.
    settle_s: float = 5.0
    source: str = ""
    http: HttpSettings = HttpSettings("")
    report_interval_s: float = 30.0
    # Figures measured longer ago are not written any more.
    expires_s: float = 180.0


class FiguresSettings(msgspec.Struct, frozen=True):
    """The source of the risk plugins' figures: `load-watcher`, `Prometheus` or `metrics.k8s.io`."""

    source: str
    http: HttpSettings = HttpSettings("")
    every_s: float = 30.0
    # Figures measured longer ago are no figures any more.
    expires_s: float = 300.0


class AppGroupSettings(msgspec.Struct, frozen=True):
    """The namespaces of AppGroups, and the table that placed costs are summed by: as in the
    plugins.
    """

    namespaces: tuple[str, ...] = ("default",)
    network_topology: str = "nt-default"
    weights: str = "UserDefined"


class MovePlanSettings(msgspec.Struct, frozen=True):
    """How MovePlans are kept: the configuration's text for the planner, and the goals that need no
    approval.
    """

    config: str = ""
    approves: tuple[str, ...] = ()


class OperatorsSettings(msgspec.Struct, frozen=True):
    """Times are seconds; `enabled` names operators of `operators.run.OPERATORS`."""

    enabled: tuple[str, ...] = ("appgroup", "networktopology")
    app_group: AppGroupSettings = AppGroupSettings()
    node_metric: NodeMetricSettings = NodeMetricSettings()
    move_plan: MovePlanSettings = MovePlanSettings()
    # The minimum time between two writes to the status of one object, however fast nodes change.
    status_interval_s: float = 1.0
    # A write that failed is tried again after the interval, doubled each time up to this.
    retry_limit_s: float = 30.0
    # The interval of checks whether the API server offers a missing kind.
    definition_poll_s: float = 3.0
    # The same for a kind that is offered: whether it still is, with the same subresources.
    definition_check_s: float = 30.0
    # A crashed operator starts again after this, doubled at each further crash up to the limit.
    restart_first_s: float = 1.0
    restart_limit_s: float = 60.0
    # An operator that ran this long has recovered: its next crash counts as the first.
    stable_after_s: float = 60.0
    request_timeout_s: float = 10.0
    # Stopping waits this long for tasks that do not end when they are cancelled.
    stop_limit_s: float = 5.0
