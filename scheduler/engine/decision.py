"""`Decision`: the outcome of one scheduling attempt, with all that `explain` prints."""

from collections.abc import Mapping

import msgspec
import numpy as np

from scheduler.base.arrays import BoolColumn, IntColumn
from scheduler.framework.calls import ApiCall
from scheduler.framework.hypothetical.disruption import Disruption
from scheduler.framework.hypothetical.fitmessage import ReasonCounts, head
from scheduler.framework.nodes import Nodes
from scheduler.framework.running.answers import Scored
from scheduler.framework.status import SUCCESS, Code, Rejection, Status
from scheduler.state.podindex import Placed


class Decision(msgspec.Struct, frozen=True):
    """The node of a pod, or the reasons why it has none.

    `node` is empty if the pod is not placed. `status` is the pod's status as a whole. `rejections`
    are the rows that each plugin rejected (each row once), `outside` the rows that the pre-filters
    in `narrowed_by` removed. `scores` is empty if only one node was feasible. Columns are those of
    the view that the decision was made on.

    `victims` are evicted for the nominated node, chosen by the plugin `preempted_by`; `group` is
    the pod's group or ''. `expected` has by victim's uid the node where it is expected to fit, if
    that was requested. `disruption` is the victims' number in metrics. `nominated_node` replaces
    the pod's nomination: '' clears it, as kube-scheduler does unless a post-filter plugin decides
    otherwise; None keeps it. `calls` are sent to the API server with the decision.

    `prevented_by` are the plugins that ruled out every eviction; for a member of a group also the
    plugins with rules about other pods.
    """

    node: str = ""
    status: Status = SUCCESS
    message: str = ""
    node_count: int = 0
    feasible: BoolColumn | None = None
    rejections: tuple[Rejection, ...] = ()
    outside: BoolColumn | None = None
    narrowed_by: tuple[str, ...] = ()
    scores: tuple[Scored, ...] = ()
    total: IntColumn | None = None
    nominated_node: str | None = ""
    victims: tuple[Placed, ...] = ()
    preempted_by: str = ""
    group: str = ""
    calls: tuple[ApiCall, ...] = ()
    prevented_by: tuple[str, ...] = ()
    expected: Mapping[str, str] = {}
    disruption: Disruption = Disruption()

    @property
    def fits(self) -> bool:
        """Return whether a node was found."""
        return bool(self.node)

    @property
    def rejected_by(self) -> tuple[str, ...]:
        """Return the plugins that rejected the pod or some nodes, in order; if a pre-filter plugin
        rejected the pod, only that plugin.
        """
        if self.status.plugin:
            return (self.status.plugin,)
        names = [*self.narrowed_by, *(rejection.plugin for rejection in self.rejections)]
        return tuple(dict.fromkeys(names))

    @property
    def waits_for(self) -> tuple[str, ...]:
        """Return the plugins whose hints can requeue the pod.

        kube-scheduler considers only those that rejected the pod: a pod that would fit after an
        eviction except for its affinity is not woken when a pod arrives that it has affinity to.
        """
        return tuple(dict.fromkeys((*self.rejected_by, *self.prevented_by)))

    def node_status(self, nodes: Nodes, row: int) -> Status:
        """Return the filter status of one row."""
        del nodes
        for rejection in self.rejections:
            if rejection.rows[row]:
                return rejection.rejected.status(row, rejection.plugin)
        if self.outside is not None and self.outside[row]:
            return Status(Code.UNRESOLVABLE, (outside_text(self.narrowed_by),))
        return SUCCESS


def outside_text(plugins: tuple[str, ...]) -> str:
    """Return the reason of nodes that a pre-filter left out."""
    return f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(plugins))}]"


def fit_message(
    node_count: int,
    pre_filter: Status,
    rejections: tuple[Rejection, ...],
    outside: BoolColumn | None,
    narrowed_by: tuple[str, ...],
) -> str:
    """Return kube-scheduler's sentence on why no node fits: a histogram of reasons."""
    if not pre_filter.is_success:
        return f"{head(node_count)} {pre_filter.message}."
    histogram = ReasonCounts()
    histogram.add_rejections(rejections)
    if outside is not None:
        histogram.add(outside_text(narrowed_by), int(np.count_nonzero(outside)))
    return histogram.sentence(node_count)
