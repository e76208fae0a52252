"""KubeSchedulerConfiguration v1 as written in a file: unresolved; None means "not set".

The field names and their meaning are kube-scheduler's. Durations are Go's text (`15s`); weights and
percentages are plain numbers. settings.py has the resolved values for the daemon.
"""

from typing import Annotated, Any, Final

import msgspec

from scheduler.framework.duration import Duration

GROUP: Final = "kubescheduler.config.k8s.io"
API_VERSION: Final = f"{GROUP}/v1"
KIND: Final = "KubeSchedulerConfiguration"

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class FileStruct(
    msgspec.Struct,
    frozen=True,
    rename="camel",
    forbid_unknown_fields=True,
    kw_only=True,
    omit_defaults=True,
):
    """Base of all structs of a configuration file."""


class PluginEntry(FileStruct, frozen=True):
    """A plugin in a list; `weight` applies to score, and 0 or None means 1."""

    name: str = ""
    weight: Int32 | None = None


class PluginSet(FileStruct, frozen=True):
    """The plugins that a profile enables and disables at one extension point; "*" disables all."""

    enabled: list[PluginEntry] = msgspec.field(default_factory=list)
    disabled: list[PluginEntry] = msgspec.field(default_factory=list)


class Plugins(FileStruct, frozen=True):
    """The plugin lists of a profile; `multi_point` serves every point a plugin has."""

    pre_enqueue: PluginSet = PluginSet()
    queue_sort: PluginSet = PluginSet()
    pre_filter: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()
    post_filter: PluginSet = PluginSet()
    pre_score: PluginSet = PluginSet()
    score: PluginSet = PluginSet()
    reserve: PluginSet = PluginSet()
    permit: PluginSet = PluginSet()
    pre_bind: PluginSet = PluginSet()
    bind: PluginSet = PluginSet()
    post_bind: PluginSet = PluginSet()
    multi_point: PluginSet = PluginSet()
    placement_generate: PluginSet = PluginSet()
    placement_score: PluginSet = PluginSet()
    pod_group_post_filter: PluginSet = PluginSet()


class PluginConfig(FileStruct, frozen=True):
    """The arguments of one plugin, decoded later by the plugin's own struct."""

    name: str = ""
    args: Any = None


class ProfileConfig(FileStruct, frozen=True):
    """One profile; the pods whose `spec.schedulerName` is its name are scheduled by it."""

    scheduler_name: str | None = None
    percentage_of_nodes_to_score: Int32 | None = None
    percentage_of_placements_to_score: Int32 | None = None
    plugins: Plugins = Plugins()
    plugin_config: list[PluginConfig] = msgspec.field(default_factory=list)


class LeaderElectionConfig(FileStruct, frozen=True):
    """Leader election between replicas; an empty text or a zero duration means the default."""

    leader_elect: bool | None = None
    lease_duration: Duration = ""
    renew_deadline: Duration = ""
    retry_period: Duration = ""
    resource_lock: str = ""
    resource_name: str = ""
    resource_namespace: str = ""


class ClientConnectionConfig(FileStruct, frozen=True):
    """The connection to the API server."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = ""
    qps: float = 0.0
    burst: Int32 = 0


class ExtenderTLSConfig(FileStruct, frozen=True):
    """TLS towards an extender; the `…_data` fields are base64."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: str = ""
    key_data: str = ""
    ca_data: str = ""


class ExtenderManagedResource(FileStruct, frozen=True):
    """A resource that an extender manages."""

    name: str = ""
    ignored_by_scheduler: bool = False


class Extender(FileStruct, frozen=True):
    """A webhook that filters, scores, preempts or binds."""

    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: Int64 = 0
    bind_verb: str = ""
    enable_https: bool = msgspec.field(default=False, name="enableHTTPS")
    tls_config: ExtenderTLSConfig | None = None
    http_timeout: Duration = ""
    node_cache_capable: bool = False
    managed_resources: list[ExtenderManagedResource] = msgspec.field(default_factory=list)
    ignorable: bool = False


class KubeSchedulerConfiguration(FileStruct, frozen=True):
    """The first document of a configuration file."""

    api_version: str = API_VERSION
    kind: str = KIND
    parallelism: Int32 | None = None
    leader_election: LeaderElectionConfig = LeaderElectionConfig()
    client_connection: ClientConnectionConfig = ClientConnectionConfig()
    enable_profiling: bool | None = None
    enable_contention_profiling: bool | None = None
    percentage_of_nodes_to_score: Int32 | None = None
    percentage_of_placements_to_score: Int32 | None = None
    pod_initial_backoff_seconds: Int64 | None = None
    pod_max_backoff_seconds: Int64 | None = None
    profiles: list[ProfileConfig] = msgspec.field(default_factory=list)
    extenders: list[Extender] = msgspec.field(default_factory=list)
    delay_cache_until_active: bool = False
