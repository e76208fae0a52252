"""`trellis snapshot`: a live cluster as one List, for `simulate`, `explain` and `kubectl apply`.

Secrets are never read, and fields of pods that scheduling does not read (environment, commands) are
left out.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from scheduler.base.errors import InputError
from scheduler.cli.commands import SnapshotFlags
from scheduler.cli.flags import Output
from scheduler.cli.inputs.asking import be_quick, tell
from scheduler.cli.inputs.clusterflags import cluster_options
from scheduler.cli.inputs.files import manifest_files, read_bytes, shown
from scheduler.cli.inputs.live import look
from scheduler.snapshot.anonymize import Anonymizer
from scheduler.snapshot.decoding import READ, kind_of
from scheduler.snapshot.documents import RELEASE_ANNOTATION, Item, SourceFile, items_of
from scheduler.snapshot.export import exported
from scheduler.snapshot.yamltext import MAX_BYTES

Object = dict[str, Any]


def snapshot(flags: SnapshotFlags) -> None:
    """Write a live cluster as one List that simulate, explain and kubectl apply read."""
    if flags.output not in (Output.JSON, Output.YAML):
        raise InputError("a snapshot is written as json or yaml", where="--output")
    be_quick()
    objects: list[Object] = []
    version = ""

    def take(page: SourceFile) -> None:
        objects.extend(_exported(items_of(page)))

    if flags.source:
        for name in manifest_files(flags.source):
            take(SourceFile(shown(name), read_bytes(name)))
    else:
        seen = look(cluster_options(flags.cluster), READ, take)
        version = seen.version
        tell(f"notice: {notice}" for notice in seen.notices)
    if flags.anonymize:
        hidden = [obj for obj in objects if obj["kind"] != "ConfigMap"]
        if len(hidden) < len(objects):
            count = len(objects) - len(hidden)
            left_out = f"{count} ConfigMaps of groups and trees, whose text contains names"
            tell([f"notice: left out: {left_out}"])
        objects = hidden
        hiding = Anonymizer()
        hiding.learn(objects)
        objects = [hiding.renamed(obj) for obj in objects]
    _write(objects, flags.output, version)


def _exported(items: Iterable[Item]) -> Iterator[Object]:
    for item in items:
        kind = kind_of(item)
        if kind is None:
            continue
        raw = msgspec.json.decode(item.raw) if isinstance(item.raw, bytes) else item.raw
        try:
            obj = exported(kind.kind, kind.api_version, raw)
            _ = obj["metadata"]["name"]
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            text = f"not a readable {kind.kind}: {error!r}"
            raise InputError(text, where=item.where) from error
        yield obj


def _write(objects: Iterable[Object], output: Output, version: str) -> None:
    """Write JSON object by object, so that a large cluster's text need not be in memory."""
    out = sys.stdout
    if output is Output.JSON:
        meta = {"annotations": {RELEASE_ANNOTATION: version}}
        stated = f'"metadata": {json.dumps(meta)}, ' if version else ""
        out.write(f'{{"apiVersion": "v1", "kind": "List", {stated}"items": [')
        for number, obj in enumerate(objects):
            out.write(",\n" if number else "\n")
            out.write(msgspec.json.encode(obj).decode())
        out.write("\n]}\n")
        return
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    texts = [
        yaml.dump([obj], Dumper=dumper, sort_keys=False, default_flow_style=False)
        for obj in objects
    ]
    if (size := sum(map(len, texts))) > MAX_BYTES:
        raise InputError(
            f"{size} bytes of YAML, of which simulate and explain read {MAX_BYTES} at most: "
            "write it as JSON (-o json, the default)",
            where="--output",
        )
    out.write("apiVersion: v1\nkind: List\n")
    if version:
        out.write(f"metadata:\n  annotations:\n    {RELEASE_ANNOTATION}: {json.dumps(version)}\n")
    out.write("items:" + ("\n" if texts else " []\n"))
    out.writelines(texts)
