"""The configuration file in use: relevant changes, rejected ones, and one daemon after another."""

import asyncio
import weakref
from pathlib import Path

import pytest

from scheduler.base import reasons
from scheduler.base.clock import ManualClock
from scheduler.base.errors import ConfigError, InputError
from scheduler.base.meters import Meters
from scheduler.config import Loaded, load
from scheduler.daemon import configfile
from scheduler.daemon.configfile import ConfigFile
from scheduler.daemon.supervisor import Supervisor
from scheduler.framework.registry import Registry
from scheduler.intree import IN_TREE

REGISTRY = Registry(IN_TREE)
HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def read(text: str) -> Loaded:
    return load(text, file="config.yaml", registry=REGISTRY)


def text(*profiles: str) -> str:
    return HEAD + "profiles:\n" + "".join(f"- schedulerName: {name}\n" for name in profiles)


class WatchedFile:
    """A file with the profile `trellis`, and its reader."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "config.yaml"
        self.path.write_text(text("trellis"))
        self.meters = Meters()
        self.file = ConfigFile(str(self.path), read, ManualClock(7.0), self.meters)
        self.loaded = self.file.read()
        self.refused: list[str] = []

    async def changed(self) -> Loaded:
        async with asyncio.timeout(60):
            return await self.file.changed(lambda error: self.refused.append(str(error)))

    async def none(self) -> None:
        """Read a few times, and find no usable content."""
        for _ in range(2):
            assert await self.look() is None

    async def look(self) -> Loaded | None:
        try:
            return await self.file._look()
        except InputError as error:
            self.refused.append(str(error))
            return None

    def errors(self) -> float:
        return self.meters.config_reloads.labels("error").value


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WatchedFile:
    monkeypatch.setattr(configfile, "LOOK_EVERY_S", 0.001)
    return WatchedFile(tmp_path)


def names(loaded: Loaded) -> list[str]:
    return [profile.scheduler_name for profile in loaded.profiles]


async def test_only_a_changed_meaning_of_the_file_counts(watched: WatchedFile):
    """Comments and order of keys are no change; another profile is."""
    watched.path.write_text(f"# hello\n{text('trellis')}\n")
    await watched.none()
    watched.path.write_text(text("trellis", "packer"))

    assert ["trellis", "packer"] == names(await watched.changed())
    assert [] == watched.refused


async def test_an_invalid_file_is_reported_once(watched: WatchedFile):
    """The old text afterwards is no change, and clears the problem."""
    watched.path.write_text(text("trellis", "trellis"))
    await watched.none()
    assert 1 == len(watched.refused)
    watched.path.write_text(text("trellis"))
    await watched.none()
    assert 1 == len(watched.refused)

    watched.path.write_text("")
    waiting = asyncio.create_task(watched.changed())
    async with asyncio.timeout(60):
        while len(watched.refused) < 2:
            await asyncio.to_thread(lambda: None)
    assert watched.file.error == watched.refused[1]
    assert 0 == watched.meters.config_last_reload_successful.value
    watched.path.write_text(text("trellis"))
    async with asyncio.timeout(60):
        while watched.file.error:
            await asyncio.to_thread(lambda: None)
    assert 1 == watched.meters.config_last_reload_successful.value
    watched.path.write_text(text("last"))
    loaded = await waiting
    assert ["last"] == names(loaded)
    watched.file.use(loaded)
    assert not watched.file.error
    assert 1 == watched.meters.config_last_reload_successful.value
    assert 1 == watched.errors()


async def test_a_missing_file_is_reported_once(watched: WatchedFile):
    """A file that is no text is reported once, too; a later one counts."""
    watched.path.unlink()
    await watched.none()
    assert ["cannot be read: No such file or directory"] == [
        one.rpartition("config.yaml: ")[2] for one in watched.refused
    ]
    watched.path.write_bytes(b"\xff\xfe")
    await watched.none()
    watched.path.write_text(text("again"))
    assert ["again"] == names(await watched.changed())


class Daemon:
    """Runs until it is stopped; replaces the daemon of the e2e tests."""

    def __init__(self, loaded: Loaded) -> None:
        self.loaded = loaded
        self.events: list[str] = []
        self.is_discarded = False
        self.code = 0
        self._stopped = asyncio.Event()

    def stop(self) -> None:
        self._stopped.set()

    def announce(self, reason: str, _what: str, *, is_warning: bool = False) -> None:
        self.events.append(reason)
        assert is_warning == (reason == reasons.CONFIGURATION_NOT_RELOADED)

    async def run(self) -> int:
        await self._stopped.wait()
        return self.code

    async def discard(self) -> None:
        self.is_discarded = True


class Supervised:
    """A supervisor and the daemons it has built."""

    def __init__(self, watched: WatchedFile) -> None:
        self.watched = watched
        self.daemons: list[Daemon] = []
        self.fault: Exception | None = None
        file, meters = watched.file, watched.meters
        self.supervisor = Supervisor(self.build, file, meters)  # type: ignore[arg-type]

    async def build(self, loaded: Loaded) -> Daemon:
        if self.fault is not None:
            raise self.fault
        self.daemons.append(Daemon(loaded))
        return self.daemons[-1]

    async def until(self, count: int) -> None:
        async with asyncio.timeout(60):
            while len(self.daemons) < count:
                await asyncio.to_thread(lambda: None)


async def test_one_daemon_follows_another(watched: WatchedFile):
    """The first ends in order, the second runs the file's new content; a stop ends all."""
    supervised = Supervised(watched)
    running = asyncio.create_task(supervised.supervisor.run(watched.loaded))
    await supervised.until(1)
    watched.path.write_text(text("second"))
    await supervised.until(2)
    supervised.supervisor.stop()

    assert 0 == await running
    assert [["trellis"], ["second"]] == [names(one.loaded) for one in supervised.daemons]
    assert [reasons.CONFIGURATION_RELOADED] == supervised.daemons[0].events
    assert 1 == watched.meters.config_reloads.labels("success").value


async def test_the_old_daemon_is_let_go(watched: WatchedFile):
    """Two clusters in memory would be too large."""
    supervised = Supervised(watched)
    running = asyncio.create_task(supervised.supervisor.run(watched.loaded))
    await supervised.until(1)
    watched.path.write_text(text("second"))
    await supervised.until(2)
    first = weakref.ref(supervised.daemons.pop(0))
    async with asyncio.timeout(60):
        while first() is not None:
            await asyncio.to_thread(lambda: None)
    supervised.supervisor.stop()

    assert 0 == await running


async def test_what_cannot_be_built_leaves_the_old_one(watched: WatchedFile):
    """A file that names a missing kubeconfig, for example, leaves the old configuration in
    force.
    """
    supervised = Supervised(watched)
    running = asyncio.create_task(supervised.supervisor.run(watched.loaded))
    await supervised.until(1)
    supervised.fault = ConfigError("this kubeconfig does not exist")
    watched.path.write_text(text("second"))
    async with asyncio.timeout(60):
        while not supervised.daemons[0].events:
            await asyncio.to_thread(lambda: None)
    supervised.supervisor.stop()

    assert 0 == await running
    assert [reasons.CONFIGURATION_NOT_RELOADED] == supervised.daemons[0].events
    assert 1 == watched.errors()
    assert 0 == watched.meters.config_last_reload_successful.value


async def test_a_daemon_that_fails_is_not_followed(watched: WatchedFile):
    """The process must end, so that its supervisor restarts it."""
    supervised = Supervised(watched)
    running = asyncio.create_task(supervised.supervisor.run(watched.loaded))
    await supervised.until(1)
    supervised.daemons[0].code = 1
    watched.path.write_text(text("second"))
    await supervised.until(2)

    assert 1 == await running
    assert supervised.daemons[1].is_discarded
