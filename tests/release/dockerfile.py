"""Follow a Dockerfile in a folder, without a container engine: an empty root per stage, same paths.

Supports just the instructions of our Dockerfile and raises for any other. A stage is built at one
path, so that absolute paths stay valid, and moved away when it is complete. The machine's own
Python replaces the base image, so a stage contains only what its steps added.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

# Folders that a stage has for itself; all else that a command names is the machine's.
_OURS = re.compile(r"(?<![\w./-])/(opt|src)\b")


class Instruction(NamedTuple):
    """One instruction: its keyword and the rest, with continued lines joined."""

    word: str
    rest: str


class Image(NamedTuple):
    """The result of the last stage."""

    root: Path
    env: dict[str, str]
    labels: dict[str, str]
    user: str
    entrypoint: list[str]
    command: list[str]
    healthcheck: list[str]


def instructions(text: str) -> Iterator[Instruction]:
    """Yield a Dockerfile's instructions."""
    lines = [
        line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")
    ]
    for line in re.sub(r"\\\n", " ", "\n".join(lines)).splitlines():
        word, _, rest = line.strip().partition(" ")
        yield Instruction(word.upper(), rest.strip())


class Rehearsal:
    """One build: `context` is the source of copies, `place` an empty folder that every user may
    read.
    """

    def __init__(self, context: Path, place: Path, python: Path, args: dict[str, str]) -> None:
        self._context = context
        self._place = place
        self._root = place / "root"
        self._given = args
        self._args: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._base: dict[str, tuple[str, dict[str, str]]] = {}
        self._stage = ""
        self._ignored = [
            line for line in (context / ".dockerignore").read_text().splitlines() if line[:1] != "#"
        ]
        programs = place / "programs"
        programs.mkdir()
        (programs / "python").symlink_to(python)
        self._path = f"{programs}:/usr/bin:/bin"
        self._env: dict[str, str] = {}
        self._cwd = "/"
        self._labels: dict[str, str] = {}
        self._user = ""
        self._forms: dict[str, list[str]] = {"ENTRYPOINT": [], "CMD": [], "HEALTHCHECK": []}

    def build(self, text: str) -> Image:
        """Follow all instructions; the files of the last stage stay at `place / "root"`."""
        for word, rest in instructions(text):
            getattr(self, f"_do_{word.lower()}")(rest)
        return Image(
            self._root,
            self._env,
            self._labels,
            self._user,
            self._forms["ENTRYPOINT"],
            self._forms["CMD"],
            self._forms["HEALTHCHECK"],
        )

    def _do_arg(self, rest: str) -> None:
        name, _, default = rest.partition("=")
        self._args[name] = self._given.get(name, default or self._args.get(name, ""))

    def _do_from(self, rest: str) -> None:
        base, _, name = self._filled(rest).partition(" AS ")
        if self._root.exists():
            self._root.rename(self._place / f"stage-{self._stage}")
            self._base[self._stage] = (self._cwd, self._env)
        self._stage = name or "last"
        if base in self._base:
            shutil.copytree(self._place / f"stage-{base}", self._root, symlinks=True)
            self._cwd, env = self._base[base]
            self._env = dict(env)
        else:
            self._root.mkdir()
            self._cwd, self._env = "/", {}

    def _do_env(self, rest: str) -> None:
        for pair in shlex.split(rest):
            name, _, value = pair.partition("=")
            self._env[name] = value.replace("$PATH", self._path)

    def _do_label(self, rest: str) -> None:
        for pair in shlex.split(rest):
            name, _, value = pair.partition("=")
            self._labels[name] = self._filled(value)

    def _do_workdir(self, rest: str) -> None:
        self._cwd = rest
        self._at(rest).mkdir(parents=True, exist_ok=True)

    def _do_copy(self, rest: str) -> None:
        words = rest.split()
        stage = words.pop(0).partition("=")[2] if words[0].startswith("--from=") else ""
        for source in words[:-1]:
            joined = os.path.join(self._cwd, words[-1])  # noqa: PTH118 - as the builder joins
            target = self._at(joined)
            if stage:
                found = self._place / f"stage-{stage}" / source.lstrip("/")
            else:
                found = self._context / source
                assert self._is_sent(source), f"{source} is in .dockerignore"
                if words[-1].endswith("/"):
                    target /= found.name
            target.parent.mkdir(parents=True, exist_ok=True)
            if found.is_dir():
                unwanted = shutil.ignore_patterns("__pycache__", "*.egg-info")
                shutil.copytree(
                    found, target, symlinks=bool(stage), ignore=None if stage else unwanted
                )
            else:
                shutil.copy(found, target)

    def _do_run(self, rest: str) -> None:
        done = subprocess.run(
            ["sh", "-ec", self._mapped(rest)],
            cwd=self._at(self._cwd),
            env=self._environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"RUN {rest}\n{done.stdout}"

    def _do_user(self, rest: str) -> None:
        self._user = rest

    def _do_expose(self, rest: str) -> None:
        assert rest.isdigit()

    def _do_healthcheck(self, rest: str) -> None:
        self._forms["HEALTHCHECK"] = json.loads(rest[rest.index("CMD ") + 4 :])

    def _do_entrypoint(self, rest: str) -> None:
        self._forms["ENTRYPOINT"] = json.loads(rest)

    def _do_cmd(self, rest: str) -> None:
        self._forms["CMD"] = json.loads(rest)

    def _is_sent(self, source: str) -> bool:
        """Return whether a path of the context is sent to the builder.

        The last matching rule decides.
        """
        name, sent = source.removeprefix("./"), True
        for rule in self._ignored:
            if rule and fnmatch(name, rule.lstrip("!")):
                sent = rule.startswith("!")
        return sent

    def _at(self, path: str) -> Path:
        return self._root / os.path.normpath(path).lstrip("/")

    def _mapped(self, command: str) -> str:
        return _OURS.sub(lambda found: f"{self._root}/{found[1]}", command)

    def _environment(self) -> dict[str, str]:
        """Return the environment of a RUN: only the package index is passed on."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if name.startswith(("PIP_", "UV_")) or name.lower().endswith("_proxy")
        }
        return kept | {"PATH": self._path, "HOME": str(self._place)} | self._env

    def _filled(self, text: str) -> str:
        """Put build arguments in: ${NAME} and ${NAME:+text}."""

        def more(found: re.Match[str]) -> str:
            return self._filled(found[2]) if self._args.get(found[1]) else ""

        text = re.sub(r"\$\{(\w+):\+((?:[^{}]|\{\w*\})*)\}", more, text)
        return re.sub(r"\$\{(\w+)\}", lambda found: self._args.get(found[1], ""), text)
