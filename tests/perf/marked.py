"""The daemon with the time recorded at which each user's pod passes each stage.

    python -m tests.perf.marked FILE PASSED_OVER run --config=…

Runs the command line with marks around a few methods, and writes FILE when it ends. For each pod
outside the namespace PASSED_OVER it has the times of the machine's monotonic clock, which all
processes share, in the order of a pod's path: `decoded` (by the watch), `taken` (by the engine),
`popped`, `sent` (its bind was submitted). Also what blocked the loop for longer than `LONG_S`:
when, what, and for how long.
"""

import gc
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any

import msgspec

from scheduler.daemon.inbox import Inbox
from scheduler.daemon.loop import Loop
from scheduler.engine.effects import Bind, Watched
from scheduler.engine.engine import Engine
from scheduler.engine.queue.queues import Queues
from scheduler.kube.watching.watch import Reflector
from scheduler.kube.writing.effects import Executor
from scheduler.objects.pod import Pod

STAGES = ("decoded", "taken", "popped", "sent")
LONG_S = 0.03
Times = dict[tuple[str, str], dict[str, float]]


class Marks:
    """The first time of each stage, by namespace and name of a pod."""

    def __init__(self, passed_over: str) -> None:
        self._passed_over = passed_over
        self.times: Times = {}
        self.long: list[tuple[float, str, float]] = []

    def mark(self, stage: str, namespace: str, name: str) -> None:
        """Record that a pod has reached a stage, unless recorded before."""
        if namespace != self._passed_over:
            self.times.setdefault((namespace, name), {}).setdefault(stage, monotonic())

    def record_if_long(self, what: str, since: float) -> None:
        """Record a finished step that began at `since`, if it was long."""
        if (took_s := monotonic() - since) > LONG_S:
            self.long.append((since, what, took_s))

    def write(self, path: Path) -> None:
        """Write the records."""
        pods = [(*key, stages) for key, stages in self.times.items()]
        path.write_bytes(msgspec.json.encode({"pods": pods, "long": self.long}))


def watch(marks: Marks) -> None:
    """Wrap the methods that pods pass through."""

    def before(of: type, name: str, reported: Callable[..., None]) -> None:
        inner = getattr(of, name)

        def outer(self: Any, *args: Any, **kwargs: Any) -> Any:
            reported(*args)
            return inner(self, *args, **kwargs)

        setattr(of, name, outer)

    def decoded(event: Any) -> None:
        if isinstance(event, Watched) and isinstance(event.object, Pod):
            marks.mark("decoded", event.object.metadata.namespace, event.object.metadata.name)

    def taken(pod: Pod, _now: float) -> None:
        marks.mark("taken", pod.metadata.namespace, pod.metadata.name)

    def sent(effects: Any) -> None:
        for effect in effects:
            if isinstance(effect, Bind):
                marks.mark("sent", effect.namespace, effect.name)

    before(Inbox, "put", decoded)
    before(Queues, "add", taken)
    before(Executor, "submit", sent)
    pop = Queues.pop

    def popped(self: Queues, *args: Any) -> Any:
        queued = pop(self, *args)
        if queued is not None:
            marks.mark("popped", queued.pod.metadata.namespace, queued.pod.metadata.name)
        return queued

    Queues.pop = popped  # type: ignore[assignment,method-assign]

    def around(of: type, name: str) -> None:
        inner = getattr(of, name)

        def outer(self: Any, *args: Any, **kwargs: Any) -> Any:
            since = monotonic()
            try:
                return inner(self, *args, **kwargs)
            finally:
                marks.record_if_long(f"{of.__name__}.{name}", since)

        setattr(of, name, outer)

    around(Loop, "turn")
    around(Loop, "_take_in")
    around(Engine, "run")
    around(Executor, "submit")
    around(Reflector, "_take")
    began = 0.0

    def collected(phase: str, info: dict[str, int]) -> None:
        nonlocal began
        if phase == "start":
            began = monotonic()
        else:
            marks.record_if_long(f"gc {info['generation']}", began)

    gc.callbacks.append(collected)


def read(path: Path) -> tuple[Times, list[tuple[float, str, float]]]:
    """Read the file of a marked daemon: the times of pods, and long steps."""
    found = msgspec.json.decode(path.read_bytes())
    times = {(namespace, name): stages for namespace, name, stages in found["pods"]}
    return times, [tuple(one) for one in found["long"]]


def main() -> None:
    """Run the command line, and write the marks at its end."""
    from scheduler.cli.main import main as run

    path, passed_over = sys.argv[1:3]
    sys.argv = [sys.argv[0], *sys.argv[3:]]
    marks = Marks(passed_over)
    watch(marks)
    try:
        run()
    finally:
        marks.write(Path(path))


if __name__ == "__main__":
    main()
