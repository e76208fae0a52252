"""What plugin authors import, and what runs their plugins.

Defines the extension points and their outcomes as values. Never does I/O; nothing here is async.
"""

from scheduler.base.arrays import (
    BoolColumn,
    FloatColumn,
    IdColumn,
    IntColumn,
    IntMatrix,
    Rows,
    is_any,
    no_rows,
)
from scheduler.base.release import V1_37, Release
from scheduler.framework.args import Args, NoArgs
from scheduler.framework.calls import ApiCall, BindPod, BindStep, CallResult, WaitUntil, WillWait
from scheduler.framework.cycle import Cycle
from scheduler.framework.duration import Duration, seconds
from scheduler.framework.handle import Handle
from scheduler.framework.nodes import Nodes
from scheduler.framework.pershape import PerPod, PerShape, PerSpec
from scheduler.framework.plugin import EACH_POD, Plugin, Versioned
from scheduler.framework.points import (
    Bind,
    Explains,
    Filter,
    FollowsPods,
    Hint,
    KeepsApart,
    PassesOver,
    Permit,
    PostBind,
    PostFilter,
    PreBind,
    PreEnqueue,
    PreFilter,
    PreScore,
    Queued,
    QueueSort,
    Reserve,
    Score,
    ScoreCells,
    SortKey,
    Steps,
)
from scheduler.framework.postfilter import FitFailure, PostFiltered
from scheduler.framework.rowcache import RowCache
from scheduler.framework.status import (
    SKIP,
    SUCCESS,
    Code,
    Narrow,
    Reason,
    Rejected,
    Status,
    reject,
    unresolvable,
    unschedulable,
    wait,
)
from scheduler.framework.together import AreaPaths, PathLink
from scheduler.objects.node import Node, Taint
from scheduler.objects.pod import ContainerPort, Pod, Toleration
from scheduler.state.change import Change
from scheduler.state.counts.tracker import Tracker
from scheduler.state.podindex import Placed
from scheduler.state.ports import ports_conflict
from scheduler.state.shapes import host_ports, images
from scheduler.state.taints import TaintSet, is_tolerated

__all__ = [
    "EACH_POD",
    "SKIP",
    "SUCCESS",
    "V1_37",
    "ApiCall",
    "AreaPaths",
    "Args",
    "Bind",
    "BindPod",
    "BindStep",
    "BoolColumn",
    "CallResult",
    "Change",
    "Code",
    "ContainerPort",
    "Cycle",
    "Duration",
    "Explains",
    "Filter",
    "FitFailure",
    "FloatColumn",
    "FollowsPods",
    "Handle",
    "Hint",
    "IdColumn",
    "IntColumn",
    "IntMatrix",
    "KeepsApart",
    "Narrow",
    "NoArgs",
    "Node",
    "Nodes",
    "PassesOver",
    "PathLink",
    "PerPod",
    "PerShape",
    "PerSpec",
    "Permit",
    "Placed",
    "Plugin",
    "Pod",
    "PostBind",
    "PostFilter",
    "PostFiltered",
    "PreBind",
    "PreEnqueue",
    "PreFilter",
    "PreScore",
    "QueueSort",
    "Queued",
    "Reason",
    "Rejected",
    "Release",
    "Reserve",
    "RowCache",
    "Rows",
    "Score",
    "ScoreCells",
    "SortKey",
    "Status",
    "Steps",
    "Taint",
    "TaintSet",
    "Toleration",
    "Tracker",
    "Versioned",
    "WaitUntil",
    "WillWait",
    "host_ports",
    "images",
    "is_any",
    "is_tolerated",
    "no_rows",
    "ports_conflict",
    "reject",
    "seconds",
    "unresolvable",
    "unschedulable",
    "wait",
]
