"""The page of the configuration file: structs plus the meanings below."""

from collections.abc import Mapping
from typing import Final

import msgspec
import yaml

from docs.generate import markdown, schemas
from scheduler.config import default_config, to_yaml
from scheduler.config.model import KubeSchedulerConfiguration
from scheduler.config.trellis import TrellisConfiguration
from scheduler.intree import registry

INTRODUCTION = f"""\
# The configuration file

{markdown.origin("scheduler/config, with the meanings in docs/generate/configuration.py")}

`trellis run --config F` reads YAML or JSON: a KubeSchedulerConfiguration and, after `---`, an
optional TrellisConfiguration.
Either may be left out.
`trellis config check F` reports every mistake with line and column. `trellis config print F` prints
the effective configuration of a file, `trellis config defaults` the built-in one.
[Change the configuration](../howto/configuration.md) describes what happens when the file changes.
[Arguments of plugins](plugin-args.md) are on their own page.

Durations are written as Go writes them: `500ms`, `15s`, `1m30s`.
"""

_PER_POINT: Final = "plugins enabled and disabled at this extension point"
_NO_EFFECT: Final = "validated, without effect"

MEANINGS: Final[Mapping[str, Mapping[str, str]]] = {
    "KubeSchedulerConfiguration": {
        "apiVersion": "exactly this value",
        "kind": "exactly this value",
        "parallelism": f"{_NO_EFFECT}: all nodes are evaluated at once",
        "leaderElection": "leader election among replicas",
        "clientConnection": "the connection to the API server",
        "enableProfiling": "serve a sampling profile at `/debug/pprof/profile`",
        "enableContentionProfiling": _NO_EFFECT,
        "percentageOfNodesToScore": "default of all profiles; 0 and 100: every node",
        "percentageOfPlacementsToScore": f"{_NO_EFFECT}: every placement of a group is searched",
        "podInitialBackoffSeconds": "after a pod's first failed attempt; doubled each time",
        "podMaxBackoffSeconds": "the longest back-off",
        "profiles": "one per schedulerName; default: one named `trellis`",
        "extenders": "see [Use an extender](../howto/extenders.md)",
        "delayCacheUntilActive": f"{_NO_EFFECT}: standby replicas always watch",
    },
    "LeaderElectionConfig": {
        "leaderElect": "false: one replica, without a Lease",
        "leaseDuration": "time after the last renewal until another replica may take the Lease",
        "renewDeadline": "time without a successful renewal after which the leader stops acting",
        "retryPeriod": "time between two attempts to take or renew the Lease",
        "resourceLock": "`leases`, the only valid value",
        "resourceName": "name of the Lease",
        "resourceNamespace": "namespace of the Lease; default: the daemon's own",
    },
    "ClientConnectionConfig": {
        "kubeconfig": "kubeconfig file if no flag names one",
        "acceptContentTypes": _NO_EFFECT,
        "contentType": f"{_NO_EFFECT}: requests are JSON",
        "qps": "requests per second; 0: unlimited",
        "burst": "additional requests at once, if `qps` is set",
    },
    "ProfileConfig": {
        "schedulerName": "this profile schedules pods with this `spec.schedulerName`",
        "percentageOfNodesToScore": "below 100: stop filtering when this share of the nodes fits",
        "percentageOfPlacementsToScore": f"{_NO_EFFECT}: every placement of a group is searched",
        "plugins": "enabled and disabled plugins",
        "pluginConfig": "arguments of plugins",
    },
    "Plugins": dict.fromkeys(
        (
            "preEnqueue",
            "queueSort",
            "preFilter",
            "filter",
            "postFilter",
            "preScore",
            "score",
            "reserve",
            "permit",
            "preBind",
            "bind",
            "postBind",
        ),
        _PER_POINT,
    )
    | {
        "multiPoint": "plugins enabled and disabled at all their points; a single point's own list "
        "takes precedence",
        "placementGenerate": _NO_EFFECT,
        "placementScore": _NO_EFFECT,
        "podGroupPostFilter": f"{_NO_EFFECT}: the profile's group plugin evicts for groups",
    },
    "PluginSet": {
        "enabled": "plugins added after the default ones",
        "disabled": "plugins removed; `*`: all",
    },
    "PluginEntry": {
        "name": "as `trellis plugins` lists it",
        "weight": "weight of its scores; 0 means 1",
    },
    "PluginConfig": {"name": "the plugin", "args": "see [Arguments of plugins](plugin-args.md)"},
    "Extender": {
        "urlPrefix": "URL of the extender",
        "filterVerb": "appended to the prefix; empty: no such request",
        "preemptVerb": "as `filterVerb`",
        "prioritizeVerb": "as `filterVerb`",
        "weight": "weight of its scores; required with `prioritizeVerb`",
        "bindVerb": "as `filterVerb`; at most one extender has it",
        "enableHTTPS": "use TLS, verified by `tlsConfig` or the system's certificate authorities",
        "tlsConfig": "certificates",
        "httpTimeout": "timeout of one request; default 5s",
        "nodeCacheCapable": "requests contain node names instead of nodes",
        "managedResources": "requests are sent only for pods that request one of these; empty: for "
        "every pod",
        "ignorable": "if it fails, continue without it",
    },
    "ExtenderTLSConfig": {
        "insecure": "do not verify its certificate",
        "serverName": "the name to verify",
        "certFile": "client certificate",
        "keyFile": "key of the client certificate",
        "caFile": "authority that signs the extender's certificate",
        "certData": "instead of the file, base64",
        "keyData": "instead of the file, base64",
        "caData": "instead of the file, base64",
    },
    "ExtenderManagedResource": {
        "name": "an extended resource",
        "ignoredByScheduler": "NodeResourcesFit ignores it",
    },
    "TrellisConfiguration": {
        "apiVersion": "exactly this value",
        "kind": "exactly this value",
        "operators": "controllers of the kinds of Trellis",
        "solver": "upper limits for solves of [ClusterTopologyPlacementGroup]"
        "(plugin-args.md#clustertopologyplacementgroup), whatever its arguments allow",
        "page": "web page of the daemon",
        "capacity": "shapes for the metric `trellis_capacity_pods`: how many more fit",
        "decisionLog": "a log for `trellis replay`",
        "tracing": "spans of decisions; needs the extra `otel`",
        "metricProviders": "sources of measured load, by name",
        "featureGates": "gates of kube-scheduler that differ from their default",
    },
    "Operators": {
        "enabled": "false: run no operator",
        "appGroup": "order of workloads, cost and state of AppGroups",
        "networkTopology": "costs and bookings of NetworkTopologies",
        "nodeMetric": "one NodeMetric per node",
        "movePlan": "plans and executions of MovePlans",
    },
    "MovePlanOperatorConfig": {
        "enabled": "false: no pod is ever moved",
        "approve": "goals whose plans are executed without an approval of each plan: `waiting`, "
        "`freeNodes`, `loadBelow`, `repair`",
    },
    "AppGroupOperatorConfig": {
        "enabled": "false: another controller owns the kind",
        "networkTopologyName": "NetworkTopology by which the cost of an application is summed; "
        "empty: the one that the network plugin reads",
        "weightsName": "its table of costs; empty: the one that the network plugin reads",
    },
    "OperatorConfig": {"enabled": "false: another controller owns the kind"},
    "NodeMetricOperatorConfig": {
        "enabled": "false: an installed Koordinator writes the NodeMetrics",
        "configMap": "`namespace/name` of the collect policies",
        "provider": "one of `metricProviders`, for nodes without an agent",
        "reportIntervalSeconds": "time between two reports by that provider",
    },
    "SolverLimits": {
        "timeLimitSeconds": "the smaller of this and a plugin's own limit holds",
        "workers": "processors of one solve, in the helper process; with more than one, equal "
        "inputs may get different, equally good answers",
    },
    "PageConfig": {
        "enabled": "false: serve no page",
        "bindAddress": "an additional address beside `/ui` of the endpoints; plain HTTP on "
        "loopback, else HTTPS with the access rules of the endpoints",
        "port": "port for `kubectl port-forward`; 0: `/ui` of the endpoints only",
    },
    "CapacityConfig": {
        "intervalSeconds": "interval of counting; longer if counting takes more than a tenth of it",
        "shapes": "at most 32",
    },
    "CapacityShape": {
        "name": "the value of the metric's label `shape`, 1 to 63 characters",
        "manifest": "YAML or JSON text: one pod, or a group with its members, as for "
        "`trellis capacity -f`",
    },
    "DecisionLog": {"path": "file of the log; empty: none"},
    "Tracing": {
        "endpoint": "URL for spans of decisions, OTLP over HTTP; empty: none",
        "samplingRatePerMillion": "decisions with a span, per million",
    },
    "MetricProviderConfig": {
        "name": "the name in references",
        "type": "type of the service",
        "address": "URL of the service; not needed for the metrics server",
        "tokenFile": "file with a bearer token, such as a mounted Secret; read at each use",
        "insecureSkipVerify": "do not verify its certificate",
    },
}


def page() -> str:
    """Return the whole page."""
    loaded = default_config(registry())
    filled, ours = yaml.safe_load_all(to_yaml(loaded))
    del filled["profiles"]
    return "\n".join(
        [
            INTRODUCTION,
            *schemas.tables(
                msgspec.json.schema(KubeSchedulerConfiguration), defaults=filled, meaning=meaning
            ),
            *schemas.tables(
                msgspec.json.schema(TrellisConfiguration), defaults=ours, meaning=meaning
            ),
        ]
    )


def meaning(struct: str, field: str) -> str:
    """Return the meaning of a field; raise KeyError for a field without one."""
    return MEANINGS[struct][field]
