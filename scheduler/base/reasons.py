"""The reasons of the events and conditions that Trellis writes: the one place that spells them.

All writers of events take the reason from here; the reference page is made from the same tables,
and a house test finds a reason that is spelled elsewhere. Reasons are what alerts and scripts
filter by, so one that has been released keeps its spelling. Those that kube-scheduler also writes
are spelled as it does.
"""

from collections.abc import Mapping
from typing import Final

# Events.
SCHEDULED: Final = "Scheduled"
FAILED_SCHEDULING: Final = "FailedScheduling"
WAITING_ON_PRE_BIND: Final = "WaitingOnPreBind"
PREEMPTED: Final = "Preempted"
PREEMPTING: Final = "Preempting"
MISSING_OBJECT: Final = "MissingObject"
BINDING_CONDITIONS_PENDING: Final = "BindingConditionsPending"
GROUP_RELEASED: Final = "GroupReleased"
GROUP_PREEMPTED: Final = "GroupPreempted"
TOPOLOGY_NOT_USED: Final = "TopologyNotUsed"
TOPOLOGY_KEY_IGNORED: Final = "TopologyKeyIgnored"
NODE_METRIC_EXPIRED: Final = "NodeMetricExpired"
INVALID_TOPOLOGY_DATA: Final = "InvalidTopologyData"
LEADER_ELECTION: Final = "LeaderElection"
CONFIGURATION_RELOADED: Final = "ConfigurationReloaded"
CONFIGURATION_NOT_RELOADED: Final = "ConfigurationNotReloaded"
MOVE_PLAN_CALCULATED: Final = "MovePlanCalculated"
MOVE_PLAN_APPROVED: Final = "MovePlanApproved"
MOVE_PLAN_WAITING: Final = "MovePlanWaiting"
MOVE_PLAN_STALE: Final = "MovePlanStale"
MOVE_PLAN_COMPLETED: Final = "MovePlanCompleted"
MOVE_PLAN_ABORTED: Final = "MovePlanAborted"
MOVE_RESERVED: Final = "MoveReserved"
MOVE_RELEASED: Final = "MoveReleased"
MOVE_EVICTED: Final = "MoveEvicted"
MOVE_DONE: Final = "MoveDone"
MOVE_POD_LEFT: Final = "MovePodLeft"

# Of a pod's PodScheduled condition with status False, beside WAITING_ON_PRE_BIND.
UNSCHEDULABLE: Final = "Unschedulable"
SCHEDULER_ERROR: Final = "SchedulerError"
WAITING_FOR_GROUP: Final = "WaitingForGroup"
# Of a victim's DisruptionTarget condition.
PREEMPTION_BY_SCHEDULER: Final = "PreemptionByScheduler"

# The subject of each event, and when it is written.
EVENTS: Final[Mapping[str, Mapping[str, str]]] = {
    "Pod": {
        SCHEDULED: "the binding was confirmed",
        FAILED_SCHEDULING: "an attempt failed; the text is that of the condition",
        WAITING_ON_PRE_BIND: "its node is chosen, and its volumes are not ready for half a minute",
        BINDING_CONDITIONS_PENDING: "its node is chosen, and its devices are not ready to be bound",
        PREEMPTED: "it is evicted, alone or with its group, for a pod or group of higher priority",
        PREEMPTING: "pods are evicted for it",
        MISSING_OBJECT: "an object that the pod asks for is not there, such as an AppGroup",
        GROUP_RELEASED: "it is deleted, as its group cannot become whole",
    },
    "Node": {
        NODE_METRIC_EXPIRED: "LoadAwareScheduling leaves the node out; once per silence",
        INVALID_TOPOLOGY_DATA: "NodeResourceTopologyMatch cannot account for pods on the node; "
        "which, and since when",
    },
    "ConfigMap or PodGroup": {
        SCHEDULED: "a PodGroup has its minimum",
        FAILED_SCHEDULING: "a PodGroup does not fit, and why",
        GROUP_PREEMPTED: "pods of the group are about to be evicted",
        GROUP_RELEASED: "its bound members are about to go",
    },
    "ConfigMap of the topology": {
        TOPOLOGY_NOT_USED: "a changed tree cannot be read; the last good one stays",
        TOPOLOGY_KEY_IGNORED: "the tree has a key that selects nothing here; once per version",
    },
    "Lease": {
        LEADER_ELECTION: "the Lease changes hands",
        CONFIGURATION_RELOADED: "a changed file is in use",
        CONFIGURATION_NOT_RELOADED: "a changed file cannot be used",
    },
    "MovePlan": {
        MOVE_PLAN_CALCULATED: "a plan was calculated, or the proof that there is none",
        MOVE_PLAN_APPROVED: "the execution of an approved plan begins",
        MOVE_PLAN_WAITING: "no move starts for now: paused, or a budget allows no disruption",
        MOVE_PLAN_STALE: "the cluster changed before the first move; the plan is calculated again",
        MOVE_PLAN_COMPLETED: "all moves are done, or the goal is reached without the others",
        MOVE_PLAN_ABORTED: "no further move starts; finished moves stay",
        MOVE_RESERVED: "a destination is reserved",
        MOVE_RELEASED: "a destination is released without an eviction",
        MOVE_EVICTED: "a pod is evicted; also on the pod",
        MOVE_DONE: "the replacement is Ready on the destination",
        MOVE_POD_LEFT: "a reserved pod was ended by another component",
    },
}
