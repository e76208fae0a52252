"""`trellis config check|print|defaults`: the effective configuration and its mistakes."""

import sys

from scheduler.cli.commands import CheckFlags, DefaultsFlags, PrintFlags
from scheduler.cli.flags import Output
from scheduler.cli.inputs.files import read_text, shown
from scheduler.cli.output.printing import show_document
from scheduler.config import Loaded, default_config, load, to_configz, to_yaml
from scheduler.config.every import every_problem
from scheduler.config.featuregates.effects import effects
from scheduler.config.presets import PRESETS
from scheduler.config.problems import InvalidConfigError
from scheduler.explain.questions import check_shapes
from scheduler.intree import registry


def check(flags: CheckFlags) -> None:
    """Read a configuration strictly; report all mistakes, each with line and column."""
    file, known = flags.file, registry()
    text = read_text(file)
    problems = every_problem(text, file=shown(file), registry=known)
    if problems:
        raise InvalidConfigError(problems)
    loaded = _load(file, text)
    check_shapes((one.manifest for one in loaded.trellis.capacity.shapes), shown(file))
    names = ", ".join(spec.scheduler_name for spec in loaded.profiles)
    print(f"{shown(file)}: valid; schedules pods whose schedulerName is {names}")
    for line in effects(loaded):
        print(line)


def print_(flags: PrintFlags) -> None:
    """Print the effective configuration: every plugin list as it is called, every argument."""
    loaded = default_config(registry()) if flags.file is None else _load(flags.file)
    _print(loaded, flags.output)


def defaults(flags: DefaultsFlags) -> None:
    """Print the configuration that runs without a file."""
    preset = PRESETS[flags.profile]
    loaded = _load("", preset) if preset else default_config(registry())
    _print(loaded, flags.output)


def _load(file: str, text: str | None = None) -> Loaded:
    text = read_text(file) if text is None else text
    loaded = load(text, file=shown(file), registry=registry())
    for notice in loaded.notices:
        print(f"notice: {notice}", file=sys.stderr)
    return loaded


def _print(loaded: Loaded, output: Output) -> None:
    if output is Output.NAME:
        print(*(spec.scheduler_name for spec in loaded.profiles), sep="\n")
    elif output is Output.JSON:
        show_document(to_configz(loaded), output)
    else:
        print(to_yaml(loaded), end="")
