"""The known plugin classes: in-tree ones and those of installed packages.

Built once at start; names are case-sensitive, as in kube-scheduler.
"""

from collections.abc import Iterable, Iterator
from importlib.metadata import entry_points
from typing import Any
from weakref import WeakSet

from scheduler.base.errors import ConfigError
from scheduler.framework.plugin import Plugin
from scheduler.framework.running.signatures import problems

ENTRY_POINT_GROUP = "trellis.plugins"
# Classes that passed the checks; a batch of simulations makes a registry for each case.
_SOUND: WeakSet[type[Plugin[Any]]] = WeakSet()


class Registry:
    """Plugin classes by name."""

    def __init__(self, classes: Iterable[type[Plugin[Any]]] = ()) -> None:
        self._classes: dict[str, type[Plugin[Any]]] = {}
        for cls in classes:
            self.add(cls)

    def add(self, cls: type[Plugin[Any]]) -> None:
        """Add a class; ConfigError if its name is taken, or if a method has a wrong signature."""
        if cls.name in self._classes:
            raise ConfigError(f"a plugin named {cls.name} already exists")
        if cls not in _SOUND:
            wrong = tuple(problems(cls))
            if wrong:
                raise ConfigError("; ".join(wrong), where=f"{cls.__module__}.{cls.__qualname__}")
            _SOUND.add(cls)
        self._classes[cls.name] = cls

    def get(self, name: str) -> type[Plugin[Any]] | None:
        """Return the class of that name, or None."""
        return self._classes.get(name)

    def __contains__(self, name: str) -> bool:
        return name in self._classes

    def __iter__(self) -> Iterator[type[Plugin[Any]]]:
        return iter(self._classes.values())

    def names(self) -> tuple[str, ...]:
        """Return all names in the order they were added."""
        return tuple(self._classes)

    def load_entry_points(self) -> None:
        """Add the plugins of installed packages (entry points); ConfigError names a broken one."""
        for entry in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda e: e.name):
            try:
                cls = entry.load()
            except Exception as error:  # importing a package runs its code
                raise ConfigError(
                    f"entry point {entry.name} = {entry.value} of group {ENTRY_POINT_GROUP} "
                    f"cannot be loaded: {type(error).__name__}: {error}; mend or uninstall it"
                ) from error
            if not (isinstance(cls, type) and issubclass(cls, Plugin)):
                raise ConfigError(
                    f"entry point {entry.name} = {entry.value} of group {ENTRY_POINT_GROUP} "
                    "is not a Plugin class"
                )
            self.add(cls)
