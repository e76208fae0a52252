"""The debug endpoints: configuration, state, queues, decisions and tasks.

Routes for `app.py`. Each calls one function of `EndpointSources` and writes its record as JSON, the
small overviews also as text; no handler computes. Lists are bounded by `?limit=`.
"""

import asyncio
from collections.abc import Iterator
from typing import Any

from aiohttp import web

from scheduler.base.clock import rfc3339
from scheduler.serve.answers import json_page, masked, status_page, text_page
from scheduler.serve.sources import EndpointSources

DEFAULT_LIMIT = 500
LARGEST_LIMIT = 10_000
LARGEST_VERBOSITY = 10
TASKS_SHOWN = 1000
FRAMES_SHOWN = 16
# kube-scheduler: thirty seconds without a parameter.
PROFILE_S = 30
LONGEST_PROFILE_S = 300

_WARNING = "For people, for debugging: the form of this page may change at any time."


def routes(sources: EndpointSources) -> list[web.RouteDef]:
    """Return the routes of the debug pages."""
    pages = Pages(sources)
    return [
        web.get("/configz", pages.configz),
        web.get("/statusz", pages.statusz),
        web.get("/flagz", pages.flagz),
        web.get("/debug/state", pages.state),
        web.get("/debug/queues", pages.queues),
        web.get("/debug/decisions", pages.attempts),
        web.get("/debug/decisions/{namespace}/{name}", pages.decision),
        web.get("/debug/history/{namespace}/{name}", pages.history),
        web.get("/debug/pprof/profile", pages.profile),
        web.get("/debug/stacks", pages.stacks),
        web.put("/debug/flags/v", pages.verbosity),
    ]


class Pages:
    """The handlers; each formats the answer of one source."""

    def __init__(self, sources: EndpointSources) -> None:
        self._sources = sources
        self._is_profiling = False

    async def configz(self, _request: web.Request) -> web.Response:
        """Show the effective configuration; kube-scheduler's is under `componentconfig`."""
        return json_page(masked(self._sources.configz()))

    async def statusz(self, request: web.Request) -> web.Response:
        """Show the version and the start time of this process."""
        about = self._sources.about
        up_s = max(0, int(self._sources.clock.now() - about.started))
        if _wants_json(request):
            return json_page({**about._asdict(), "upSeconds": up_s})
        text = (
            f"\n{about.name} statusz\n{_WARNING}\n\n"
            f"Started: {rfc3339(about.started)}\n"
            f"Up: {up_s // 3600} hr {up_s // 60 % 60:02} min {up_s % 60:02} sec\n"
            f"Python version: {about.python_version}\n"
            f"Binary version: {about.version}\n"
        )
        return text_page(text)

    async def flagz(self, request: web.Request) -> web.Response:
        """Show the command line's flags with their values."""
        flags = masked(dict(self._sources.flags()))
        if _wants_json(request):
            return json_page(flags)
        lines = "".join(f"{name}={value}\n" for name, value in sorted(flags.items()))
        return text_page(f"\n{self._sources.about.name} flagz\n{_WARNING}\n\n{lines}")

    async def state(self, request: web.Request) -> web.Response:
        """Show the cluster as it is in memory."""
        limit = _limit(request)
        return _bad_limit() if limit is None else json_page(self._sources.state(limit))

    async def queues(self, request: web.Request) -> web.Response:
        """Show the state of each pending pod, and its reason."""
        limit = _limit(request)
        return _bad_limit() if limit is None else json_page(self._sources.queues(limit))

    async def decision(self, request: web.Request) -> web.Response:
        """Show the last decision about a pod, with its nodes while they are kept."""
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        limit = _limit(request)
        if limit is None:
            return _bad_limit()
        record = self._sources.decision(namespace, name, limit)
        if record is None:
            message = f'no decision about pod "{namespace}/{name}" is kept'
            return status_page(404, "NotFound", message)
        return json_page(record)

    async def attempts(self, request: web.Request) -> web.Response:
        """Show the last attempts at any pods, oldest first."""
        limit = _limit(request)
        return _bad_limit() if limit is None else json_page(self._sources.attempts(limit))

    async def history(self, request: web.Request) -> web.Response:
        """Show the attempts at a pod that are kept, oldest first."""
        found = request.match_info
        return json_page(self._sources.history(found["namespace"], found["name"]))

    async def profile(self, request: web.Request) -> web.Response:
        """Sample where the process spends its time, for `?seconds=`; the answer is for pprof."""
        take = self._sources.profile
        if take is None:
            return status_page(404, "NotFound", "enableProfiling is false in the configuration")
        text = request.query.get("seconds", str(PROFILE_S)).encode(errors="replace")
        seconds = int(text) if text.isdigit() and len(text) <= 3 else 0
        if not 1 <= seconds <= LONGEST_PROFILE_S:
            message = f"seconds must be a number from 1 to {LONGEST_PROFILE_S}"
            return status_page(400, "BadRequest", message)
        if self._is_profiling:
            return status_page(429, "TooManyRequests", "a profile is being taken already")
        self._is_profiling = True
        try:
            body = await take(seconds)
        finally:
            self._is_profiling = False
        headers = {"Content-Disposition": 'attachment; filename="profile"'}
        return web.Response(body=body, content_type="application/octet-stream", headers=headers)

    async def stacks(self, _request: web.Request) -> web.Response:
        """Show where every task of the loop waits."""
        tasks = sorted(asyncio.all_tasks(), key=lambda task: task.get_name())
        lines = [f"{len(tasks)} tasks"]
        for task in tasks[:TASKS_SHOWN]:
            lines += ["", task.get_name(), *_frames(task)]
        return text_page("\n".join(lines) + "\n")

    async def verbosity(self, request: web.Request) -> web.Response:
        """Set how much is logged; the body is the number."""
        body = (await request.read()).strip()
        number = int(body) if body.isdigit() and len(body) <= 3 else None
        if number is None or number > LARGEST_VERBOSITY:
            text = (
                f"failed set klog.logging.verbosity: want a number from 0 to {LARGEST_VERBOSITY}\n"
            )
            return text_page(text, 400)
        self._sources.set_verbosity(number)
        return text_page(f"successfully set klog.logging.verbosity to {number}\n")


def _frames(task: asyncio.Task[Any]) -> Iterator[str]:
    """Yield the frames where a task waits, outermost first: asyncio itself shows only one."""
    waiting: object = task.get_coro()
    for _ in range(FRAMES_SHOWN):
        kind = next((k for k in ("cr", "gi", "ag") if hasattr(waiting, f"{k}_frame")), None)
        frame = getattr(waiting, f"{kind}_frame", None)
        if frame is None:
            return
        yield f"  {frame.f_globals.get('__name__')}:{frame.f_lineno} {frame.f_code.co_qualname}"
        inner = "gi_yieldfrom" if kind == "gi" else f"{kind}_await"
        waiting = getattr(waiting, inner, None)


def _wants_json(request: web.Request) -> bool:
    return "application/json" in request.headers.get("Accept", "")


def _limit(request: web.Request) -> int | None:
    text = request.query.get("limit", str(DEFAULT_LIMIT)).encode(errors="replace")
    number = int(text) if text.isdigit() and len(text) <= 6 else 0  # as bytes: ASCII digits only
    return number if 1 <= number <= LARGEST_LIMIT else None


def _bad_limit() -> web.Response:
    return status_page(400, "BadRequest", f"limit must be a number from 1 to {LARGEST_LIMIT}")
