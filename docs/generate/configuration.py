"""The page of the configuration file: the structs tell fields, types and defaults, this file what
for.
"""

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

_PER_POINT: Final = "what is enabled and disabled at this extension point"
_NO_EFFECT: Final = "is read and checked, and changes nothing"

MEANINGS: Final[Mapping[str, Mapping[str, str]]] = {
    "KubeSchedulerConfiguration": {
        "apiVersion": "as it stands",
        "kind": "as it stands",
        "parallelism": f"{_NO_EFFECT}: all nodes are looked at at once",
        "leaderElection": "who leads when several replicas run",
        "clientConnection": "how the API server is reached",
        "enableProfiling": "serve a sampling profile at `/debug/pprof/profile`",
        "enableContentionProfiling": _NO_EFFECT,
        "percentageOfNodesToScore": "for profiles that say nothing themselves; 0 means every "
        "node, too",
        "percentageOfPlacementsToScore": f"{_NO_EFFECT}: every placement of a group is searched",
        "podInitialBackoffSeconds": "how long a pod waits after its first failed attempt; "
        "doubled each time",
        "podMaxBackoffSeconds": "the longest such wait",
        "profiles": "one per schedulerName; without any there is one named `trellis`",
        "extenders": "see [Use an extender](../howto/extenders.md)",
        "delayCacheUntilActive": f"{_NO_EFFECT}: a replica that does not lead watches all the same",
    },
    "LeaderElectionConfig": {
        "leaderElect": "false: there is one replica and no Lease",
        "leaseDuration": "how long a Lease counts that nobody renews",
        "renewDeadline": "a leader that could not renew for so long stops acting",
        "retryPeriod": "between two attempts to take or renew the Lease",
        "resourceLock": "`leases` and nothing else",
        "resourceName": "the Lease",
        "resourceNamespace": "its namespace; without one the daemon's own",
    },
    "ClientConnectionConfig": {
        "kubeconfig": "where no flag names one",
        "acceptContentTypes": _NO_EFFECT,
        "contentType": f"{_NO_EFFECT}: requests are JSON",
        "qps": "requests per second; 0: no limit of ours",
        "burst": "how many more at once, where `qps` is set",
    },
    "ProfileConfig": {
        "schedulerName": "the pods whose `spec.schedulerName` is this are ours",
        "percentageOfNodesToScore": "below 100: look no further when so many nodes fit",
        "percentageOfPlacementsToScore": f"{_NO_EFFECT}: every placement of a group is searched",
        "plugins": "what is enabled and disabled",
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
        "multiPoint": "the same for every point that a plugin has; what a single point says goes "
        "before it",
        "placementGenerate": _NO_EFFECT,
        "placementScore": _NO_EFFECT,
        "podGroupPostFilter": f"{_NO_EFFECT}: the profile's group plugin evicts for groups",
    },
    "PluginSet": {
        "enabled": "added behind the default ones",
        "disabled": "taken away; `*` takes all",
    },
    "PluginEntry": {"name": "as `trellis plugins` lists it", "weight": "of its scores; 0 means 1"},
    "PluginConfig": {"name": "the plugin", "args": "see [Arguments of plugins](plugin-args.md)"},
    "Extender": {
        "urlPrefix": "where it answers",
        "filterVerb": "appended to the prefix; empty: it is not asked",
        "preemptVerb": "the same",
        "prioritizeVerb": "the same",
        "weight": "of its scores; needed with `prioritizeVerb`",
        "bindVerb": "the same; one extender at most",
        "enableHTTPS": "with `tlsConfig`, or the system's authorities",
        "tlsConfig": "certificates",
        "httpTimeout": "of one question; 5s where nothing is said",
        "nodeCacheCapable": "it is sent names of nodes instead of nodes",
        "managedResources": "it is asked about pods that name one of these; without a list about "
        "every pod",
        "ignorable": "when it fails, go on without it",
    },
    "ExtenderTLSConfig": {
        "insecure": "do not verify its certificate",
        "serverName": "the name to verify",
        "certFile": "our certificate",
        "keyFile": "its key",
        "caFile": "who signs the extender's certificate",
        "certData": "instead of the file, base64",
        "keyData": "instead of the file, base64",
        "caData": "instead of the file, base64",
    },
    "ExtenderManagedResource": {
        "name": "an extended resource",
        "ignoredByScheduler": "NodeResourcesFit leaves it alone",
    },
    "TrellisConfiguration": {
        "apiVersion": "as it stands",
        "kind": "as it stands",
        "operators": "the controllers of our own kinds",
        "solver": "what the solves of [ClusterTopologyPlacementGroup]"
        "(plugin-args.md#clustertopologyplacementgroup) may cost at most, whatever its arguments "
        "say",
        "page": "the page that the daemon serves",
        "capacity": "shapes whose room is counted for the metric `trellis_capacity_pods`",
        "decisionLog": "a log for `trellis replay`",
        "tracing": "spans of decisions; needs the extra `otel`",
        "metricProviders": "who measures load, by name",
        "featureGates": "gates of kube-scheduler that are not at their default",
    },
    "Operators": {
        "enabled": "false: none runs",
        "appGroup": "order of workloads, cost and state of AppGroups",
        "networkTopology": "costs and bookings of NetworkTopologies",
        "nodeMetric": "one NodeMetric per node",
        "movePlan": "plans and executions of MovePlans",
    },
    "MovePlanOperatorConfig": {
        "enabled": "off: nothing is ever moved",
        "approve": "goals whose plans are executed without an approval of each plan: `waiting`, "
        "`freeNodes`, `loadBelow`, `repair`",
    },
    "AppGroupOperatorConfig": {
        "enabled": "false: leave the kind to somebody else",
        "networkTopologyName": "whose table of costs an application is summed up by; empty: the "
        "one that the network plugin reads",
        "weightsName": "which table; empty: the one that the network plugin reads",
    },
    "OperatorConfig": {"enabled": "false: leave the kind to somebody else"},
    "NodeMetricOperatorConfig": {
        "enabled": "off where an installed Koordinator does it",
        "configMap": "`namespace/name` of the collect policies",
        "provider": "one of `metricProviders`, which measures where no agent does",
        "reportIntervalSeconds": "between two reports by that provider",
    },
    "SolverLimits": {
        "timeLimitSeconds": "the smaller of this and a plugin's own limit holds",
        "workers": "processors of one solve, in the helper process; with more than one, equal "
        "inputs may get equally good but different answers",
    },
    "PageConfig": {
        "enabled": "false: there is no page",
        "bindAddress": "where else than at `/ui` of the endpoints it is; plain HTTP on loopback, "
        "else HTTPS with the access of the endpoints",
        "port": "for `kubectl port-forward`; 0: at `/ui` only",
    },
    "CapacityConfig": {
        "intervalSeconds": "how often they are counted; less often where counting takes more "
        "than a tenth of the time",
        "shapes": "32 at most",
    },
    "CapacityShape": {
        "name": "the value of the metric's label `shape`, 1 to 63 characters",
        "manifest": "YAML or JSON, as a text: one pod, or a group with its members, as for "
        "`trellis capacity -f`",
    },
    "DecisionLog": {"path": "where it is written; empty: nowhere"},
    "Tracing": {
        "endpoint": "where spans of decisions are sent by OTLP over HTTP, a whole URL; empty: "
        "nowhere",
        "samplingRatePerMillion": "how many decisions in a million have a span",
    },
    "MetricProviderConfig": {
        "name": "by which others refer to it",
        "type": "what answers there",
        "address": "its URL; the metrics server needs none",
        "tokenFile": "a file with a bearer token, such as a mounted Secret; read at each use",
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
    """Return what a field is for; every one must be told of."""
    return MEANINGS[struct][field]
