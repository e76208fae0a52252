"""Defaults: a file's KubeSchedulerConfiguration → the same with every setting filled in.

kube-scheduler's defaults, except that a file written for it does not make Trellis replace it:
without an explicit value the profile and the Lease carry our name, and requests are not
rate-limited. Each such difference is a notice. Plugin lists are left to `merge`.
"""

from typing import Final

import msgspec

from scheduler.config.model import (
    ClientConnectionConfig,
    Extender,
    KubeSchedulerConfiguration,
    LeaderElectionConfig,
    PluginSet,
    ProfileConfig,
)
from scheduler.config.notices import Notices
from scheduler.config.settings import ClientConnection, LeaderElection, SchedulerSettings
from scheduler.framework.duration import seconds

OUR_NAME: Final = "trellis"
KUBE_SCHEDULER_LEASE: Final = ("kube-system", "kube-scheduler")
EXTENDER_TIMEOUT: Final = "5s"
EVERY_NODE: Final = 100


def fill(config: KubeSchedulerConfiguration, notices: Notices) -> KubeSchedulerConfiguration:
    """Return `config` with all defaults; differences from kube-scheduler's go to `notices`."""
    profiling = True if config.enable_profiling is None else config.enable_profiling
    contention = config.enable_contention_profiling
    if config.percentage_of_nodes_to_score == 0:
        notices.add("0 means every node here, not an adaptive share", "percentageOfNodesToScore")
    _unused(config, notices)
    return msgspec.structs.replace(
        config,
        parallelism=16 if config.parallelism is None else config.parallelism,
        percentage_of_nodes_to_score=config.percentage_of_nodes_to_score or EVERY_NODE,
        pod_initial_backoff_seconds=_or(config.pod_initial_backoff_seconds, 1),
        pod_max_backoff_seconds=_or(config.pod_max_backoff_seconds, 10),
        enable_profiling=profiling,
        enable_contention_profiling=profiling if contention is None else contention,
        leader_election=_leader_election(config.leader_election, notices),
        client_connection=_client_connection(config.client_connection, notices),
        profiles=_profiles(config.profiles, notices),
        extenders=[_extender(extender) for extender in config.extenders],
    )


def _unused(config: KubeSchedulerConfiguration, notices: Notices) -> None:
    """Add a notice for the settings of newer releases that have no effect here."""
    every = "every placement of a group is searched, with a proof or a bound"
    if config.percentage_of_placements_to_score is not None:
        name = "percentageOfPlacementsToScore"
        notices.without_effect(name, every, name)
    for index, profile in enumerate(config.profiles):
        if profile.percentage_of_placements_to_score is not None:
            path = f"profiles[{index}].percentageOfPlacementsToScore"
            notices.without_effect("percentageOfPlacementsToScore", every, path)
        if profile.plugins.pod_group_post_filter != PluginSet():
            path = f"profiles[{index}].plugins.podGroupPostFilter"
            reason = "the profile's group plugin evicts for groups"
            notices.without_effect("podGroupPostFilter", reason, path)


def settings(config: KubeSchedulerConfiguration) -> SchedulerSettings:
    """Return the settings of a configuration that `fill` has completed."""
    lease, client = config.leader_election, config.client_connection
    return SchedulerSettings(
        parallelism=config.parallelism or 16,
        percentage_of_nodes_to_score=sampled(config.percentage_of_nodes_to_score),
        pod_initial_backoff_s=float(config.pod_initial_backoff_seconds or 1),
        pod_max_backoff_s=float(config.pod_max_backoff_seconds or 10),
        leader_election=LeaderElection(
            leader_elect=bool(lease.leader_elect),
            lease_duration_s=seconds(lease.lease_duration),
            renew_deadline_s=seconds(lease.renew_deadline),
            retry_period_s=seconds(lease.retry_period),
            resource_name=lease.resource_name,
            resource_namespace=lease.resource_namespace,
        ),
        client_connection=ClientConnection(
            kubeconfig=client.kubeconfig,
            content_type=client.content_type,
            accept_content_types=client.accept_content_types,
            qps=client.qps if client.qps > 0 else None,
            burst=client.burst,
        ),
        extenders=tuple(config.extenders),
        enable_profiling=bool(config.enable_profiling),
        enable_contention_profiling=bool(config.enable_contention_profiling),
        delay_cache_until_active=config.delay_cache_until_active,
    )


def sampled(percentage: int | None) -> int | None:
    """Return the share of nodes to score in percent, None for all of them."""
    return percentage if percentage and percentage < EVERY_NODE else None


def _or(value: int | None, default: int) -> int:
    return default if value is None else value


def _profiles(profiles: list[ProfileConfig], notices: Notices) -> list[ProfileConfig]:
    if not profiles:
        profiles = [ProfileConfig()]
    if len(profiles) == 1 and profiles[0].scheduler_name is None:
        notices.add(
            f'a profile without schedulerName serves "{OUR_NAME}"; '
            "to take the default scheduler's place write schedulerName: default-scheduler",
            "profiles[0]",
        )
        profiles = [msgspec.structs.replace(profiles[0], scheduler_name=OUR_NAME)]
    return profiles


def _leader_election(given: LeaderElectionConfig, notices: Notices) -> LeaderElectionConfig:
    filled = LeaderElectionConfig(
        leader_elect=given.leader_elect is not False,
        lease_duration=_time(given.lease_duration, "15s"),
        renew_deadline=_time(given.renew_deadline, "10s"),
        retry_period=_time(given.retry_period, "2s"),
        resource_lock=given.resource_lock or "leases",
        resource_name=given.resource_name or OUR_NAME,
        resource_namespace=given.resource_namespace,
    )
    lease = (given.resource_namespace, given.resource_name)
    if filled.leader_elect and lease == KUBE_SCHEDULER_LEASE:
        notices.add(
            "this is kube-scheduler's own Lease: as long as it runs, only one of the two works",
            "leaderElection",
        )
    elif given.leader_elect and not all(lease):
        # A file that enables leader election without a name, as kube-scheduler's files do, expects
        # its Lease.
        name = f'the Lease is "{filled.resource_name}" in '
        place = (
            f'"{filled.resource_namespace}"' if filled.resource_namespace else "our own namespace"
        )
        notices.add(f"{name}{place}, not kube-scheduler's", "leaderElection")
    return filled


def _client_connection(given: ClientConnectionConfig, notices: Notices) -> ClientConnectionConfig:
    if "protobuf" in given.content_type:
        notices.add("requests are sent as JSON", "clientConnection.contentType")
    return msgspec.structs.replace(given, content_type="application/json", burst=given.burst or 100)


def _extender(given: Extender) -> Extender:
    return msgspec.structs.replace(given, http_timeout=_time(given.http_timeout, EXTENDER_TIMEOUT))


def _time(given: str, default: str) -> str:
    """Return a duration, or its default when it is absent or zero."""
    return given if seconds(given) else default
