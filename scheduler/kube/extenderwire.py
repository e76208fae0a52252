"""The JSON of requests to extenders and of their responses: kube-scheduler's extender/v1.

Pure functions between effects and JSON. Keys are written with capitals. As in Go, reading ignores
the case of keys, ignores unknown keys, and treats null as absent.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from scheduler.engine.effects import AskExtender, ExtenderAnswer
from scheduler.framework.calls import Offer
from scheduler.kube.watching.rawobjects import RawObjects

T = TypeVar("T")
_encode = msgspec.json.Encoder().encode
_NOTHING = b"null"


class GoneError(Exception):
    """The pod in question is not known any more."""


def question(effect: AskExtender, raw_objects: RawObjects, *, by_name: bool) -> bytes:
    """Return the body of a request; `by_name` for an extender that caches nodes and pods itself."""
    if effect.verb == "bind":
        return _encode(
            {
                "PodName": effect.name,
                "PodNamespace": effect.namespace,
                "PodUID": effect.uid,
                "Node": effect.nodes[0],
            }
        )
    pod = raw_objects.pod(effect.uid)
    if pod is None:
        raise GoneError(f"pod {effect.namespace}/{effect.name} is gone")
    if effect.verb == "preempt":
        whole = _NOTHING if by_name else _victims(effect, raw_objects)
        names = _meta_victims(effect) if by_name else _NOTHING
        return b'{"Pod":%b,"NodeNameToVictims":%b,"NodeNameToMetaVictims":%b}' % (pod, whole, names)
    nodes = _NOTHING if by_name else _nodes(effect, raw_objects)
    names = _encode(effect.nodes) if by_name else _NOTHING
    return b'{"Pod":%b,"Nodes":%b,"NodeNames":%b}' % (pod, nodes, names)


def answer(verb: str, body: bytes, *, by_name: bool) -> ExtenderAnswer:
    """Decode an extender's response; msgspec.MsgspecError if it is invalid."""
    if verb == "prioritize":
        return ExtenderAnswer(scores=_scores(body))
    found = _fields(body)
    error = _read(found, "error", str, str)
    if verb == "bind":
        return ExtenderAnswer(error=error)
    if verb == "preempt":
        return ExtenderAnswer(offers=_offers(found), error=error)
    names = _read(found, "nodenames", list[str] | None, lambda: None) if by_name else None
    if names is None:
        listed = _read(found, "nodes", _NodeList, _NodeList)
        names = [node.metadata.name for node in listed.items or ()]
    reasons = dict[str, str]
    return ExtenderAnswer(
        nodes=tuple(names),
        failed=_read(found, "failednodes", reasons, dict),
        unresolvable=_read(found, "failedandunresolvablenodes", reasons, dict),
        error=error,
    )


class _Meta(msgspec.Struct, frozen=True):
    name: str = ""


class _Node(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()


class _NodeList(msgspec.Struct, frozen=True):
    items: list[_Node] | None = None


class _Score(msgspec.Struct, frozen=True, rename="pascal"):
    host: str
    score: int


_plain_scores = msgspec.json.Decoder(list[_Score])
_raw_fields = msgspec.json.Decoder(dict[str, msgspec.Raw] | None)
_raw_list = msgspec.json.Decoder(list[dict[str, msgspec.Raw]] | None)


def _fields(body: bytes) -> dict[str, bytes]:
    return _lowered(_raw_fields.decode(body) or {})


def _lowered(found: dict[str, msgspec.Raw]) -> dict[str, bytes]:
    return {key.lower(): bytes(raw) for key, raw in found.items()}


def _read(found: dict[str, bytes], key: str, kind: Any, default: Callable[[], T]) -> T:
    """Return a field of the given type, or the default when it is absent or null."""
    raw = found.get(key)
    if raw is None or raw == _NOTHING:
        return default()
    value: T = msgspec.json.decode(raw, type=kind)
    return value


def _scores(body: bytes) -> tuple[tuple[str, int], ...]:
    try:
        return tuple((entry.host, entry.score) for entry in _plain_scores.decode(body))
    except msgspec.ValidationError:
        pass  # other capitals, nulls, or no scores at all
    entries = (_lowered(entry) for entry in _raw_list.decode(body) or ())
    return tuple((_read(e, "host", str, str), _read(e, "score", int, int)) for e in entries)


def _offers(found: dict[str, bytes]) -> tuple[Offer, ...]:
    by_node: dict[str, dict[str, msgspec.Raw] | None] = _read(
        found, "nodenametometavictims", dict[str, dict[str, msgspec.Raw] | None], dict
    )
    offers = []
    for node, raw in by_node.items():
        fields = _lowered(raw or {})
        pods: list[dict[str, msgspec.Raw]] = _read(
            fields, "pods", list[dict[str, msgspec.Raw]], list
        )
        uids = tuple(_read(_lowered(pod), "uid", str, str) for pod in pods)
        offers.append(Offer(node, uids, _read(fields, "numpdbviolations", int, int)))
    return tuple(offers)


def _nodes(effect: AskExtender, raw_objects: RawObjects) -> bytes:
    """Return the whole nodes; a node that was deleted meanwhile is left out."""
    whole = (raw_objects.node(name) for name in effect.nodes)
    return b'{"metadata":{},"items":[%b]}' % b",".join(node for node in whole if node is not None)


def _victims(effect: AskExtender, raw_objects: RawObjects) -> bytes:
    parts = []
    for offer in effect.offers:
        whole = (raw_objects.pod(uid) for uid in offer.victims)
        pods = b",".join(pod for pod in whole if pod is not None)
        parts.append(
            b'%b:{"Pods":[%b],"NumPDBViolations":%d}'
            % (_encode(offer.node), pods, offer.violations)
        )
    return b"{%b}" % b",".join(parts)


def _meta_victims(effect: AskExtender) -> bytes:
    return _encode(
        {
            offer.node: {
                "Pods": [{"UID": uid} for uid in offer.victims],
                "NumPDBViolations": offer.violations,
            }
            for offer in effect.offers
        }
    )
