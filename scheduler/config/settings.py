"""The daemon's settings apart from profiles: resolved values with their units in the names."""

import msgspec

from scheduler.config.model import Extender


class LeaderElection(msgspec.Struct, frozen=True):
    """Leader election by a Lease; an empty `resource_namespace` means the daemon's own."""

    leader_elect: bool = True
    lease_duration_s: float = 15.0
    renew_deadline_s: float = 10.0
    retry_period_s: float = 2.0
    resource_name: str = "trellis"
    resource_namespace: str = ""


class ClientConnection(msgspec.Struct, frozen=True):
    """The connection to the API server; `qps` None means unlimited."""

    kubeconfig: str = ""
    content_type: str = "application/json"
    accept_content_types: str = ""
    qps: float | None = None
    burst: int = 100


class SchedulerSettings(msgspec.Struct, frozen=True):
    """Settings of the whole scheduler; `percentage_of_nodes_to_score` None means every node."""

    parallelism: int = 16
    percentage_of_nodes_to_score: int | None = None
    pod_initial_backoff_s: float = 1.0
    pod_max_backoff_s: float = 10.0
    leader_election: LeaderElection = LeaderElection()
    client_connection: ClientConnection = ClientConnection()
    extenders: tuple[Extender, ...] = ()
    enable_profiling: bool = True
    enable_contention_profiling: bool = True
    delay_cache_until_active: bool = False
