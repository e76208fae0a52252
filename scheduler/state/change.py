"""`Change`: the effect of one event on the cluster, as facts of `framework.reads`.

`Cluster.apply` returns it; trackers apply it and the queues wake the pods that it may help.
"""

from typing import Any

import msgspec

from scheduler.objects.node import Node
from scheduler.objects.pod import Pod
from scheduler.state.podindex import Placed


class Change(msgspec.Struct, frozen=True):
    """One change of the cluster.

    `verb` is add, update or delete; `facts` are what it touches; `label` is kube-scheduler's name
    of it in metrics. `old` and `new` are the objects; for pods on a node `before` and `after` are
    their records. Assume and forget are changes too: they let trackers count the scheduler's own
    pods.
    """

    kind: str
    verb: str
    facts: frozenset[str] = frozenset()
    label: str = ""
    old: Any = None
    new: Any = None
    before: Placed | None = None
    after: Placed | None = None

    @property
    def node(self) -> Node:
        """Return the node that this change is about, the new one if there is one."""
        found: Node = self.new if self.new is not None else self.old
        return found

    @property
    def pod(self) -> Pod:
        """Return the pod that this change is about, the new one if there is one."""
        found: Pod = self.new if self.new is not None else self.old
        return found


NOTHING = Change("", "none")
