"""`LoadAgent`: the loop of `trellis agent load`: sample often, report once per interval.

The object belongs to its creator (the operator of Trellis or Koordinator). The agent waits for the
object, applies its policy and overwrites its status. A failed write is not repeated before the next
report, when its figures would be outdated.
"""

import asyncio
from pathlib import Path

import msgspec
import structlog

from operators.agents.load.machine import ReadingError
from operators.agents.load.sampler import Sampler
from operators.api import Api
from operators.nodemetric.figures import SOURCE_ANNOTATION
from operators.nodemetric.policy import DEFAULT_POLICY
from scheduler.base.clock import Clock
from scheduler.base.errors import ApiError
from scheduler.objects.kinds import BY_KIND
from scheduler.objects.meta import Object, ObjectMeta
from scheduler.objects.pod import Pod
from scheduler.objects.reports.nodemetric import NodeMetric

SOURCE = "trellis agent load"
KIND = BY_KIND["NodeMetric"]
NOT_FOUND = 404
LEAST_INTERVAL_S = 10.0

_log = structlog.get_logger("agent.load")


class LoadSettings(msgspec.Struct, frozen=True):
    """The agent's node and its sampling interval; the object has the interval of reports."""

    node: str
    proc: Path = Path("/proc")
    cgroups: Path = Path("/sys/fs/cgroup")
    sample_s: float = 5.0
    # The wait for an object that does not exist yet.
    missing_s: float = 10.0


class _Annotations(Object, frozen=True):
    config_hash: str = msgspec.field(name="kubernetes.io/config.hash", default="")


class _Meta(ObjectMeta, frozen=True):
    annotations: _Annotations = _Annotations()


class _Named(Object, frozen=True):
    metadata: _Meta = _Meta()


class _List(msgspec.Struct, frozen=True):
    items: tuple[msgspec.Raw, ...] = ()


class LoadAgent:
    """One agent; `clock` is the time of reports, the loop's own time that of samples."""

    def __init__(self, settings: LoadSettings, api: Api, clock: Clock) -> None:
        self._settings = settings
        self._api = api
        self._clock = clock
        self.sampler = Sampler(settings.proc, settings.cgroups)
        self._failed = ""
        self.reports = 0

    async def run(self) -> None:
        """Sample and report until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._looking(), name="looking")
            group.create_task(self._reporting(), name="reporting")

    async def _looking(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            await self._look()
            due = max(due + self._settings.sample_s, loop.time())
            await asyncio.sleep(due - loop.time())

    async def _look(self) -> None:
        try:
            # The kernel's files are in memory, but a thread may wait for its locks; the loop not.
            look = await asyncio.to_thread(self.sampler.look)
        except ReadingError as error:
            self._report(str(error))
        else:
            self.sampler.take(look, asyncio.get_running_loop().time())

    async def _reporting(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            interval_s = self._settings.missing_s
            try:
                interval_s = await self.report()
            except ApiError as error:
                self._report(str(error))
            except msgspec.MsgspecError as error:
                self._report(f"the API server answers with something else: {error}")
            await asyncio.sleep(max(began + interval_s - loop.time(), 0.0))

    async def report(self) -> float:
        """Write a report if there are new figures; return the seconds until the next one."""
        path = f"{KIND.path}/{self._settings.node}"
        try:
            metric = msgspec.json.decode(await self._api.send("GET", path), type=NodeMetric)
        except ApiError as error:
            if error.code != NOT_FOUND:
                raise
            self._report("there is no NodeMetric for this node yet")
            return self._settings.missing_s
        policy = metric.spec.metric_collect_policy or DEFAULT_POLICY
        self.sampler.follow(policy)
        await self._look()  # so that the figures end at the report's time
        status = self.sampler.status(await self._pods(), self._clock.now())
        if status is None:
            return self._settings.sample_s
        if metric.metadata.annotations.get(SOURCE_ANNOTATION) != SOURCE:
            annotations = {SOURCE_ANNOTATION: SOURCE}
            await self._api.send("PATCH", path, {"metadata": {"annotations": annotations}})
        await self._api.send("PATCH", f"{path}/status", {"status": status})
        self.reports += 1
        self._report("")
        interval = policy.report_interval_seconds or DEFAULT_POLICY.report_interval_seconds or 0
        return max(float(interval), LEAST_INTERVAL_S)

    async def _pods(self) -> list[tuple[str, Pod]]:
        """Return the pods of this node, each with the uid in the name of its control group."""
        query = f"fieldSelector=spec.nodeName%3D{self._settings.node}&resourceVersion=0"
        body = await self._api.send("GET", f"/api/v1/pods?{query}")
        found = []
        for raw in msgspec.json.decode(body, type=_List).items:
            try:
                pod = msgspec.json.decode(raw, type=Pod)
                # The kubelet runs a static pod under the hash of its file, not the mirror's uid.
                static = msgspec.json.decode(raw, type=_Named).metadata.annotations.config_hash
            except msgspec.MsgspecError:
                continue
            found.append((static or pod.metadata.uid, pod))
        return found

    def _report(self, error: str) -> None:
        """Log an error once, and its end once."""
        if error == self._failed:
            return
        self._failed = error
        if error:
            _log.warning("no report", because=error)
        else:
            _log.info("reports", node=self._settings.node)
