"""`Supervisor`: one daemon after another in one process.

When the configuration file changes, or the API server is of a newer release, the next daemon is
built first; if that works, the running one finishes its work, as for SIGTERM, and the next one
takes over. The next one lists the cluster again, so no old state has to match the new
configuration. The endpoints are unavailable during the change; another replica may lead meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from scheduler.base import reasons
from scheduler.base.errors import TrellisError
from scheduler.base.meters import Meters
from scheduler.config import Loaded
from scheduler.daemon import gctuning
from scheduler.daemon.configfile import ConfigFile
from scheduler.daemon.process import Daemon
from scheduler.daemon.releases import ServerRelease

Build = Callable[[Loaded], Awaitable[Daemon]]


_log = structlog.get_logger()


class Supervisor:
    """Runs daemons that `build` makes; without a `file` the configuration stays.

    `release` is the API server's release that `build` uses, None for a fixed one.
    """

    def __init__(
        self,
        build: Build,
        file: ConfigFile | None,
        meters: Meters,
        release: ServerRelease | None = None,
    ) -> None:
        self._build = build
        self._file = file
        self._release = release
        self._loaded: Loaded | None = None
        self._meters = meters
        self._daemon: Daemon | None = None
        self._next: Daemon | None = None
        self._is_stopping = False

    def stop(self) -> None:
        """Request an orderly end."""
        self._is_stopping = True
        if self._daemon is not None:
            self._daemon.stop()

    async def run(self, loaded: Loaded) -> int:
        """Run until stopped, or until a daemon ends without a request; return its exit code."""
        self._loaded = loaded
        self._daemon = await self._build(loaded)
        with gctuning.short_pauses():
            while True:
                code = await self._run_one(self._daemon)
                successor, self._next = self._next, None
                if successor is None:
                    return code
                if code != 0 or self._is_stopping:
                    await successor.discard()
                    return code
                self._daemon, successor = successor, None
                gctuning.forget()  # the previous daemon is garbage by now

    async def _run_one(self, daemon: Daemon) -> int:
        following = asyncio.create_task(self._follow(daemon), name="configuration")
        upgraded = asyncio.create_task(self._follow_release(daemon), name="release")
        try:
            if self._is_stopping:
                daemon.stop()
            return await daemon.run()
        finally:
            following.cancel()
            upgraded.cancel()
            await asyncio.gather(following, upgraded, return_exceptions=True)

    async def _follow(self, daemon: Daemon) -> None:
        """Wait for another valid configuration, then stop the daemon so that the next one can start
        with it.
        """
        file = self._file
        if file is None:
            return

        def refused(error: Exception) -> None:
            daemon.announce(
                reasons.CONFIGURATION_NOT_RELOADED,
                f"the last good one stays: {error}",
                is_warning=True,
            )

        while True:
            loaded = await file.changed(refused)
            try:
                self._next = await self._build(loaded)
            except TrellisError as error:
                file.refuse(error)
                refused(error)
                continue
            self._loaded = loaded
            for notice in loaded.notices:
                _log.warning("configuration", notice=str(notice))
            file.use(loaded)
            self._meters.config_reloads.labels("success").inc()
            _log.info(
                "configuration reloaded", profiles=[p.scheduler_name for p in loaded.profiles]
            )
            daemon.announce(
                reasons.CONFIGURATION_RELOADED,
                "the configuration file has changed and is used from now on",
            )
            daemon.stop()
            return

    async def _follow_release(self, daemon: Daemon) -> None:
        """Wait for a newer release of the API server, then start a daemon that follows it."""
        release = self._release
        if release is None or self._loaded is None:
            return
        await daemon.until_newer(release)
        try:
            self._next = await self._build(self._loaded)
        except TrellisError as error:
            _log.error("the newer release of Kubernetes is not followed", error=str(error))
            return
        daemon.announce(
            reasons.CONFIGURATION_RELOADED,
            f"the API server is of Kubernetes {release.known}, which is followed from now on",
        )
        daemon.stop()
