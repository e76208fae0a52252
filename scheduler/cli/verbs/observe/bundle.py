"""`trellis support-bundle`: what a running daemon reports about itself, as one archive to attach to
an issue.

Versions, configuration, metrics, the state of nodes and queues, the last decisions, stacks and a
profile, from the debug endpoints: the API server authorizes the caller, and possible secrets are
masked. Exit codes: 0 complete, 1 a part could not be read (the archive names it).
"""

import io
import platform
import re
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from scheduler.about import VERSION
from scheduler.base.clock import RealClock
from scheduler.base.errors import ApiError, InputError
from scheduler.cli.commands import BundleFlags
from scheduler.cli.inputs.clusterflags import cluster_options
from scheduler.cli.inputs.cmdio import print_stderr
from scheduler.cli.inputs.past import fetch
from scheduler.cli.output.hashing import NameTable
from scheduler.kube.api import Response

MOST = 10_000
MASK = "***"
# Values that are credentials, by their names in a configuration; the daemon masks the others.
_KEYS = frozenset(("keyData",))
_IN_URL = re.compile(r"(?<=://)[^/@\s\"]+@")


class BundlePart(NamedTuple):
    """A file of the archive, and the daemon's path that returns it."""

    file: str
    path: str


PARTS = (
    BundlePart("status.txt", "/statusz"),
    BundlePart("flags.txt", "/flagz"),
    BundlePart("configuration.json", "/configz"),
    BundlePart("health.txt", "/readyz?verbose"),
    BundlePart("metrics.txt", "/metrics"),
    BundlePart("nodes.json", f"/debug/state?limit={MOST}"),
    BundlePart("queues.json", f"/debug/queues?limit={MOST}"),
    BundlePart("decisions.json", f"/debug/decisions?limit={MOST}"),
    BundlePart("stacks.txt", "/debug/stacks"),
)


def support_bundle(flags: BundleFlags) -> int:
    """Write the archive."""
    parts = list(PARTS)
    if flags.seconds:
        parts.append(BundlePart("profile.pb.gz", f"/debug/pprof/profile?seconds={flags.seconds}"))
    paths = [part.path for part in parts]
    answers = fetch(flags.where, cluster_options(flags.cluster), paths, flags.seconds)
    if not any(answer.ok for _, answer in answers):
        url, answer = answers[0]
        text = f"the daemon at {url} says: {answer.message or answer.reason or 'nothing'}"
        raise ApiError(text, code=answer.code, reason=answer.reason)
    responses = {
        part.file: answer for part, (_, answer) in zip(parts, answers, strict=True) if answer.ok
    }
    missing = [
        f"{part.file}: {_why(answer)}"
        for part, (_, answer) in zip(parts, answers, strict=True)
        if not answer.ok
    ]
    contents = dict(_contents(responses, hash_names=flags.hash_names))
    contents["bundle.json"] = msgspec.json.encode(_about(missing, hash_names=flags.hash_names))
    _write(flags.file, contents)
    print_stderr(
        [f"{flags.file}: {len(contents)} files", *(f"left out: {line}" for line in missing)]
    )
    return 1 if missing else 0


def _why(answer: Response) -> str:
    return f"{answer.code} {answer.message or answer.reason}".strip()


def _about(missing: list[str], *, hash_names: bool) -> dict[str, Any]:
    return {
        "trellis": VERSION,
        "python": platform.python_version(),
        "machine": f"{platform.system().lower()}/{platform.machine()}",
        "hashedNames": hash_names,
        "leftOut": missing,
    }


def _contents(
    responses: Mapping[str, Response], *, hash_names: bool
) -> Iterator[tuple[str, bytes]]:
    documents = {
        name: _masked(msgspec.json.decode(answer.body))
        for name, answer in responses.items()
        if name.endswith(".json")
    }
    hashing = NameTable(documents) if hash_names else None
    for name, answer in responses.items():
        if name in documents:
            found = documents[name] if hashing is None else hashing.document(documents[name])
            yield name, msgspec.json.format(msgspec.json.encode(found))
        elif name.endswith(".txt"):
            text = _IN_URL.sub(f"{MASK}@", answer.body.decode(errors="replace"))
            yield name, (text if hashing is None else hashing.text(text)).encode()
        else:
            yield name, answer.body


def _masked(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: MASK if key in _KEYS and one else _masked(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_masked(one) for one in value]
    return _IN_URL.sub(f"{MASK}@", value) if isinstance(value, str) else value


def _write(file: str, contents: Mapping[str, bytes]) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, body in sorted(contents.items()):
            entry = tarfile.TarInfo(f"trellis-support/{name}")
            entry.size, entry.mtime = len(body), int(RealClock().now())
            archive.addfile(entry, io.BytesIO(body))
    try:
        with Path(file).open("xb") as out:
            out.write(packed.getvalue())
    except FileExistsError:
        raise InputError("is there already; name another by -f", where=file) from None
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", where=file) from error
