# ruff: noqa: INP001, S603, T201 - a script that calls the build tools
"""Build wheel and sdist so that the same commit gives the same bytes: python .ci/dist.py FOLDER.

Every file in both has the time SOURCE_DATE_EPOCH, or that of the commit. The wheel's build does so
itself; an sdist also records its builder and build time, so it is packed again.
"""

import gzip
import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).parents[1]


def epoch() -> int:
    """Return the time that all files get."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given:
        return int(given)
    words = ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]
    return int(subprocess.run(words, check=True, capture_output=True, text=True).stdout)


def packed_anew(archive: Path, when: int) -> None:
    """Write a .tar.gz again: files sorted, without owner names, all with one time."""
    plain = io.BytesIO()
    with (
        tarfile.open(archive) as old,
        tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for entry in sorted(old.getmembers(), key=lambda one: one.name):
            entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname = when, 0, 0, "", ""
            entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
            entry.pax_headers = {}
            new.addfile(entry, old.extractfile(entry) if entry.isfile() else None)
    with archive.open("wb") as file:
        file.write(gzip.compress(plain.getvalue(), mtime=when))


def main(folder: str) -> None:
    """Build both into the folder."""
    when = epoch()
    words = [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, str(ROOT)]
    environment = os.environ | {"SOURCE_DATE_EPOCH": str(when)}
    subprocess.run(words, check=True, env=environment, stdout=subprocess.DEVNULL)
    for archive in Path(folder).glob("*.tar.gz"):
        packed_anew(archive, when)
    print(*sorted(file.name for file in Path(folder).iterdir()), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1])
