"""Keep one NodeMetric per node, and fill it if a metric provider replaces the agents.

Nodes and objects are those of the scheduler's own store; kopf watches nothing here, because there
is one object per node. The rules are in `policy`, `plan` and `figures`; this gathers, writes and
waits.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Iterable
from contextlib import AsyncExitStack
from typing import Any

import structlog

from operators.api import CONFLICT, NOT_FOUND
from operators.cooperative import in_turns
from operators.metricproviders import (
    FigureProvider,
    HttpSource,
    LastGood,
    MetricsServer,
    Prometheus,
    ProviderError,
)
from operators.nodemetric.figures import SOURCE_ANNOTATION, status_of
from operators.nodemetric.policy import (
    Create,
    Delete,
    Policies,
    PolicyError,
    SetPolicy,
    Step,
    policy_document,
    read_policies,
    steps,
)
from operators.operator import OperatorSurroundings, Recipe
from scheduler.base.errors import ApiError
from scheduler.objects.kinds import BY_KIND
from scheduler.objects.node import Node
from scheduler.objects.pod import Pod
from scheduler.objects.reports.nodemetric import NodeMetric

KIND = BY_KIND["NodeMetric"]
WHERE = KIND.group, KIND.version, KIND.plural
WRITERS = 8

_log = structlog.get_logger("operators.nodemetric")


class NodeMetricOperator:
    """One run of the operator; its state comes from the view and the ConfigMap."""

    def __init__(self, around: OperatorSurroundings) -> None:
        self._around = around
        self._settings = around.settings.node_metric
        self._wake = asyncio.Event()
        self._policies: Policies | None = None
        self._config_error = ""
        self._failures = 0
        # Writes that the view does not show yet, with their times.
        self._written: dict[str, tuple[Step, float]] = {}
        self._reported: dict[str, float] = {}
        self._evaluated: dict[str, tuple[Node, NodeMetric | None]] = {}
        self._evaluated_by: Policies | None = None

    def seen(self, type_: str | None, raw: dict[str, Any]) -> None:
        """Do nothing: the view already has all objects."""

    async def work(self) -> None:
        """Keep objects and figures until cancelled."""
        stop = self._around.view.changes(("Node", "NodeMetric"), self._wake.set)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._keep_policies(), name="policies of NodeMetrics")
                group.create_task(self._keep_objects(), name="objects of NodeMetrics")
                if self._settings.source:
                    group.create_task(self._keep_figures(), name="figures of NodeMetrics")
        finally:
            stop()

    # Policies.

    async def _keep_policies(self) -> None:
        while True:
            await self._read_config()
            await asyncio.sleep(self._settings.config_poll_s)

    async def _read_config(self) -> None:
        """Read the ConfigMap; an invalid one changes nothing and is reported once."""
        namespace, _, name = self._settings.config_map.partition("/")
        error = ""
        try:
            data = (await self._around.api.core.read_namespaced_config_map(name, namespace)).data
        except ApiError as fault:
            if fault.code != NOT_FOUND:
                self._around.report(str(fault))
                return
            data = None
        try:
            policies = read_policies(data)
        except PolicyError as fault:
            error = f"{self._settings.config_map}: {fault}"
        else:
            if policies != self._policies:
                self._policies = policies
                self._wake.set()
        if error != self._config_error:
            self._config_error = error
            self._around.report(error)
            if error:
                kept = "nothing is created" if self._policies is None else "the former one stays"
                _log.warning("configuration refused", error=error, meanwhile=kept)

    # Objects.

    async def _keep_objects(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            await self._look()
            await asyncio.sleep(self._pause_s())

    def _pause_s(self) -> float:
        settings = self._around.settings
        doubled = settings.status_interval_s * 2 ** min(self._failures, 16)
        return float(min(doubled, max(settings.retry_limit_s, settings.status_interval_s)))

    async def _look(self) -> None:
        """Take the steps that are due."""
        now = self._around.clock.now()
        wanted = self._wanted()
        lately = now - self._settings.settle_s
        self._written = {k: v for k, v in self._written.items() if v[1] > lately}
        due = [one for one in wanted if self._written.get(one.name, (None, 0.0))[0] != one]
        errors = [error for error in await _limited(map(self._take, due)) if error]
        if len(due) < len(wanted) or errors:
            self._wake.set()
        if errors and not self._failures:
            _log.warning("not written, trying again", error=errors[0], objects=len(errors))
        self._failures = self._failures + 1 if errors else 0
        if errors:
            self._around.report(errors[0])

    def _wanted(self) -> list[Step]:
        """Return the steps to take; nodes with a correct object that are unchanged since then are
        skipped.

        Reports change objects all the time: evaluating all nodes on each change would block the
        loop.
        """
        metrics = self._around.view.objects(KIND.kind)
        nodes = {node.metadata.name: node for node in self._around.view.nodes()}
        if self._evaluated_by is not self._policies:
            self._evaluated, self._evaluated_by = {}, self._policies
        changed = []
        for name, node in nodes.items():
            known = self._evaluated.get(name)
            if known is None or known[0] is not node or known[1] is not metrics.get(name):
                changed.append(node)
        found = steps(changed, metrics, self._policies)
        open_ones = {step.name for step in found}
        for node in changed:
            name = node.metadata.name
            if name not in open_ones:
                self._evaluated[name] = (node, metrics.get(name))
        self._evaluated = {name: one for name, one in self._evaluated.items() if name in nodes}
        return found + [Delete(name) for name in metrics if name not in nodes]

    async def _take(self, step: Step) -> str:
        """Execute one step; return its error, '' for none."""
        api = self._around.api.custom
        try:
            match step:
                case Create():
                    await api.create_cluster_custom_object(*WHERE, step.document())
                case SetPolicy():
                    spec = {"metricCollectPolicy": policy_document(step.policy)}
                    await self._merge(step.name, {"spec": spec})
                case Delete():
                    await api.delete_cluster_custom_object(*WHERE, step.name)
        except ApiError as error:
            if error.code not in (NOT_FOUND, CONFLICT):
                return str(error)
        self._written[step.name] = (step, self._around.clock.now())
        return ""

    # Figures.

    async def _keep_figures(self) -> None:
        async with AsyncExitStack() as stack:
            provider = await self._provider(stack)
            kept = LastGood(provider, self._around.clock, self._settings.expires_s)
            failed = ""
            while True:
                error = await kept.refresh()
                if error != failed:
                    failed = error
                    self._around.report(error)
                    if error:
                        _log.warning("no new figures", source=provider.name, error=error)
                snapshot = kept.current()
                if snapshot is not None:
                    await self._report_all(snapshot)
                await asyncio.sleep(self._settings.report_interval_s)

    async def _provider(self, stack: AsyncExitStack) -> FigureProvider:
        clock = self._around.clock
        if self._settings.source == "Prometheus":
            source = await stack.enter_async_context(HttpSource(self._settings.http))
            return Prometheus(source, clock)
        return MetricsServer(self._fetch, clock)

    async def _fetch(self, path: str, query: dict[str, str]) -> bytes:
        del query
        try:
            return await self._around.api.fetch(path)
        except ApiError as error:
            raise ProviderError(str(error)) from error

    async def _report_all(self, snapshot: Any) -> None:
        """Write new figures, spread over half the interval."""
        pods: dict[str, list[Pod]] = defaultdict(list)
        async for handful in in_turns(list(self._around.view.pods())):
            for placed in handful:
                pods[placed.node].append(placed.pod)
        metrics = list(self._around.view.objects(KIND.kind).items())
        pause_s = self._settings.report_interval_s / 2 / max(len(metrics), 1)
        for name, metric in metrics:
            found = status_of(name, pods.get(name, ()), snapshot)
            if found is not None and found[1] > self._reported.get(name, 0.0):
                status, measured = found
                if await self._report(name, metric, status, snapshot.source):
                    self._reported[name] = measured
            await asyncio.sleep(min(pause_s, 0.1))

    async def _report(
        self, name: str, metric: NodeMetric, status: dict[str, Any], source: str
    ) -> bool:
        patch = self._around.api.custom.patch_cluster_custom_object_status
        try:
            if metric.metadata.annotations.get(SOURCE_ANNOTATION) != source:
                annotations = {SOURCE_ANNOTATION: source}
                await self._merge(name, {"metadata": {"annotations": annotations}})
            if self._around.legacy:
                await self._merge(name, {"status": status})
            else:
                await patch(*WHERE, name, {"status": status})
        except ApiError as error:
            if error.code != NOT_FOUND:
                self._around.report(str(error))
            return False
        return True

    async def _merge(self, name: str, body: dict[str, Any]) -> None:
        patch = self._around.api.custom.patch_cluster_custom_object
        await patch(*WHERE, name, body)


async def _limited(work: Iterable[Awaitable[str]]) -> list[str]:
    """Await all, a few at a time."""
    gate = asyncio.Semaphore(WRITERS)

    async def one(task: Awaitable[str]) -> str:
        async with gate:
            return await task

    return list(await asyncio.gather(*map(one, work)))


RECIPE = Recipe("nodemetric", KIND, NodeMetricOperator, watches=False)
