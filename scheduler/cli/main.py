"""`trellis`: finds the verb, imports its module and no other, turns errors into one line.

The table below is the whole command line. A verb's module has a function or a typer app of its
name; it is imported when the verb is used. `trellis`, `trellis --help` and `trellis version` are
answered without importing anything. Exit codes: 0 done, 1 error, 2 wrong usage or invalid file, 3
does not fit, 4 stopped at a time limit.
"""

import importlib
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from scheduler.about import version_text

if TYPE_CHECKING:
    import typer

EXIT_ERROR: Final = 1
EXIT_USAGE: Final = 2
EXIT_INTERRUPTED: Final = 130

COMPLETE_VARIABLE: Final = "_TRELLIS_COMPLETE"
_VERBOSE_FLAGS: Final = ("-v", "--verbose")
_HELP_FLAGS: Final = ("-h", "--help")


class Verb(NamedTuple):
    """One verb of the command line: name, help and module."""

    name: str
    help: str
    module: str = "scheduler.cli.commands"


VERBS: Final = (
    Verb("run", "Run the scheduler: the daemon and its endpoints."),
    Verb(
        "sandbox", "An embedded cluster with simulated nodes.", "scheduler.cli.verbs.start.sandbox"
    ),
    Verb("demo", "A narrated scenario in an embedded cluster."),
    Verb("status", "Leader, version, configuration, problems."),
    Verb("queue", "Pods and groups that wait, and why."),
    Verb("explain", "Why a pod or a group is where it is, or pending."),
    Verb("groups", "Groups: members, placement, proof, conflict."),
    Verb("capacity", "How many more pods or groups of a shape fit."),
    Verb("simulate", "Place pending pods, without changing anything."),
    Verb("moves", "Fewest relocations that reach a goal."),
    Verb("history", "The attempts at a pod with their results."),
    Verb("snapshot", "Write a live cluster as one List."),
    Verb("topology", "The tree with placements and costs."),
    Verb("ui", "The page: the cluster in a browser."),
    Verb("replay", "Run a decision log again and compare."),
    Verb("trace", "Record a cluster, or a decision log, as a trace."),
    Verb("convert", "Rewrite older kinds into today's."),
    Verb("support-bundle", "An archive for fault reports, without secrets."),
    Verb("agent", "Node agents: netperf, bandwidth, load.", "scheduler.cli.agent"),
    Verb("config", "Check and print configuration files."),
    Verb("plugins", "List plugins with extension points and arguments."),
    Verb("completion", "Print a completion script.", "scheduler.cli.verbs.files.completion"),
    Verb("version", "Version, supported Kubernetes versions.", "scheduler.cli.verbs.files.version"),
)


class Invocation(NamedTuple):
    """The properties of a call that verbs read, as `typer.Context.obj`."""

    verbose: bool = False


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    sys.exit(run(list(sys.argv[1:] if argv is None else argv)))


def run(argv: list[str]) -> int:
    """Run one command line; return the exit code."""
    verbose, argv = _take_verbose(argv)
    try:
        code = _answer(argv, Invocation(verbose))
        # Here and not at exit, where a closed pipe could not be distinguished from a fault.
        sys.stdout.flush()
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except SystemExit as stop:  # typer leaves this way when it has answered a shell
        return stop.code if isinstance(stop.code, int) else 0
    except BrokenPipeError:
        # The reader (head, less) has exited; Python must not report that while it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_ERROR
    except Exception as error:  # noqa: BLE001 - the one place that prints errors
        return _report(error, verbose=verbose)
    return code


def _answer(argv: list[str], invocation: Invocation) -> int:
    is_completing = COMPLETE_VARIABLE in os.environ
    if not is_completing and argv[:1] == ["help"]:
        # kubectl's form: `help VERB` is `VERB --help`.
        argv = [*argv[1:], "--help"]
    if not is_completing and (not argv or argv[0] in _HELP_FLAGS):
        print(help_text())
        return 0
    if not is_completing and argv in (["version"], ["--version"]):
        print(version_text())
        return 0
    return _dispatch(argv, _words_to_complete() if is_completing else argv, invocation)


def help_text() -> str:
    """Return the help of the whole command line."""
    width = max(len(verb.name) for verb in VERBS)
    lines = [f"  {verb.name:{width}}  {verb.help}" for verb in VERBS]
    return "\n".join(
        (
            "Usage: trellis VERB [ARGS]...",
            "",
            "A Kubernetes scheduler: groups, networks, NUMA and load in one engine.",
            "",
            "Verbs:",
            *lines,
            "",
            "Options:",
            "  -h, --help     This text; after a verb, that verb's. Also: trellis help VERB.",
            "  --version      The version.",
            "  -v, --verbose  With any verb: a traceback when something fails.",
            "",
            "Exit codes: 0 done, 1 error, 2 wrong usage or invalid file, 3 does not fit,",
            "4 stopped at a time limit.",
        )
    )


def _take_verbose(argv: list[str]) -> tuple[bool, list[str]]:
    """Remove `-v` and `--verbose`, which may be anywhere before `--`."""
    end = argv.index("--") if "--" in argv else len(argv)
    head = [word for word in argv[:end] if word not in _VERBOSE_FLAGS]
    return len(head) < end, head + argv[end:]


def _words_to_complete() -> list[str]:
    line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")
    return line.split()[1:]


def _dispatch(argv: list[str], words: Sequence[str], invocation: Invocation) -> int:
    used = next((word for word in words if not word.startswith("-")), "")
    from scheduler.cli.command import no_collector

    with no_collector():
        import typer.main

        command = typer.main.get_command(app_for(used, is_completing=words is not argv))
    answer = command.main(
        args=argv,
        prog_name="trellis",
        complete_var=COMPLETE_VARIABLE,
        standalone_mode=False,
        obj=invocation,
    )
    return answer if isinstance(answer, int) else 0


def app_for(used: str, *, is_completing: bool = False) -> "typer.Typer":
    """Build the command line with the given verb; the other verbs have names only."""
    import typer

    from scheduler.cli.command import Command

    app = typer.Typer(
        # Makes typer answer the shell; otherwise it would only add two flags to the help.
        add_completion=is_completing,
        rich_markup_mode=None,
        context_settings={"help_option_names": list(_HELP_FLAGS)},
    )
    # With this callback typer keeps the verb's name even where it is the only one.
    app.callback()(_root)
    for verb in VERBS:
        if verb.name != used:
            app.command(verb.name, help=verb.help)(_elsewhere)
            continue
        target: Any = getattr(importlib.import_module(verb.module), verb.name.replace("-", "_"))
        if isinstance(target, typer.Typer):
            app.add_typer(target, name=verb.name, help=verb.help)
        else:
            app.command(verb.name)(target.made() if isinstance(target, Command) else target)
    return app


def _root() -> None:
    """Trellis, a Kubernetes scheduler."""


def _elsewhere() -> None:
    """Serve as placeholder for a verb that is not in use."""


def _report(error: Exception, *, verbose: bool) -> int:
    """Print an error as one line (a file's as one per mistake); return the exit code."""
    from scheduler.base.errors import InputError, TrellisError

    if verbose:
        import traceback

        traceback.print_exception(error)
    # The exceptions that typer raises for wrong usage have this method, in any version of click.
    describe = getattr(error, "format_message", None)
    is_usage = describe is not None
    text = describe() if describe is not None else str(error)
    if type(error).__name__ == "NoArgsIsHelpError":
        print(text, file=sys.stderr)
        return EXIT_USAGE
    if type(error).__name__ == "Abort":
        return EXIT_INTERRUPTED
    if not is_usage and not isinstance(error, TrellisError | OSError):
        text = f"{type(error).__name__}: {text} (a bug; -v shows the traceback)"
    for line in text.splitlines() or [type(error).__name__]:
        print(f"error: {line}", file=sys.stderr)
    return EXIT_USAGE if is_usage or isinstance(error, InputError) else EXIT_ERROR


if __name__ == "__main__":
    main()
