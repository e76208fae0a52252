"""Common parts of all Kubernetes objects: metadata, owner references, the struct base.

Every struct of this package is a frozen subset of the Kubernetes type of the same name: only the
fields that Trellis reads. Unknown fields are skipped while decoding, which keeps the hot path
short. No behaviour here beyond plain look-ups.
"""

from typing import Annotated, TypeAlias

import msgspec

# Kubernetes' numbers have a width, JSON's have none: a wider number would overflow a column later,
# far from its object, so decoding rejects it and names the field.
Int32: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class Object(msgspec.Struct, frozen=True, rename="camel", gc=False, omit_defaults=True):
    """Base of all object structs: frozen, camelCase in JSON, outside the garbage collector."""


class OwnerReference(Object, frozen=True):
    """The owner of an object; `controller` marks the managing owner."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class ObjectMeta(Object, frozen=True):
    """`metadata` without annotations (they are large, and few kinds need them)."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: Int64 = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()


class AnnotatedMeta(ObjectMeta, frozen=True):
    """`metadata` of the kinds whose annotations are read."""

    annotations: dict[str, str] = {}


class LabelSelectorRequirement(Object, frozen=True):
    """One expression of a label selector; operators In, NotIn, Exists, DoesNotExist."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(Object, frozen=True):
    """`matchLabels` and `matchExpressions`, all ANDed; empty matches everything."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class Condition(Object, frozen=True):
    """A condition of an object; `status` is True, False or Unknown."""

    type: str = ""
    status: str = ""
    observed_generation: int = 0
    last_transition_time: str = ""
    reason: str = ""
    message: str = ""
