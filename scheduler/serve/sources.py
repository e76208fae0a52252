"""The data sources of the endpoints: the only interface between serve and the daemon.

The daemon fills in `EndpointSources`; handlers call these functions and write their results. Every
function returns at once, from memory, a record of its own that does not change while it is written,
without secrets. Records are msgspec structs or plain JSON values.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from scheduler.base.clock import Clock
from scheduler.base.meters import Meters
from scheduler.serve.access import ReviewedUser
from scheduler.serve.pageroutes import PageView


class PodResources(NamedTuple):
    """A pod that is not finished, with its effective requests and limits in base units.

    The keys are resource names; cpu is in cores, memory in bytes, all else a count; zero is left
    out of the output. `node` is "" for a pending pod, `priority` the number as text or "".
    """

    namespace: str
    pod: str
    node: str
    scheduler: str
    priority: str
    requests: Mapping[str, float]
    limits: Mapping[str, float]


class About(NamedTuple):
    """The running program; `started` is in seconds since the epoch."""

    name: str
    version: str
    python_version: str
    started: float


@dataclass(frozen=True, slots=True)
class EndpointSources:
    """Everything that the endpoints can show.

    `configz` has kube-scheduler's key `componentconfig`. `state` and `queues` take the largest
    number of entries to return per list, `decision` that of nodes; it returns None for an unknown
    pod. `pod_resources` is iterated while other tasks run, so it must not read the live cluster; it
    is empty while another process leads. `set_verbosity` takes a klog number (0 and up). `history`
    returns the attempts at a pod, `attempts` the given number of latest ones at any pod.
    """

    about: About
    clock: Clock
    meters: Meters
    configz: Callable[[], object]
    flags: Callable[[], Mapping[str, str]]
    state: Callable[[int], object]
    queues: Callable[[int], object]
    decision: Callable[[str, str, int], object | None]
    pod_resources: Callable[[], Iterator[PodResources]]
    set_verbosity: Callable[[int], None]
    history: Callable[[str, str], object]
    attempts: Callable[[int], object]
    # The page's view for a user and an optional namespace; None: there is no page.
    page: Callable[[ReviewedUser, str], Awaitable[PageView]] | None = None
    # The argument is in seconds; None: profiles are disabled.
    profile: Callable[[float], Awaitable[bytes]] | None = None
