"""The changes that would requeue a rejected pod, as text: the facts that the rejecting plugins
read.

`scheduler.state.facts` has the vocabulary, `scheduler.engine.queue.hints` the rule.
"""

from collections.abc import Sequence

from scheduler.engine.queue.hints import BY_ANYTHING, NO_NODES
from scheduler.framework.profile import Profile
from scheduler.state import facts

_WORDS = {
    facts.NODE_ADDED: "a new node",
    facts.NODE_DELETED: "a node that goes away",
    facts.NODE_LABELS: "a change of a node's labels",
    facts.NODE_TAINTS: "a change of a node's taints, or its uncordoning",
    facts.NODE_ALLOCATABLE: "a node that offers more",
    facts.NODE_IMAGES: "a change of a node's images",
    facts.NODE_FEATURES: "a change of a node's features",
    facts.NODE_ANNOTATIONS: "a change of a node's annotations",
    facts.POD_ADDED: "a pod that is bound",
    facts.POD_DELETED: "a pod that leaves its node",
    facts.POD_LABELS: "a change of a bound pod's labels",
    facts.POD_REQUESTS: "a bound pod that requests less",
    facts.POD_TERMINATING: "a bound pod that is being deleted",
    facts.WAITING_DELETED: "a waiting pod that is deleted",
    facts.SELF_LABELS: "a change of its labels",
    facts.SELF_TOLERATIONS: "a change of its tolerations",
    facts.SELF_GATES: "the removal of its scheduling gates",
    facts.SELF_REQUESTS: "a smaller request of its own",
    facts.SELF_CLAIMS: "the creation of its resource claims",
}


def woken_by(profile: Profile, rejected_by: Sequence[str]) -> tuple[str, ...]:
    """Return the changes that may help a pod that these plugins rejected or gate, a new node
    first.
    """
    read: dict[str, None] = {}
    for name in rejected_by or (NO_NODES,):
        if name in BY_ANYTHING:
            return ("any change",)
        plugin = profile.plugins.get(name)
        read |= dict.fromkeys((facts.NODE_ADDED,) if plugin is None else plugin.reads)
    if not facts.NODE_APPEARS.isdisjoint(read):
        read = {facts.NODE_ADDED: None, **read}
    return tuple(_WORDS.get(fact, f"a change of a {fact}") for fact in read)
