"""`trellis replay`: run a decision log again and compare the decisions."""

import sys
from pathlib import Path

import msgspec

from scheduler.base.errors import InputError
from scheduler.cli.commands import ReplayFlags
from scheduler.cli.inputs.logged import engine_of
from scheduler.simulate.replay import ReplayResult
from scheduler.simulate.replay import replay as run_again


def replay(flags: ReplayFlags) -> int:
    """Run a decision log again; exit 0 if the effects are the same, 1 if they differ."""
    file = flags.file
    try:
        with Path(file).open("rb") as lines:
            result = run_again(lines, engine_of, where=file)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", where=file) from error
    if flags.as_json:
        print(msgspec.json.encode(result).decode())
    else:
        _print_result(result, file)
    return 0 if result.is_same else 1


def _print_result(result: ReplayResult, file: str) -> None:
    words = f"{result.turns} turns, {result.events} events, {result.binds} binds"
    if result.difference is None:
        end = "" if result.is_complete else "; the last line is cut off and was left out"
        print(f"the same decisions came out: {words}{end}")
        return
    found = result.difference
    print(f"{file}:{found.line}: another decision came out (after {words})", file=sys.stderr)
    print(f"- {found.logged}\n+ {found.replayed}")
