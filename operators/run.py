"""Run the operators beside the scheduler, in its process and loop.

`trellis run` starts `run_operators` as one task when the daemon leads and its view of the cluster
is complete, and cancels it when the lease is lost. A failure ends one operator, which starts again
after a pause; it never ends the task, the loop, or tasks of other components.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from random import Random
from typing import NamedTuple

import structlog

from operators.api import Connection
from operators.appgroup.operator import RECIPE as APP_GROUP
from operators.client import Client
from operators.embedding import live, live_unwatched
from operators.health import OperatorsHealth
from operators.kopflog import forgotten_errors_redirected, kopf_logs_redirected
from operators.moveplan.operator import RECIPE as MOVE_PLAN
from operators.networktopology.operator import RECIPE as NETWORK_TOPOLOGY
from operators.nodemetric.operator import RECIPE as NODE_METRIC
from operators.operator import Calculator, OperatorSurroundings, Planner, Recipe
from operators.settings import OperatorsSettings
from scheduler.base.clock import Clock
from scheduler.base.errors import ApiError, TrellisError
from scheduler.state.view import ClusterView

OPERATORS = {
    recipe.name: recipe for recipe in (APP_GROUP, NETWORK_TOPOLOGY, NODE_METRIC, MOVE_PLAN)
}

_log = structlog.get_logger("operators")


class StartAnewError(TrellisError):
    """The operator must restart because its settings changed; this is no crash."""


class OperatorInputs(NamedTuple):
    """The inputs that all operators share; `random` spreads pauses, so that processes do not act in
    step.
    """

    settings: OperatorsSettings
    view: ClusterView
    connection: Connection
    health: OperatorsHealth
    clock: Clock
    random: Random
    calculator: Calculator | None = None
    planner: Planner | None = None


async def run_operators(
    settings: OperatorsSettings,
    view: ClusterView,
    connection: Connection,
    health: OperatorsHealth,
    clock: Clock,
    calculator: Calculator | None = None,
    planner: Planner | None = None,
) -> None:
    """Run the enabled operators until cancelled; raises nothing else.

    `view` must be complete at the start: an object that it lacks counts as missing.
    """
    random = Random()  # noqa: S311 - spreads pauses
    inputs = OperatorInputs(settings, view, connection, health, clock, random, calculator, planner)
    for name in set(settings.enabled) - set(OPERATORS):
        _log.error("no such operator", operator=name, known=sorted(OPERATORS))
    chosen = [recipe for name, recipe in OPERATORS.items() if name in settings.enabled]
    with kopf_logs_redirected(), forgotten_errors_redirected():
        try:
            async with asyncio.TaskGroup() as group:
                for recipe in chosen:
                    run = partial(_run_forever, recipe, inputs)
                    group.create_task(keep_running(recipe.name, run, inputs), name=recipe.name)
                await asyncio.Event().wait()
        finally:
            for recipe in chosen:
                health.enter(recipe.name, "stopped")


async def keep_running(
    name: str, run: Callable[[], Awaitable[None]], inputs: OperatorInputs
) -> None:
    """Run it again and again, with growing pauses after crashes, until cancelled."""
    loop = asyncio.get_running_loop()
    crashes = 0
    while True:
        began = loop.time()
        try:
            await run()
            error = "ended by itself"
        except Exception as fault:  # noqa: BLE001 - the only handler of an operator's end
            error = f"{type(fault).__name__}: {fault}"
        if loop.time() - began >= inputs.settings.stable_after_s:
            crashes = 0
        crashes += 1
        pause_s = restart_pause_s(crashes, inputs)
        inputs.health.crashed(name, error)
        _log.warning("operator has ended", operator=name, error=error, again_in_s=round(pause_s, 1))
        await asyncio.sleep(pause_s)


def restart_pause_s(crashes: int, inputs: OperatorInputs) -> float:
    """Return the pause after this many crashes (>= 1) in a row: doubling, half of it by chance."""
    settings = inputs.settings
    doubled = settings.restart_first_s * 2.0 ** min(crashes - 1, 32)
    return min(doubled, settings.restart_limit_s) * inputs.random.uniform(0.5, 1.0)


async def _run_forever(recipe: Recipe, inputs: OperatorInputs) -> None:
    while True:
        await _run_once(recipe, inputs)


async def _run_once(recipe: Recipe, inputs: OperatorInputs) -> None:
    """Wait for the kind and maintain its objects; return when its definition was deleted or
    changed.
    """
    inputs.health.enter(recipe.name, "starting")
    api = Client(inputs.connection.client, inputs.settings.request_timeout_s)
    subresources = await _wait_served(recipe, api, inputs)

    def report(error: str) -> None:
        if error:
            inputs.health.note_error(recipe.name, error)

    operator = recipe.make(
        OperatorSurroundings(
            view=inputs.view,
            api=api,
            legacy="status" not in subresources,
            settings=inputs.settings,
            clock=inputs.clock,
            report=report,
            calculator=inputs.calculator,
            planner=inputs.planner,
            meters=inputs.health.meters,
            reported=inputs.health.sources.reported,
        )
    )
    inputs.health.enter(recipe.name, "running")
    _log.info("operator runs", operator=recipe.name, subresources=sorted(subresources))
    beside = _until_changed(recipe, api, subresources, inputs)
    try:
        if recipe.watches:
            await live(
                recipe.kind,
                operator,
                inputs.connection.credentials,
                beside=beside,
                stop_limit_s=inputs.settings.stop_limit_s,
            )
        else:
            await live_unwatched(recipe.kind, operator, beside=beside)
    except StartAnewError as change:
        _log.info("operator starts anew", operator=recipe.name, because=str(change))
    except Exception as error:  # kopf raises the error that ended its watch, of any class
        # kopf's watch ends with a failure when the definition is deleted: that is no crash.
        if await api.subresources(recipe.kind) is not None:
            raise
        _log.info("operator rests: its kind is gone", operator=recipe.name, because=str(error))


async def _until_changed(
    recipe: Recipe, api: Client, found: frozenset[str], inputs: OperatorInputs
) -> None:
    """Raise StartAnewError when the kind is served differently from `found`, or no longer.

    Also when the server's authorities have changed; kopf requests a new token itself after a 401.
    """
    tls = inputs.connection.credentials.access.tls
    while True:
        await asyncio.sleep(inputs.settings.definition_check_s * inputs.random.uniform(0.5, 1.0))
        try:
            if await api.subresources(recipe.kind) != found:
                raise StartAnewError("the definition has changed")
        except ApiError as error:
            _log.debug("definition not checked", operator=recipe.name, error=str(error))
        if inputs.connection.credentials.access.tls is not tls:
            raise StartAnewError("the authorities have changed")


async def _wait_served(recipe: Recipe, api: Client, inputs: OperatorInputs) -> frozenset[str]:
    """Wait until the API server offers the kind; return its subresources."""
    poll_s = inputs.settings.definition_poll_s
    while (found := await api.subresources(recipe.kind)) is None:
        inputs.health.enter(recipe.name, "waiting")
        await asyncio.sleep(poll_s * inputs.random.uniform(0.5, 1.0))
    return found
