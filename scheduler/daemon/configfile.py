"""`ConfigFile`: the configuration file, polled every few seconds for changes.

Only the content counts: an edit, a rename over the file and the symlink that the kubelet swaps in a
mounted ConfigMap are equal. An invalid file is reported once, with all its errors, and the last
valid configuration stays in use. Reading happens in a thread.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path

import structlog

from scheduler.base.clock import Clock
from scheduler.base.errors import InputError
from scheduler.base.meters import Meters
from scheduler.config import Loaded

LOOK_EVERY_S = 2.0
LARGEST_BYTES = 16 << 20

Load = Callable[[str], Loaded]

_log = structlog.get_logger()


class ConfigFile:
    """A file and the configuration from it that is in use; `load` reads text or raises
    InputError.
    """

    def __init__(self, path: str, load: Load, clock: Clock, meters: Meters) -> None:
        self._path = Path(path)
        self._load = load
        self._clock = clock
        self._meters = meters
        self._seen = ""
        self._used: Loaded | None = None
        self.error = ""  # why the content of the file is not in use, '' if it is

    def read(self) -> Loaded:
        """Read the file for the first time; InputError when it cannot be used."""
        self._seen = self._text()
        loaded = self._load(self._seen)
        self.use(loaded)
        return loaded

    def use(self, loaded: Loaded) -> None:
        """Record the configuration in use."""
        self._used, self.error = loaded, ""
        self._meters.config_last_reload_successful.set(1)
        self._meters.config_last_reload_success_timestamp.set(self._clock.now())

    def refuse(self, error: Exception) -> None:
        """Record that the file is invalid; the last valid configuration stays in force."""
        self.error = str(error)
        self._meters.config_reloads.labels("error").inc()
        self._meters.config_last_reload_successful.set(0)
        _log.error("configuration not reloaded, the last good one stays", error=str(error))

    async def changed(self, refused: Callable[[Exception], None]) -> Loaded:
        """Wait until the file has another valid content; call `refused` for each invalid
        content.
        """
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            try:
                found = await self._look()
            except InputError as error:
                self.refuse(error)
                refused(error)
            else:
                if found is not None:
                    return found

    async def _look(self) -> Loaded | None:
        """Return a new configuration; None without a change; InputError for an invalid one."""
        try:
            text = await asyncio.to_thread(self._text)
        except InputError as error:
            # Reported once, like any other content; an editor may be in the middle of a rename.
            text, fault = "", error
            if self._seen == text:
                return None
            self._seen = text
            raise fault from None
        if text == self._seen:
            return None
        self._seen = text
        loaded = self._load(text)
        if self._used is not None and _says(loaded) == _says(self._used):
            self.error = ""
            self._meters.config_last_reload_successful.set(1)
            return None
        return loaded

    def _text(self) -> str:
        try:
            with self._path.open("rb") as file:
                data = file.read(LARGEST_BYTES + 1)
            if len(data) > LARGEST_BYTES:
                raise InputError(f"more than {LARGEST_BYTES} bytes", where=str(self._path))
            return data.decode()
        except OSError as error:
            text = f"cannot be read: {error.strerror}"
            raise InputError(text, where=str(self._path)) from error
        except UnicodeDecodeError as error:
            raise InputError("not UTF-8 text", where=str(self._path)) from error


def _says(loaded: Loaded) -> tuple[object, ...]:
    """Return the content of a configuration, without positions in the file."""
    return loaded.profiles, loaded.scheduler, loaded.trellis
