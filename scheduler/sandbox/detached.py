"""The sandboxes that run on this machine: a state file per name, locked while its process lives.

`trellis sandbox up` holds a `Lease` while it runs; `status` and `down` read the files. The lock,
not the process id, shows whether a sandbox is alive: a recycled id must never be killed.
"""

import fcntl
import os
import tempfile
from pathlib import Path
from typing import Self

import msgspec
import yaml

from scheduler.base.errors import InputError, TrellisError

_CLUSTER = "trellis-sandbox"


class State(msgspec.Struct, frozen=True, rename="camel"):
    """A running sandbox."""

    name: str
    pid: int
    url: str
    kubeconfig: str
    nodes: int
    started: str


def folder() -> Path:
    """Return the folder of state files and default kubeconfigs: private to the user."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and os.access(runtime, os.W_OK):
        path = Path(runtime, "trellis")
    else:
        path = Path(tempfile.gettempdir(), f"trellis-{os.getuid()}")
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.stat().st_uid != os.getuid():
        raise TrellisError(f"{path} is owned by another user: set XDG_RUNTIME_DIR")
    return path


def kubeconfig_of(name: str) -> Path:
    """Return the default kubeconfig of a sandbox."""
    return folder() / f"{name}.kubeconfig"


def check_kubeconfig(path: Path) -> None:
    """Refuse to overwrite a kubeconfig that no sandbox wrote."""
    if not path.exists():
        return
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8")) if path.is_file() else None
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        found = None
    clusters = found.get("clusters") or () if isinstance(found, dict) else ()
    if [entry.get("name") for entry in clusters] != [_CLUSTER]:
        raise InputError(
            "is there and was not written by a sandbox: name another file", where=str(path)
        )


def check_name(name: str) -> None:
    """Reject a name that no file could have."""
    if not name or not all(letter.isalnum() or letter in "-_." for letter in name):
        raise InputError(
            f'"{name}" is no name for a sandbox: letters, digits, - _ . only', where="--name"
        )


class Lease:
    """The lock of one process on a sandbox name.

    `async with` is not needed, it only uses a file.
    """

    def __init__(self, name: str) -> None:
        check_name(name)
        self._name = name
        self._path = folder() / f"{name}.state"
        self._file = -1

    def __enter__(self) -> Self:
        """Take the name; an error when another sandbox has it."""
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if not _lock(self._file):
            os.close(self._file)
            raise TrellisError(
                f'a sandbox "{self._name}" runs already: '
                f"`trellis sandbox down --name {self._name}` stops it, "
                "another --name starts one beside it"
            )
        os.ftruncate(self._file, 0)
        return self

    def write_state(self, state: State) -> None:
        """Write the address of the sandbox; `status` shows it from now on."""
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, msgspec.json.encode(state), 0)

    def __exit__(self, *_: object) -> None:
        """Release the name."""
        self._path.unlink(missing_ok=True)
        os.close(self._file)


def running() -> list[State]:
    """Return the running sandboxes, by name; files of a crashed one are removed."""
    found = []
    for path in sorted(folder().glob("*.state")):
        state = _read(path)
        if state is not None:
            found.append(state)
    return found


def find(name: str) -> State | None:
    """Return the running sandbox of this name, None when there is none."""
    return next((state for state in running() if state.name == name), None)


def _read(path: Path) -> State | None:
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if _lock(file):
            path.unlink(missing_ok=True)
            return None
        return msgspec.json.decode(os.pread(file, 65_536, 0), type=State)
    except msgspec.DecodeError:
        return None  # it is starting and has no address yet
    finally:
        os.close(file)


def _lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
