"""Extenders as a pure model: their answers follow from a pod's labels and a node's name alone.

Labels of a pod: `shun` names a node that every extender rejects; `ext` selects the extenders' other
treatment of it (see `_filter`).
"""

from scheduler.engine.effects import AskExtender, ExtenderAnswer
from scheduler.engine.extender.extenders import ConfiguredExtender
from scheduler.framework.calls import Offer
from scheduler.objects.pod import Pod
from tests.property.making import make_pod
from tests.property.moves import NODES, PODS, Pick
from tests.property.rig import Rig

STRICT, REVIEWER, BINDER, OPTIONAL = range(4)
EXTENDERS = (
    ConfiguredExtender(STRICT, "http://strict", filters=True, prioritizes=True, weight=3),
    ConfiguredExtender(REVIEWER, "http://reviewer", filters=True, preempts=True),
    ConfiguredExtender(BINDER, "http://binder", binds=True),
    ConfiguredExtender(OPTIONAL, "http://optional", filters=True, prioritizes=True, ignorable=True),
)

# Most are ordinary; `broken` always fails.
LABELS: tuple[dict[str, str], ...] = (
    {},
    {},
    {"shun": "n0"},
    {"shun": "n1", "preempt": "yes"},
    {"ext": "none"},
    {"ext": "final"},
    {"ext": "silent"},
    {"ext": "stranger", "times": "always"},
    {"ext": "broken", "times": "always"},
    {"ext": "optional"},
    {"preempt": "yes"},
    {"preempt": "yes"},
    {"preempt": "yes"},
    {"preempt": "yes", "ext": "spare"},
    {"preempt": "yes", "ext": "optional"},
    {"permit": "wait"},
    {"prebind": "call"},
)


def ask(effect: AskExtender, pod: Pod) -> ExtenderAnswer:
    """Return an extender's answer about a pod."""
    if effect.verb == "prioritize":
        return ExtenderAnswer(scores=tuple((name, score(name)) for name in effect.nodes))
    if effect.verb == "preempt":
        return ExtenderAnswer(offers=_review(effect.offers, pod))
    return _filter(effect, pod)


def score(node: str) -> int:
    """Return the score of a node by every extender, 0 to 10."""
    return int(node[1:]) * 7 % 11


def _filter(effect: AskExtender, pod: Pod) -> ExtenderAnswer:
    labels = pod.metadata.labels
    how = labels.get("ext", "")
    if how == "broken" or (how == "optional" and effect.extender == OPTIONAL):
        return ExtenderAnswer(error="cannot say")
    if how == "stranger":
        return ExtenderAnswer(nodes=("elsewhere",))
    if how == "silent":
        return ExtenderAnswer(nodes=())
    if how in ("none", "final"):
        reasons = dict.fromkeys(effect.nodes, f"said {how}")
        if how == "final":
            return ExtenderAnswer(nodes=(), unresolvable=reasons)
        return ExtenderAnswer(nodes=(), failed=reasons)
    shunned = labels.get("shun", "")
    return ExtenderAnswer(
        nodes=tuple(name for name in effect.nodes if name != shunned),
        failed={shunned: "shunned"} if shunned in effect.nodes else {},
    )


def _review(offers: tuple[Offer, ...], pod: Pod) -> tuple[Offer, ...]:
    shunned = pod.metadata.labels.get("shun", "")
    kept = [offer for offer in offers if offer.node != shunned]
    if pod.metadata.labels.get("ext") == "spare":
        # The least important one may stay if another is evicted.
        kept = [Offer(o.node, o.victims[:-1] or o.victims, o.violations) for o in kept]
    return tuple(kept)


def create_extended_pod(rig: Rig, pick: Pick) -> None:
    """Create a pod that extenders treat in one of several ways."""
    name = PODS[pick(len(PODS))]
    if f"default/{name}" in rig.api.pods:
        return
    rig.api.put(
        "Pod",
        make_pod(
            name,
            uid=f"{name}-{rig.api._version}",
            cpu=1 + pick(3),
            priority=pick(3),
            labels=LABELS[pick(len(LABELS))],
            nominated=NODES[pick(len(NODES))] if pick(8) == 0 else "",
        ),
    )
