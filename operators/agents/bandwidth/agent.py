"""`BandwidthAgent`: keeps `network.aware.com/bandwidth` of its node equal to the speed of its link.

Reads the link often and the node less often (a restarted kubelet may drop unknown resources);
writes only differences. If something cannot be read, the advertised value stays, and the log has
the reason.
"""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import structlog

from operators.agents.bandwidth.links import LinkError, LinkSpeed, default_link, speed
from operators.api import Api
from scheduler.base.clock import Clock
from scheduler.base.errors import ApiError, ObjectError
from scheduler.objects.meta import Object
from scheduler.objects.network import BANDWIDTH
from scheduler.objects.quantity import quantity

_log = structlog.get_logger("agent.bandwidth")


class BandwidthSettings(msgspec.Struct, frozen=True):
    """Node and link, the paths of the kernel's files, and the intervals of reading link and node.

    Without `interface` it is that of the default route. `assumed_bits_per_s` is used for hardware
    that does not report its speed (as in many clouds); 0 leaves such a link out.
    """

    node: str
    interface: str = ""
    assumed_bits_per_s: int = 0
    sysfs: Path = Path("/sys")
    proc: Path = Path("/proc")
    every_s: float = 10.0
    check_s: float = 300.0


class _Status(Object, frozen=True):
    capacity: dict[str, Any] | None = None
    allocatable: dict[str, Any] | None = None


class _Node(Object, frozen=True):
    status: _Status = _Status()


class BandwidthAgent:
    """One agent; `clock` times the reads of the node."""

    def __init__(self, settings: BandwidthSettings, api: Api, clock: Clock) -> None:
        self._settings = settings
        self._api = api
        self._clock = clock
        self._link = LinkSpeed("", "", 0)
        self._checked_at = float("-inf")
        self._failed = ""
        self.writes = 0

    async def run(self) -> None:
        """Measure and publish the link's speed until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(self._settings.every_s)

    async def look(self) -> None:
        """Measure once; write if the node's status differs."""
        try:
            link = await asyncio.to_thread(self._read)
            now = self._clock.now()
            if link == self._link and now - self._checked_at < self._settings.check_s:
                self._report("")
                return
            await self._advertise(link)
        except (LinkError, ApiError, msgspec.MsgspecError) as error:
            self._report(str(error))
            return
        self._link, self._checked_at = link, now
        self._report("")

    def _read(self) -> LinkSpeed:
        settings = self._settings
        name = settings.interface or default_link(settings.proc)
        return speed(settings.sysfs, name, settings.assumed_bits_per_s)

    async def _advertise(self, link: LinkSpeed) -> None:
        path = f"/api/v1/nodes/{self._settings.node}"
        body = await self._api.send("GET", f"{path}?resourceVersion=0")
        status = msgspec.json.decode(body, type=_Node).status
        if all(_amount(one) == link.bits_per_s for one in (status.capacity, status.allocatable)):
            return
        amount = {BANDWIDTH: str(link.bits_per_s)}
        await self._api.send(
            "PATCH", f"{path}/status", {"status": {"capacity": amount, "allocatable": amount}}
        )
        self.writes += 1
        _log.info(
            "advertises",
            node=self._settings.node,
            link=link.link,
            source=link.source,
            bits_per_s=link.bits_per_s,
        )

    def _report(self, error: str) -> None:
        """Log an error once, and its end once."""
        if error == self._failed:
            return
        self._failed = error
        if not error:
            _log.info("can read and write again")
        elif self._link.bits_per_s:
            _log.warning("the last speed stays", bits_per_s=self._link.bits_per_s, because=error)
        else:
            _log.warning("advertises nothing", because=error)


def _amount(resources: dict[str, Any] | None) -> int | None:
    found = (resources or {}).get(BANDWIDTH)
    try:
        return None if found is None else quantity(found)
    except ObjectError:
        return None
