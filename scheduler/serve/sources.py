"""The data sources of the endpoints: the only interface between serve and the daemon.

The daemon fills in `EndpointSources`; handlers call these functions and write down what they
return. Every function answers at once from memory, returns a record of its own (nothing that
changes while it is being written out) and leaves secrets out. Records are msgspec structs or plain
JSON values.
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
    """What runs here; `started` is seconds since the epoch."""

    name: str
    version: str
    python_version: str
    started: float


@dataclass(frozen=True, slots=True)
class EndpointSources:
    """Everything that the endpoints can show.

    `configz` has kube-scheduler's key `componentconfig`. `state` and `queues` take the largest
    number of entries to return per list, `decision` that of nodes; it returns None for a pod it
    knows nothing of. `pod_resources` is iterated while the loop goes on, so it must not read the
    live cluster; it is empty while another process leads. `set_verbosity` takes a klog number (0
    and up). `history` are the attempts at a pod, `attempts` the last ones at any, as many as that.
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
    # What the page shows to a user, who may name a namespace; None: there is no page.
    page: Callable[[ReviewedUser, str], Awaitable[PageView]] | None = None
    # Takes seconds; None: no profiles are taken.
    profile: Callable[[float], Awaitable[bytes]] | None = None
