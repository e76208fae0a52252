"""`Source`: what the rest of the package wants to know of a kind of object that describes groups."""

from typing import Any, Protocol

from scheduler.plugins.groups.group import GroupSpec


class Source(Protocol):
    """One kind of object; `kind` is our name for it, `served_as` the API server's, with `api_version`.

    `label` names the source in reports.
    """

    @property
    def kind(self) -> str: ...
    @property
    def served_as(self) -> str: ...
    @property
    def api_version(self) -> str: ...
    @property
    def label(self) -> str: ...

    def key(self, obj: Any) -> str:
        """Return the key of the group that an object describes."""

    def read(self, obj: Any) -> GroupSpec:
        """Return what it asks for; ObjectError says which field is wrong."""

    def was_placed(self, obj: Any) -> bool:
        """Whether the object itself says that the group has been bound."""

    def renamed(self, obj: Any, name: str) -> Any:
        """Return an object that describes another group, of this name, alike; nothing is told of it yet."""
