"""TrellisConfiguration (trellis.dev/v1alpha1): settings that kube-scheduler's file lacks.

It is the second document of the configuration file, or absent. Every field has its default here;
the daemon uses the structs directly.
"""

from typing import Annotated, Final, Literal

import msgspec

from scheduler.config.model import FileStruct

API_VERSION: Final = "trellis.dev/v1alpha1"
KIND: Final = "TrellisConfiguration"

Port = Annotated[int, msgspec.Meta(ge=0, le=65535)]
Positive = Annotated[float, msgspec.Meta(gt=0)]


class TrellisStruct(FileStruct, frozen=True, omit_defaults=False):
    """Base of our own structs: written out in full, defaults too."""


class OperatorConfig(TrellisStruct, frozen=True):
    """One operator; with `enabled` false another controller may write its kind."""

    enabled: bool = True


class AppGroupOperatorConfig(TrellisStruct, frozen=True):
    """Writes the status of AppGroups; costs come from this table of that NetworkTopology.

    Empty: those of the network plugin's arguments, in the first profile that has one.
    """

    enabled: bool = True
    network_topology_name: str = ""
    weights_name: str = ""


class NodeMetricOperatorConfig(TrellisStruct, frozen=True):
    """Writes one NodeMetric per node; turn off where an installed Koordinator does.

    `configMap` is `namespace/name` of the collect policies; `provider` names one of
    `metricProviders` that measures where no agent does, empty for none.
    """

    enabled: bool = False
    config_map: str = "koordinator-system/slo-controller-config"
    provider: str = ""
    report_interval_seconds: Positive = 30.0


class MovePlanOperatorConfig(TrellisStruct, frozen=True):
    """Plans MovePlans and executes them when they are approved. Off: nothing is ever moved.

    `approve` lists goals whose plans are executed without an approval of each plan.
    """

    enabled: bool = False
    approve: list[Literal["waiting", "freeNodes", "loadBelow", "repair"]] = msgspec.field(
        default_factory=list
    )


class Operators(TrellisStruct, frozen=True):
    """The controllers that run inside the daemon."""

    enabled: bool = True
    app_group: AppGroupOperatorConfig = AppGroupOperatorConfig()
    network_topology: OperatorConfig = OperatorConfig()
    node_metric: NodeMetricOperatorConfig = NodeMetricOperatorConfig()
    move_plan: MovePlanOperatorConfig = msgspec.field(default_factory=MovePlanOperatorConfig)


class SolverLimits(TrellisStruct, frozen=True):
    """Limits of one group solve, above any plugin's arguments; all profiles share it.

    At the time limit the best answer so far is used.
    """

    time_limit_seconds: Positive = 60.0
    workers: Annotated[int, msgspec.Meta(ge=1, le=64)] = 1


class PageConfig(TrellisStruct, frozen=True):
    """The page at `/ui` of the daemon's endpoints and at its own address.

    Users see objects they may list. Port 0: at `/ui` only. An address that is not loopback requires
    the same access as the endpoints.
    """

    enabled: bool = True
    bind_address: str = "127.0.0.1"
    port: Port = 10260


class CapacityShape(TrellisStruct, frozen=True):
    """A pod, or a group with its description, as text; `name` is the label of its metric."""

    name: str
    manifest: str


class CapacityConfig(TrellisStruct, frozen=True):
    """Shapes whose remaining number is counted periodically for the metric
    trellis_capacity_pods.
    """

    interval_seconds: Positive = 60.0
    shapes: Annotated[list[CapacityShape], msgspec.Meta(max_length=32)] = msgspec.field(
        default_factory=list
    )


class DecisionLog(TrellisStruct, frozen=True):
    """The file for events and effects for `trellis replay`; an empty path writes none."""

    path: str = ""


class Tracing(TrellisStruct, frozen=True):
    """The OTLP endpoint (HTTP) for spans of decisions, and the sampling rate per million.

    '' disables. The endpoint is a whole URL, mostly ending in `/v1/traces`. It needs the extra
    `otel`.
    """

    endpoint: str = ""
    sampling_rate_per_million: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 10_000


class MetricProviderConfig(TrellisStruct, frozen=True):
    """A source of measured load, by the name that plugins refer to."""

    name: str
    type: Literal["KubernetesMetricsServer", "Prometheus", "SignalFx"] = "KubernetesMetricsServer"
    address: str = ""
    token_file: str = ""
    insecure_skip_verify: bool = False


class TrellisConfiguration(TrellisStruct, frozen=True):
    """The second document of a configuration file."""

    api_version: str = API_VERSION
    kind: str = KIND
    operators: Operators = Operators()
    solver: SolverLimits = SolverLimits()
    page: PageConfig = PageConfig()
    capacity: CapacityConfig = msgspec.field(default_factory=CapacityConfig)
    decision_log: DecisionLog = DecisionLog()
    tracing: Tracing = Tracing()
    metric_providers: list[MetricProviderConfig] = msgspec.field(default_factory=list)
    feature_gates: dict[str, bool] = msgspec.field(default_factory=dict)
