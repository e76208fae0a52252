"""The bodies of the scheduler's writes, field for field as kube-scheduler sends them.

Pure functions from effects to JSON bytes; effects.py, podstatus.py and eviction.py send them and
interpret the responses.
"""

import msgspec
from msgspec import UNSET, UnsetType

from scheduler.base import reasons
from scheduler.engine.effects import Bind, SetStatus

_encode = msgspec.json.Encoder().encode


class _Body(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    pass


class _Ref(_Body, frozen=True):
    name: str
    namespace: str
    uid: str


class _Target(_Body, frozen=True):
    kind: str
    name: str


class _Binding(_Body, frozen=True):
    api_version: str
    kind: str
    metadata: _Ref
    target: _Target


class _Condition(_Body, frozen=True, kw_only=True):
    # Written even without a value: a null makes the server use no default.
    last_probe_time: None
    type: str
    status: str
    reason: str = ""
    message: str = ""
    observed_generation: int = 0
    last_transition_time: str | None = None


class _StatusPatch(_Body, frozen=True):
    conditions: list[_Condition] | UnsetType = UNSET
    nominated_node_name: str | UnsetType | None = UNSET


class _Uid(_Body, frozen=True):
    uid: str


class _PodPatch(_Body, frozen=True):
    metadata: _Uid
    status: _StatusPatch


class _DeleteOptions(_Body, frozen=True):
    api_version: str
    kind: str
    preconditions: _Uid


def pod_path(namespace: str, name: str) -> str:
    """Return the URL path of a pod; valid names need no quoting."""
    return f"/api/v1/namespaces/{namespace}/pods/{name}"


def binding(effect: Bind) -> bytes:
    """Return the body of a POST to `pods/<name>/binding`."""
    ref = _Ref(effect.name, effect.namespace, effect.uid)
    return _encode(_Binding("v1", "Binding", ref, _Target("Node", effect.node)))


def status_patch(effect: SetStatus) -> bytes:
    """Return the strategic merge patch of `pods/<name>/status`; the uid makes it this pod's
    only.
    """
    conditions: list[_Condition] | UnsetType = UNSET
    if effect.condition is not None:
        known = effect.condition
        conditions = [
            _Condition(
                last_probe_time=None,
                type=known.type,
                status=known.status,
                reason=known.reason,
                message=known.message,
                observed_generation=known.observed_generation,
                last_transition_time=known.last_transition_time,
            )
        ]
    nominated: str | UnsetType | None = UNSET
    if effect.nominated_node is not None:
        # A null clears it, as Go's patch of an emptied field does.
        nominated = effect.nominated_node or None
    return _encode(_PodPatch(_Uid(effect.uid), _StatusPatch(conditions, nominated)))


def disruption_patch(uid: str, message: str, generation: int, now: str) -> bytes:
    """Return the status patch that marks a victim of preemption."""
    condition = _Condition(
        last_probe_time=None,
        type="DisruptionTarget",
        status="True",
        reason=reasons.PREEMPTION_BY_SCHEDULER,
        message=message,
        observed_generation=generation,
        last_transition_time=now,
    )
    return _encode(_PodPatch(_Uid(uid), _StatusPatch([condition])))


def deletion(uid: str) -> bytes:
    """Return the options of a DELETE that may only hit the pod with this uid."""
    return _encode(_DeleteOptions("v1", "DeleteOptions", _Uid(uid)))
