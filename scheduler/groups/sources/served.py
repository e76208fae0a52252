"""`ServedGroups`: the base of a source whose kind of object the API server serves under one name.

Each object describes one group, whose key is the object's name behind a prefix of the source.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

import msgspec
from msgspec.structs import replace

from scheduler.objects.kinds import Kind

ObjectT = TypeVar("ObjectT", bound=Any)


def renamed(obj: ObjectT, name: str, **fields: Any) -> ObjectT:
    """Return a copy of an object under another name, with a uid of its own and these fields."""
    meta = replace(obj.metadata, name=name, uid=f"{obj.metadata.uid}-{name}")
    copy: ObjectT = replace(obj, metadata=meta, **fields)
    return copy


def changed(status: msgspec.Struct, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `values` that differ from the status, by their names in JSON."""
    # Encoding leaves fields out that have their default: a count of 0 would differ forever.
    fields = msgspec.structs.fields(status)
    known = {one.encode_name: getattr(status, one.name) for one in fields}
    return {key: value for key, value in values.items() if known[key] != value}


class ServedGroups:
    """A source of groups that objects of the watched kind `of` describe."""

    of: ClassVar[Kind]
    prefix: ClassVar[str]

    @property
    def kind(self) -> str:
        """Return the name of the kind in this program."""
        return self.of.kind

    @property
    def served_as(self) -> str:
        """Return the API server's name of the kind."""
        return self.of.name

    @property
    def api_version(self) -> str:
        """Return the group and version of the kind."""
        return self.of.api_version

    @property
    def label(self) -> str:
        """Return the name of the source in reports."""
        return f"{self.of.name}.{self.of.group}" if self.of.group else self.of.name

    def key(self, obj: Any) -> str:
        """Return `namespace/name` behind the prefix that distinguishes these groups."""
        return f"{self.prefix}{obj.metadata.namespace}/{obj.metadata.name}"

    def renamed(self, obj: Any, name: str) -> Any:
        """Return an object of this name that describes such a group, with an empty status."""
        return renamed(obj, name)

    def was_placed(self, obj: Any) -> bool:
        """Return False: the members state it, the status belongs to the object's controller."""
        del obj
        return False
