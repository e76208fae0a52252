"""Programs that a test starts and always ends: free ports, logs, waiting until one is ready.

Used by tests.apiserver.realcluster and by tests that need one more program. A program ends with the
test process even if that is killed, if the system has `setpriv`.
"""

import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import SystemRandom
from time import monotonic

POLL_S = 0.05
STOP_S = 20.0
# The range that Linux gives to outgoing connections: its first and its last port.
EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")


class ProgramFailedError(AssertionError):
    """A program ended, or did not become ready in time.

    The message ends with its last log lines.
    """


@dataclass(frozen=True)
class Program:
    """A running program and the destination of its output."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    def cpu_seconds(self) -> float:
        """Return the CPU time used so far, user and system (Linux only)."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def wait_ready(self, is_ready: Callable[[], bool], timeout_s: float) -> None:
        """Poll `is_ready`; raise ProgramFailedError if the program ends first or at the time
        limit.
        """
        deadline = monotonic() + timeout_s
        while not is_ready():
            if monotonic() > deadline:
                raise ProgramFailedError(f"{self.name} not ready in {timeout_s} s\n{self.tail()}")
            # Waiting for its end is the pause: a program that dies is noticed at once.
            try:
                code = self.process.wait(POLL_S)
            except subprocess.TimeoutExpired:
                continue
            raise ProgramFailedError(f"{self.name} ended with code {code}\n{self.tail()}")

    def tail(self, lines: int = 30) -> str:
        """Return the last lines of the log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def stop(self) -> None:
        """End it with SIGTERM, after STOP_S with SIGKILL; safe when it has ended already."""
        self.process.terminate()
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@contextmanager
def running(
    name: str, command: Sequence[str | Path], log: Path, env: Mapping[str, str] | None = None
) -> Iterator[Program]:
    """Run a command with its output in `log` until the block ends. Call it in the main thread."""
    # Linux ends the child with the thread that started it, hence the main thread.
    guard = ["setpriv", "--pdeathsig", "KILL", "--"] if shutil.which("setpriv") else []
    with log.open("ab") as output:
        process = subprocess.Popen(
            [*guard, *map(str, command)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **env} if env is not None else None,
        )
    program = Program(name, process, log)
    try:
        yield program
    finally:
        program.stop()


def free_ports(count: int) -> list[int]:
    """Return distinct loopback ports that were free a moment ago.

    None is in the range that the kernel uses for outgoing connections: such a port may become a
    client's end of a connection before the server listens on it.
    """
    lowest, _ = map(int, EPHEMERAL.read_text().split()) if EPHEMERAL.exists() else (32768, 0)
    # The first port is random: two concurrent runs of the tests rarely try the same ones.
    candidates = SystemRandom().sample(range(10_000, max(lowest, 20_000)), 200 + count)
    free = (port for port in candidates if _is_free(port))
    return list(islice(free, count))


def _is_free(port: int) -> bool:
    with socket.socket() as tried:
        try:
            tried.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
