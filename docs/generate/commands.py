"""The page of the command line, from the verbs themselves."""

import json
import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Any

import typer.main

from docs.generate import markdown
from scheduler.cli.inputs.cmdio import EXIT_DOES_NOT_FIT, EXIT_UNPROVEN
from scheduler.cli.main import EXIT_ERROR, EXIT_INTERRUPTED, EXIT_USAGE, VERBS, app_for
from scheduler.cli.verbs.plan.simulate import EXIT_DIFFERS

INTRODUCTION = f"""\
# The command line

{markdown.origin("scheduler/cli")}

`trellis VERB` and `kubectl trellis VERB` are the same program.
Results go to stdout, logs and notices to stderr. Output has no colour if stdout is not a terminal
or `NO_COLOR` is set.
`-h` after any verb prints its options, `-v` anywhere adds a traceback to an error.
`trellis completion SHELL` prints a completion script.
"""

EXIT_CODES = (
    (0, "done; all requested pods fit"),
    (EXIT_ERROR, "an error, in one line on stderr"),
    (EXIT_DIFFERS, "`simulate --against`, `replay`: the results differ"),
    (EXIT_USAGE, "wrong usage or an invalid file; every mistake with line and column"),
    (EXIT_DOES_NOT_FIT, "`simulate`, `explain`: a pod does not fit"),
    (
        EXIT_UNPROVEN,
        (
            "`simulate`: every pod fits, but a placement of a group is not proven optimal: the "
            "time limit was reached, or its solver is `Greedy`"
        ),
    ),
    (EXIT_INTERRUPTED, "interrupted by Ctrl-C"),
)

ENVIRONMENT = (
    ("KUBECONFIG", "the kubeconfig if no flag names one"),
    ("NO_COLOR", "any value: no colour"),
    ("COLUMNS", "the width of tables if stdout is not a terminal"),
)


def page() -> str:
    """Return the whole page."""
    parts = [INTRODUCTION]
    codes = ((str(number), meaning) for number, meaning in EXIT_CODES)
    parts += ["## Exit codes\n", markdown.table(("code", "meaning"), codes)]
    names = ((markdown.code(name), meaning) for name, meaning in ENVIRONMENT)
    parts += ["## Environment\n", markdown.table(("variable", "meaning"), names)]
    for verb in VERBS:
        group: Any = typer.main.get_command(app_for(verb.name))
        parts += section(f"trellis {verb.name}", group.commands[verb.name])
    return "\n".join(parts)


def section(name: str, command: Any) -> Iterator[str]:
    """Yield the parts of a command's section, then those of its own commands."""
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option" and not one.hidden]
    called = " ".join([name, *map(placeholder, arguments)])
    yield f"## `{called}`\n"
    yield re.sub(r"\s+", " ", command.help or "") + "\n"
    rows = [*map(argument_row, arguments), *map(option_row, options)]
    if rows:
        yield markdown.table(("option", "default", "meaning"), rows)
    for word, inner in getattr(command, "commands", {}).items():
        yield from section(f"{name} {word}", inner)


def argument_row(argument: Any) -> tuple[str, str, str]:
    """Return the table row of an argument."""
    needed = "needed" if argument.required else default(argument)
    return markdown.code(placeholder(argument)), needed, markdown.text(argument.help or "")


def placeholder(argument: Any) -> str:
    """Return the placeholder of an argument, in brackets if it is optional: `[F]`."""
    if argument.metavar:
        return str(argument.metavar)
    name = argument.name.upper() + ("..." if argument.nargs != 1 or argument.multiple else "")
    return name if argument.required else f"[{name}]"


def option_row(option: Any) -> tuple[str, str, str]:
    """Return the table row of an option."""
    names = ", ".join([*option.opts, *option.secondary_opts])
    taken = "" if option.is_flag else f" {metavar(option)}"
    return markdown.code(names + taken), default(option), markdown.text(option.help or "")


def metavar(option: Any) -> str:
    """Return the placeholder of an option's value."""
    if option.metavar:
        return str(option.metavar)
    annotation = option.type_descriptor.annotation
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return "|".join(annotation)
    return {int: "N", float: "X"}.get(annotation, "TEXT")


def default(parameter: Any) -> str:
    """Return the default as text, or '' if there is none."""
    found = parameter.default
    found = getattr(found, "value", found)
    if found in (None, "", False) or found == [] or callable(found):
        return ""
    return markdown.code(json.dumps(found) if isinstance(found, bool) else str(found))
