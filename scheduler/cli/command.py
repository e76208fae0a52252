"""A verb's flags as one record, and the command that typer makes of it.

The record declares each flag once: name, type, default and help. The function of the verb is in a
module of its own, which is imported when the verb is called and not for its help; it gets the whole
record.
"""

from __future__ import annotations

import gc
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NamedTuple, get_type_hints


class Command(NamedTuple):
    """A verb: a NamedTuple of its flags, whose docstring is its help, and the name of its function.

    A field that is itself such a record stands for its fields: flags that several verbs share.
    """

    flags: type[Any]
    work: str

    def made(self) -> Callable[..., Any]:
        """Return the function that typer makes a command of; built for the verb in use only, as it
        takes 0.3 ms.
        """
        flags, work = self
        shared = {name: kind for name, kind in get_type_hints(flags).items() if _is_record(kind)}

        def call(**given: Any) -> Any:
            for name, kind in shared.items():
                given[name] = kind(**{field: given.pop(field) for field in kind._fields})
            module, _, function = work.rpartition(".")
            with no_collector():
                verb = getattr(import_module(module), function)
            return verb(flags(**given))

        parameters = list(_parameters(flags))
        call.__doc__ = flags.__doc__
        call.__annotations__ = {one.name: one.annotation for one in parameters}
        call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return call


@contextmanager
def no_collector() -> Iterator[None]:
    """Import without garbage collection, and exclude all live objects from later collections.

    Module objects live as long as the process. Without the exclusion, the next collection of the
    youngest generation visits all of them: 40 ms for the modules of `trellis run`, and as much
    again for those of the operators.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _is_record(kind: Any) -> bool:
    return hasattr(kind, "_fields")


def _parameters(flags: type[Any]) -> Iterator[inspect.Parameter]:
    for name, kind in get_type_hints(flags, include_extras=True).items():
        if _is_record(kind):
            yield from _parameters(kind)
        else:
            default = flags._field_defaults.get(name, inspect.Parameter.empty)
            yield inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind
            )
