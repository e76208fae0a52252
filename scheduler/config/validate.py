"""Rules across fields: kube-scheduler's, with its texts, and those of our own document.

Each check yields `(path, text)`; the path leads to line and column, the text is complete. Requires
a configuration with all defaults and merged plugin lists. Rules inside a plugin's arguments are the
plugin's own (`Args.validate`).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from scheduler.base.text import did_you_mean
from scheduler.config import fielderrors as field
from scheduler.config import model
from scheduler.config.featuregates.gates import gate_faults
from scheduler.config.merge import point_set
from scheduler.config.names import REMOVED
from scheduler.config.trellis import TrellisConfiguration
from scheduler.framework.args import Args
from scheduler.framework.duration import canonical, seconds
from scheduler.framework.plugin import POINTS

Faults: TypeAlias = Iterator[tuple[str, str]]

# Plugins whose arguments kube-scheduler checks only when it builds the plugin.
CHECKED_AT_START: Final = frozenset({"NodeResourcesFit"})


def scheduler_faults(
    config: model.KubeSchedulerConfiguration,
    plugins: Sequence[model.Plugins],
    args: Sequence[Mapping[str, Args]],
) -> Faults:
    """Yield the violated rules; `plugins` and `args` are per profile, merged and decoded."""
    if config.client_connection.burst < 0:
        path = "clientConnection.burst"
        yield path, field.invalid(path, config.client_connection.burst, "must be non-negative")
    yield from _leader_election(config.leader_election)
    if config.parallelism is not None and config.parallelism <= 0:
        detail = "should be an integer value greater than zero"
        yield "parallelism", field.invalid("parallelism", config.parallelism, detail)
    yield from _profiles(config, plugins, args)
    yield from _percentage("percentageOfNodesToScore", config.percentage_of_nodes_to_score)
    yield from _percentage(
        "percentageOfPlacementsToScore", config.percentage_of_placements_to_score
    )
    initial, most = config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds
    if initial is not None and initial <= 0:
        path = "podInitialBackoffSeconds"
        yield path, field.invalid(path, initial, "must be greater than 0")
    if initial is not None and most is not None and most < initial:
        path = "podMaxBackoffSeconds"
        detail = "must be greater than or equal to PodInitialBackoffSeconds"
        yield path, field.invalid(path, most, detail)
    yield from _extenders(config.extenders)


def _leader_election(config: model.LeaderElectionConfig) -> Faults:
    if not config.leader_elect:
        return
    path = "leaderElection"
    for name, text in (
        ("leaseDuration", config.lease_duration),
        ("renewDeadline", config.renew_deadline),
        ("retryPeriod", config.retry_period),
    ):
        if seconds(text) <= 0:
            yield (
                f"{path}.{name}",
                field.invalid(f"{path}.{name}", canonical(text), "must be greater than zero"),
            )
    if seconds(config.lease_duration) <= seconds(config.renew_deadline):
        # kube-scheduler: the value shown is the deadline's, under the duration's name.
        place = f"{path}.leaseDuration"
        detail = "must be greater than `RenewDeadline`"
        yield place, field.invalid(place, canonical(config.renew_deadline), detail)
    if config.resource_lock != "leases":
        place = f"{path}.resourceLock"
        detail = 'resourceLock value must be "leases"'
        yield place, field.invalid(place, config.resource_lock, detail)


def _percentage(path: str, value: int | None) -> Faults:
    if value is not None and not 0 <= value <= 100:
        yield path, field.invalid(path, value, "not in valid range [0-100]")


def _profiles(
    config: model.KubeSchedulerConfiguration,
    plugins: Sequence[model.Plugins],
    args: Sequence[Mapping[str, Args]],
) -> Faults:
    seen: set[str] = set()
    for index, profile in enumerate(config.profiles):
        path = f"profiles[{index}]"
        name = profile.scheduler_name or ""
        if not name:
            yield f"{path}.schedulerName", field.required(f"{path}.schedulerName")
        yield from _percentage(
            f"{path}.percentageOfNodesToScore", profile.percentage_of_nodes_to_score
        )
        yield from _percentage(
            f"{path}.percentageOfPlacementsToScore", profile.percentage_of_placements_to_score
        )
        for point in POINTS.values():
            yield from _removed(f"{path}.plugins.{point}", point_set(plugins[index], point))
        yield from _plugin_config(path, profile, args[index])
        if name in seen:
            # kube-scheduler: the text is meant to name the other profile, and the name is empty.
            yield f"{path}.schedulerName", field.duplicate(f"{path}.schedulerName", {})
        seen.add(name)
    yield from _common_queue_sort(config.profiles, plugins)


def _removed(path: str, plugin_set: model.PluginSet) -> Faults:
    for index, entry in enumerate(plugin_set.enabled):
        if entry.name in REMOVED:
            place = f"{path}.enabled[{index}]"
            yield place, field.invalid(place, entry.name, _removed_text())


def _removed_text() -> str:
    return (
        f'was invalid in version "{model.API_VERSION}" '
        f'(KubeSchedulerConfiguration is version "{model.API_VERSION}")'
    )


def _plugin_config(path: str, profile: model.ProfileConfig, args: Mapping[str, Args]) -> Faults:
    seen: set[str] = set()
    for index, entry in enumerate(profile.plugin_config):
        place = f"{path}.pluginConfig[{index}]"
        if entry.name in REMOVED:
            yield place, field.invalid(place, entry.name, _removed_text())
        if entry.name in seen:
            yield place, field.duplicate(place, entry.name)
        elif entry.name in args and entry.name not in CHECKED_AT_START:
            for inner, message in args[entry.name].validate():
                yield f"{place}.args.{inner}", f"{place}.args.{inner}: {message}"
        seen.add(entry.name)


def _common_queue_sort(
    profiles: Sequence[model.ProfileConfig], plugins: Sequence[model.Plugins]
) -> Faults:
    first = plugins[0].queue_sort
    if len(first.enabled) > 1:
        place = "profiles[0].plugins.queueSort.Enabled"
        detail = "only one queue sort plugin can be enabled"
        yield place, field.invalid(place, len(first.enabled), detail)
    name = first.enabled[0].name if first.enabled else ""
    first_args = next((e.args for e in profiles[0].plugin_config if e.name == name), None)
    for index in range(1, len(profiles)):
        own = plugins[index].queue_sort
        if _as_internal(own) != _as_internal(first):
            place = f"profiles[{index}].plugins.queueSort"
            detail = "must be the same for all profiles"
            yield place, field.invalid(place, _as_internal(own), detail)
        for entry in profiles[index].plugin_config:
            if name and entry.name == name and entry.args != first_args:
                place = f"profiles[{index}].pluginConfig.args"
                detail = "queueSort must be the same for all profiles"
                yield place, field.invalid(place, entry.args, detail)


def _as_internal(plugin_set: model.PluginSet) -> dict[str, Any]:
    """Return the lists in kube-scheduler's internal format, for messages."""

    def entries(given: Sequence[Any]) -> list[dict[str, Any]] | None:
        return [{"Name": e.name, "Weight": e.weight or 0} for e in given] or None

    return {"Enabled": entries(plugin_set.enabled), "Disabled": entries(plugin_set.disabled)}


def _extenders(extenders: Sequence[model.Extender]) -> Faults:
    managed: set[str] = set()
    for index, extender in enumerate(extenders):
        path = f"extenders[{index}]"
        if extender.prioritize_verb and extender.weight <= 0:
            detail = "must have a positive weight applied to it"
            yield f"{path}.weight", field.invalid(f"{path}.weight", extender.weight, detail)
        for inner, resource in enumerate(extender.managed_resources):
            place = f"{path}.managedResources[{inner}].name"
            faults = list(field.qualified_name_faults(resource.name))
            if not faults and not field.is_extended_resource(resource.name):
                faults = ["is an invalid extended resource name"]
            if resource.name in managed:
                faults.append("duplicate extender managed resource name")
            for fault in faults:
                yield place, field.invalid(place, resource.name, fault)
            managed.add(resource.name)
    binders = sum(1 for extender in extenders if extender.bind_verb)
    if binders > 1:
        value = f"found {binders} extenders implementing bind"
        yield (
            "extenders",
            field.invalid("extenders", value, "only one extender can implement bind"),
        )


def trellis_faults(config: TrellisConfiguration) -> Faults:
    """Yield the violated rules of a TrellisConfiguration."""
    try:
        ipaddress.ip_address(config.page.bind_address)
    except ValueError:
        place = "page.bindAddress"
        yield place, field.invalid(place, config.page.bind_address, "must be an IP address")
    seen: set[str] = set()
    for index, provider in enumerate(config.metric_providers):
        path = f"metricProviders[{index}]"
        if provider.name in seen:
            yield f"{path}.name", field.duplicate(f"{path}.name", provider.name)
        seen.add(provider.name)
        if provider.type != "KubernetesMetricsServer" and not provider.address:
            yield f"{path}.address", field.required(f"{path}.address", f"{provider.type} has none")
    shapes: set[str] = set()
    for index, shape in enumerate(config.capacity.shapes):
        path = f"capacity.shapes[{index}].name"
        if not shape.name or len(shape.name) > 63:
            yield path, field.invalid(path, shape.name, "must have 1 to 63 characters")
        if shape.name in shapes:
            yield path, field.duplicate(path, shape.name)
        shapes.add(shape.name)
    wanted = config.operators.node_metric.provider
    if wanted and wanted not in seen:
        text = f"none of metricProviders has this name{did_you_mean(wanted, seen)}"
        place = "operators.nodeMetric.provider"
        yield place, field.invalid(place, wanted, text)
    if config.operators.node_metric.config_map.count("/") != 1:
        place = "operators.nodeMetric.configMap"
        yield place, field.invalid(place, config.operators.node_metric.config_map, "namespace/name")
    for gate, text in gate_faults(config.feature_gates):
        path = f"featureGates.{gate}"
        yield path, f"{path}: {text}"


def gated_faults(
    config: model.KubeSchedulerConfiguration,
    args: Sequence[Mapping[str, Args]],
    gates: Mapping[str, bool],
) -> Faults:
    """Yield the arguments that need a feature gate which the file turns off."""
    for number, profile in enumerate(config.profiles):
        for index, entry in enumerate(profile.plugin_config):
            given = args[number].get(entry.name)
            for name, gate in given.gated().items() if given is not None else ():
                if gates.get(gate) is False:
                    path = f"profiles[{number}].pluginConfig[{index}].args.{name}"
                    text = (
                        f"unexpected field `{name}`, remove it or turn on the feature gate {gate}"
                    )
                    yield path, field.invalid(path, msgspec.to_builtins(given)[name], text)


def start_faults(config: model.KubeSchedulerConfiguration) -> Faults:
    """Yield the problems that kube-scheduler finds only when it starts."""
    lease = config.leader_election
    if lease.leader_elect and seconds(lease.renew_deadline) <= 1.2 * seconds(lease.retry_period):
        text = "renewDeadline must be greater than retryPeriod*JitterFactor"
        yield "leaderElection.renewDeadline", text


def aggregate(faults: Sequence[tuple[str, str]]) -> str:
    """Join field errors as Kubernetes' aggregated error prints them."""
    texts = list(dict.fromkeys(f"{path}: {message}" for path, message in faults))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
