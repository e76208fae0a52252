"""The interface between the store and Kubernetes' rules for a kind.

The store calls a `Rules` at every write; `defaults.ApiRules` is the real one. `NoRules` adds
nothing and is for tests of the store alone.
"""

from collections.abc import Sequence
from typing import Protocol, TypeVar

from scheduler.sandbox.api.status import Object
from scheduler.sandbox.kinds.kinds import Resource
from scheduler.sandbox.kinds.typetable import TypeShape

Store_contra = TypeVar("Store_contra", contravariant=True)


class Rules(Protocol[Store_contra]):
    """Rules of a kind beyond the general ones, which may read the store; every method may raise
    `StatusError`.
    """

    def prepare_create(self, store: Store_contra, resource: Resource, obj: Object) -> None:
        """Default and check a new object; change `obj` only, never data it shares with others."""

    def prepare_update(
        self, store: Store_contra, resource: Resource, new: Object, old: Object, subresource: str
    ) -> None:
        """Default and check `new` against `old`; changes `new` in the same way."""

    def grace_period_s(
        self, resource: Resource, obj: Object, requested: int | None, /
    ) -> int | None:
        """Return the seconds until a deletion completes without further requests.

        0 deletes at once, None has no grace period.
        """

    def mark_deleted(self, resource: Resource, obj: Object) -> None:
        """Change a fresh copy of an object whose deletion has begun."""

    def prune(self, resource: Resource, obj: Object, /) -> Sequence[str]:
        """Remove fields that a custom resource does not have; returns their paths."""

    def printer_columns(self, resource: Resource, /) -> Sequence[Object]:
        """Return the columns that a custom resource's definition adds to tables."""

    def scale_paths(self, resource: Resource, /) -> Object | None:
        """Return where a custom resource has its replicas, None for built-in kinds."""

    def shape_of(self, resource: Resource, /) -> TypeShape | None:
        """How lists and maps of a kind merge."""

    def openapi_schema(self, resource: Resource, /) -> Object | None:
        """Return the schema of a custom resource, None for built-in kinds."""


class NoRules:
    """Rules for tests of the store alone: nothing is added, nothing is rejected."""

    def prepare_create(self, store: object, resource: Resource, obj: Object) -> None:
        """Accept."""

    def prepare_update(
        self, store: object, resource: Resource, new: Object, old: Object, subresource: str
    ) -> None:
        """Accept."""

    def grace_period_s(
        self, _resource: Resource, _obj: Object, _requested: int | None
    ) -> int | None:
        """Delete at once."""
        return None

    def mark_deleted(self, resource: Resource, obj: Object) -> None:
        """Change nothing."""

    def prune(self, _resource: Resource, _obj: Object) -> Sequence[str]:
        """Remove no field."""
        return ()

    def printer_columns(self, _resource: Resource) -> Sequence[Object]:
        """Return None."""
        return ()

    def scale_paths(self, _resource: Resource) -> Object | None:
        """Return None."""
        return None

    def shape_of(self, _resource: Resource) -> TypeShape | None:
        """Return None: there is no shape."""
        return None

    def openapi_schema(self, _resource: Resource) -> Object | None:
        """Return None."""
        return None
