"""`trellis demo`: an embedded cluster, the daemon and a narrated scenario."""

import asyncio
import gc
import sys
from contextlib import AsyncExitStack
from importlib.util import find_spec
from pathlib import Path

from scheduler.base import logs
from scheduler.base.errors import InputError
from scheduler.base.text import did_you_mean
from scheduler.cli.commands import DemoFlags
from scheduler.cli.inputs.access import ClusterOptions
from scheduler.cli.inputs.cmdio import options, setups
from scheduler.cli.output.printing import show_table
from scheduler.cli.verbs.start.ui import HistoryView, live_page
from scheduler.demo import ScenarioOutcome, play, read_scenario
from scheduler.demo.show import Show
from scheduler.demo.stage import stage
from scheduler.engine.attempt.cycle import Ties

READING_S = 1.5


def demo(flags: DemoFlags) -> int:
    """Play a narrated scenario in an embedded cluster."""
    if flags.is_listing:
        show_table(["scenario", "title"], [[name, title] for name, title in _scenarios()])
        return 0
    logs.configure(level="error", form="auto")
    outcome = asyncio.run(_run(_find(flags.name or flags.scenario), once=flags.once))
    print(_summary(outcome))
    for failure in outcome.failures:
        print(f"error: {failure}", file=sys.stderr)
    return 0 if outcome.went_well else 1


async def _run(path: Path, *, once: bool) -> ScenarioOutcome:
    scenario = await asyncio.to_thread(read_scenario, path)
    config = path.parent / scenario.config if scenario.config else None
    stays = not once and sys.stdin.isatty()
    async with AsyncExitStack() as opened:
        set_up = await opened.enter_async_context(
            stage(path.parent / scenario.shape, path.parent, config)
        )
        gc.freeze()
        address = ""
        if stays:
            wanted = options("", Ties.UID, None, details=False)
            known = await asyncio.to_thread(setups, str(config) if config else "")
            past = HistoryView(set_up.history_log)
            page = live_page(known, wanted, ClusterOptions(str(set_up.kubeconfig)), past=past)
            address = await opened.enter_async_context(page)
        with Show() as show:
            show.say(scenario.title)
            if address:
                show.say(f"The page, live: {address}")
            # A pipe or --once has no reader to wait for.
            pause_s = READING_S if show.console.is_terminal and not once else 0.0
            outcome = await play(scenario, set_up, show, pause_s)
        if stays:
            print(_summary(outcome))
            print(f"The page: {address}")
            print(f"The cluster stays up: export KUBECONFIG={set_up.kubeconfig}\nCtrl-C ends it.")
            await asyncio.Event().wait()
    return outcome


def _find(name: str) -> Path:
    """Return the scenario file for a name or path."""
    given = Path(name)
    if given.is_file():
        return given
    for folder in _example_folders():
        for candidate in (folder / name / "scenario.yaml", folder / f"{name}.yaml"):
            if candidate.is_file():
                return candidate
    known = [one for one, _ in _scenarios()]
    text = f'there is no scenario "{name}"{did_you_mean(name, known)}; there are {", ".join(known)}'
    raise InputError(text, where="--scenario")


def _scenarios() -> list[tuple[str, str]]:
    """Return the scenarios of the examples by name, each with its title."""
    found: dict[str, str] = {}
    for folder in _example_folders():
        for file in sorted(folder.glob("*/scenario.yaml")):
            found.setdefault(file.parent.name, read_scenario(file).title)
    return list(found.items())


def _example_folders() -> list[Path]:
    """Return where examples lie: in a checkout, or where an installation puts them."""
    spec = find_spec("scheduler")
    origin = Path(spec.origin) if spec is not None and spec.origin else Path(__file__)
    return [origin.parent.parent / "docs/examples", Path(sys.prefix) / "share/trellis/examples"]


def _summary(outcome: ScenarioOutcome) -> str:
    kept = outcome.expectations - len(outcome.failures)
    return (
        f"{outcome.chapters} chapters, {kept} of {outcome.expectations} expectations came true, "
        f"{outcome.placed} pods placed, {outcome.seconds:.1f} s"
    )
