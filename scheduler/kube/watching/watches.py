"""All reflectors of a process, with a common start and end.

The daemon creates one `Watches`, runs it as one task and reads from it the kinds that are not
listed yet. An internal error in one reflector, unlike any response of the server, ends all of them;
`run` raises it.
"""

import asyncio
from collections.abc import Callable, Iterable
from random import Random

from scheduler.base.meters import Meters
from scheduler.engine.effects import Event
from scheduler.kube.api import Api
from scheduler.kube.watching.collection import discovered
from scheduler.kube.watching.rawobjects import RawObjects, noting
from scheduler.kube.watching.watch import Reflector, WatchSettings
from scheduler.objects.kinds import Kind

# Kinds whose API group arrives with their definition must be found soon.
LOOK_S = 5.0
# API discovery may list a group before all of its kinds are served.
TRIES = 3


class Watches:
    """One reflector for each of `kinds`; `raw_objects` keeps whole objects."""

    def __init__(
        self,
        kinds: Iterable[Kind],
        api: Api,
        emit: Callable[[Event], None],
        *,
        random: Random,
        meters: Meters,
        settings: WatchSettings | None = None,
        raw_objects: RawObjects | None = None,
    ) -> None:
        if raw_objects is not None:
            emit = noting(raw_objects, emit)
        self._reflectors = tuple(
            Reflector(
                kind,
                api,
                emit,
                random=random,
                meters=meters,
                settings=settings,
                keep=None if raw_objects is None else raw_objects.keeper(kind.kind),
                others_listed=self.required_listed,
            )
            for kind in kinds
        )

        self._api = api
        self._random = random
        self._group: asyncio.TaskGroup | None = None
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """List and watch all kinds until cancelled."""
        async with asyncio.TaskGroup() as self._group:
            for reflector in self._reflectors:
                self._start(self._group, reflector)
            self._group.create_task(self._look_for_kinds(), name="look for kinds")

    async def _look_for_kinds(self) -> None:
        """While kinds are missing, poll the server's list of API groups for new ones.

        A new kind of an existing group is found when its reflector retries.
        """
        known: frozenset[str] | None = None
        tries = 0
        while True:
            await asyncio.sleep(LOOK_S * (0.9 + self._random.random() / 5))
            if not any(reflector.is_missing for reflector in self._reflectors):
                continue
            found = await discovered(self._api, "/apis")
            if found is None or found.code == 404:
                continue
            if known is not None and found.names - known:
                tries = TRIES
            known = found.names
            if tries:
                tries -= 1
                self.look_again()

    def catch_up(self) -> None:
        """Block decisions until the engine has the server's current state.

        Called when this process begins to lead: the previous leader has written until its end, and
        a watch may be late, silent, or have been stopped with the whole process.
        """
        group = self._group
        if group is None:
            return  # nothing has been listed yet
        for reflector in self._reflectors:
            reflector.doubt()
            group.create_task(self._renew(group, reflector))

    def denied(self) -> list[str]:
        """Return the resources that this process may not list, as kubectl names them."""
        found = (each.kind.resource for each in self._reflectors if each.is_denied)
        return sorted(set(found))

    async def required_listed(self) -> None:
        """Wait until every required kind has been listed."""
        for reflector in self._reflectors:
            if reflector.kind.required:
                await reflector.was_listed.wait()

    async def _renew(self, group: asyncio.TaskGroup, reflector: Reflector) -> None:
        if not await reflector.catch_up():
            task = self._tasks[reflector.kind.kind]
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            self._start(group, reflector)

    def _start(self, group: asyncio.TaskGroup, reflector: Reflector) -> None:
        name = reflector.kind.kind
        self._tasks[name] = group.create_task(reflector.run(), name=f"watch {name}")

    def unsynced(self) -> list[str]:
        """Return the kinds whose list the engine has not received yet."""
        return [r.kind.kind for r in self._reflectors if not r.is_synced]

    def look_again(self) -> None:
        """Retry the kinds at once that the server did not serve, for example after a new CRD."""
        for reflector in self._reflectors:
            reflector.look_again()
