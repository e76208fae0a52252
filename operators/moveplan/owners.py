"""Reads the owners of moved pods from the API server, at the rare moments when their state decides.

The scheduler watches no sizes of workloads: a change of one would wake pods for nothing.
"""

from __future__ import annotations

from urllib.parse import quote

import msgspec

from operators.client import Client
from scheduler.base.errors import ApiError
from scheduler.objects.kinds import BY_KIND
from scheduler.objects.meta import Condition
from scheduler.objects.moves.moveplan import PlannedMove

READ = ("ReplicaSet", "ReplicationController", "StatefulSet", "Job")
FINAL = ("Complete", "Failed", "SuccessCriteriaMet", "FailureTarget")


class _Meta(msgspec.Struct, frozen=True):
    uid: str = ""


class _Spec(msgspec.Struct, frozen=True):
    replicas: int | None = None
    parallelism: int = 1
    completions: int | None = None
    suspend: bool = False


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    update_revision: str = ""
    active: int = 0
    succeeded: int = 0
    conditions: tuple[Condition, ...] = ()


class Owner(msgspec.Struct, frozen=True):
    """The fields of a workload by which its pods are created and end; it may exist no more."""

    metadata: _Meta = _Meta()
    spec: _Spec = _Spec()
    status: _Status = _Status()
    exists: bool = True

    @property
    def owes_pods(self) -> bool:
        """Return whether a Job has fewer pods than it runs: it creates one after a back-off."""
        spec, status = self.spec, self.status
        is_final = any(one.type in FINAL and one.status == "True" for one in status.conditions)
        left = spec.parallelism
        if spec.completions is not None:
            left = min(left, spec.completions - status.succeeded)
        return self.exists and not is_final and not spec.suspend and status.active < left


class _Owners(msgspec.Struct, frozen=True):
    items: tuple[Owner, ...] = ()


async def owner_of(api: Client, move: PlannedMove) -> Owner | None:
    """Return the owner of a moved pod; None if it cannot be read or has no size."""
    kind = BY_KIND.get(move.owner.kind) if move.owner.kind in READ else None
    if kind is None:
        return None
    root, plural = kind.path.rsplit("/", 1)
    where = f"{root}/namespaces/{quote(move.namespace)}/{plural}"
    try:
        page = await api.fetch(f"{where}?fieldSelector=metadata.name%3D{quote(move.owner.name)}")
    except ApiError:
        return None
    found = msgspec.json.decode(page, type=_Owners).items
    # The owner of a group that restarts whole may be created again with the same name.
    mine = (one for one in found if move.unit or one.metadata.uid == move.owner.uid)
    return next(mine, Owner(exists=False))
