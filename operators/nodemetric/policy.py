"""The rules for measuring nodes, from the ConfigMap `slo-controller-config`, and the NodeMetrics to
create, or to give another policy, by these rules. Without I/O.

The section `colocation-config` has a strategy for all nodes and others by node selector; the first
that matches counts. A missing ConfigMap or section means the defaults; an invalid one is rejected
as a whole, and the caller keeps the previous policy.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from scheduler.base.errors import TrellisError
from scheduler.base.text import go_seconds
from scheduler.objects.meta import Int64, LabelSelector
from scheduler.objects.node import Node
from scheduler.objects.reports.nodemetric import (
    AggregatePolicy,
    NodeMetric,
    NodeMetricCollectPolicy,
)
from scheduler.objects.selectors import selector_matches

SECTION = "colocation-config"
MEMORY_POLICIES = ("usageWithoutPageCache", "usageWithHotPageCache", "usageWithPageCache")

DEFAULT_POLICY = NodeMetricCollectPolicy(
    aggregate_duration_seconds=300,
    report_interval_seconds=60,
    node_aggregate_policy=AggregatePolicy(("5m0s", "10m0s", "30m0s")),
    node_memory_collect_policy="usageWithoutPageCache",
)
API_VERSION = "slo.koordinator.sh/v1alpha1"


class PolicyError(TrellisError):
    """The section cannot be used; the message names the field."""


class _Strategy(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    enable: bool | None = None
    metric_aggregate_duration_seconds: Int64 | None = None
    metric_report_interval_seconds: Int64 | None = None
    metric_aggregate_policy: AggregatePolicy | None = None
    metric_memory_collect_policy: str | None = None


class _NodeStrategy(_Strategy, frozen=True, kw_only=True):
    name: str = ""
    node_selector: LabelSelector | None = None


class _Section(_Strategy, frozen=True, kw_only=True):
    node_configs: tuple[_NodeStrategy, ...] = ()


class Policies(msgspec.Struct, frozen=True):
    """A strategy for all nodes, and further ones by selector."""

    section: _Section = _Section()

    def of(self, labels: Mapping[str, str]) -> NodeMetricCollectPolicy:
        """Return the policy for a node with these labels."""
        chosen = next(
            (
                one
                for one in self.section.node_configs
                if selector_matches(one.node_selector, labels)
            ),
            None,
        )
        enabled = self.section.enable
        if chosen is not None and chosen.enable is not None:
            enabled = chosen.enable
        if not enabled:
            return DEFAULT_POLICY
        policy = _applied(DEFAULT_POLICY, self.section)
        return policy if chosen is None else _applied(policy, chosen)


def read_policies(data: Mapping[str, str] | None) -> Policies:
    """Read the data of the ConfigMap (None: there is none); PolicyError if it is invalid."""
    text = (data or {}).get(SECTION, "")
    if not text.strip():
        return Policies()
    try:
        section = msgspec.json.decode(text, type=_Section)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise PolicyError(f"{SECTION}: {error}") from error
    _check(section, SECTION)
    for index, one in enumerate(section.node_configs):
        _check(one, f"{SECTION}.nodeConfigs[{index}]")
    return Policies(section)


def _check(strategy: _Strategy, where: str) -> None:
    for field, value in (
        ("metricAggregateDurationSeconds", strategy.metric_aggregate_duration_seconds),
        ("metricReportIntervalSeconds", strategy.metric_report_interval_seconds),
    ):
        if value is not None and value <= 0:
            raise PolicyError(f"{where}.{field}: {value} is not positive")
    windows = strategy.metric_aggregate_policy
    for duration in windows.durations if windows is not None else ():
        length_s = go_seconds(duration)
        if length_s is None or length_s <= 0:
            raise PolicyError(
                f'{where}.metricAggregatePolicy.durations: "{duration}" is no duration such as 5m'
            )
    memory = strategy.metric_memory_collect_policy
    if memory is not None and memory not in MEMORY_POLICIES:
        known = ", ".join(MEMORY_POLICIES)
        raise PolicyError(f'{where}.metricMemoryCollectPolicy: "{memory}" is none of {known}')


def _applied(policy: NodeMetricCollectPolicy, more: _Strategy) -> NodeMetricCollectPolicy:
    """Return the policy with the fields that `more` sets replaced."""
    changes = {
        "aggregate_duration_seconds": more.metric_aggregate_duration_seconds,
        "report_interval_seconds": more.metric_report_interval_seconds,
        "node_aggregate_policy": more.metric_aggregate_policy,
        "node_memory_collect_policy": more.metric_memory_collect_policy,
    }
    given = {field: value for field, value in changes.items() if value is not None}
    return msgspec.structs.replace(policy, **given)


class Create(msgspec.Struct, frozen=True):
    """A node has no object yet."""

    node: Node
    policy: NodeMetricCollectPolicy

    @property
    def name(self) -> str:
        """Return the name of the object."""
        return self.node.metadata.name

    def document(self) -> dict[str, Any]:
        """Return the object; the node owns it, so it is deleted with the node."""
        meta = self.node.metadata
        owner = {"apiVersion": "v1", "kind": "Node", "name": meta.name, "uid": meta.uid}
        return {
            "apiVersion": API_VERSION,
            "kind": "NodeMetric",
            "metadata": {"name": meta.name, "ownerReferences": [owner] if meta.uid else []},
            "spec": {"metricCollectPolicy": policy_document(self.policy)},
        }


class SetPolicy(msgspec.Struct, frozen=True):
    """A NodeMetric whose policy differs from its node's."""

    name: str
    policy: NodeMetricCollectPolicy


class Delete(msgspec.Struct, frozen=True):
    """An object has no node any more."""

    name: str


Step = Create | SetPolicy | Delete


def steps(
    nodes: Iterable[Node], metrics: Mapping[str, NodeMetric], policies: Policies | None
) -> list[Step]:
    """Return the steps for these nodes; none without policies (none was ever readable)."""
    found: list[Step] = []
    if policies is None:
        return found
    for node in nodes:
        name = node.metadata.name
        policy = policies.of(node.metadata.labels)
        metric = metrics.get(name)
        if metric is None:
            found.append(Create(node, policy))
        elif metric.spec.metric_collect_policy != policy:
            found.append(SetPolicy(name, policy))
    return found


def policy_document(policy: NodeMetricCollectPolicy) -> dict[str, Any]:
    """Return a policy in the form of the object's spec."""
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(policy))
    return found
