"""`trellis snapshot`: a live cluster as one List, for `simulate`, `explain` and `kubectl apply`.

Secrets are never read, and fields of pods that scheduling does not read (environment, commands) are
left out.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from scheduler.base.errors import InputError
from scheduler.cli.commands import SnapshotFlags
from scheduler.cli.flags import Output
from scheduler.cli.inputs.clusterflags import cluster_options
from scheduler.cli.inputs.cmdio import be_quick, print_stderr
from scheduler.cli.inputs.files import manifest_files, read_bytes, shown
from scheduler.cli.inputs.live import look
from scheduler.objects.kinds import DERIVABLE, Kind
from scheduler.snapshot.anonymous.anonymize import Anonymizer
from scheduler.snapshot.decoding import READ, kind_of
from scheduler.snapshot.documents import (
    RELEASE_ANNOTATION,
    WORKLOADS_ANNOTATION,
    Item,
    SourceFile,
    items_of,
)
from scheduler.snapshot.export import exported, exported_workload
from scheduler.snapshot.yamltext import MAX_BYTES

Object = dict[str, Any]


def snapshot(flags: SnapshotFlags) -> None:
    """Write a live cluster as one List that simulate, explain and kubectl apply read."""
    if flags.output not in (Output.JSON, Output.YAML):
        raise InputError("a snapshot is written as json or yaml", where="--output")
    be_quick()
    found = _Export(is_live=not flags.source)
    if flags.source:
        for name in manifest_files(flags.source):
            found.take(SourceFile(shown(name), read_bytes(name)))
    else:
        access = cluster_options(flags.cluster)
        seen = look(access, (*READ, *DERIVABLE), found.take, if_served=DERIVABLE)
        found.version = seen.version
        print_stderr(f"notice: {notice}" for notice in seen.notices)
    if flags.anonymize:
        found.anonymize()
    annotations = {RELEASE_ANNOTATION: found.version} if found.version else {}
    if found.workloads:
        annotations[WORKLOADS_ANNOTATION] = msgspec.json.encode(found.workloads).decode()
    _write(found.objects, flags.output, annotations)


class _Export:
    """The content of a snapshot: its objects, the workloads listed in its annotation, and the API
    server's version.
    """

    def __init__(self, *, is_live: bool) -> None:
        self._is_live = is_live
        self.objects: list[Object] = []
        self.workloads: list[Object] = []
        self.version = ""

    def take(self, page: SourceFile) -> None:
        """Add the objects of a page of the API server, or of a file."""
        for item in items_of(page):
            self.version = self.version or item.release
            kind = kind_of(item)
            if kind is not None:
                self._add(kind, item)

    def _add(self, kind: Kind, item: Item) -> None:
        raw = msgspec.json.decode(item.raw) if isinstance(item.raw, bytes) else item.raw
        is_owner = kind in DERIVABLE and (self._is_live or item.is_live)
        try:
            if is_owner:
                self.workloads.append(exported_workload(kind, raw))
            else:
                obj = exported(kind.kind, kind.api_version, raw)
                _ = obj["metadata"]["name"]
                self.objects.append(obj)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            text = f"not a readable {kind.kind}: {error!r}"
            raise InputError(text, where=item.where) from error

    def anonymize(self) -> None:
        """Replace names by aliases; ConfigMaps of groups are left out."""
        hidden = [obj for obj in self.objects if obj["kind"] != "ConfigMap"]
        if len(hidden) < len(self.objects):
            count = len(self.objects) - len(hidden)
            left_out = f"{count} ConfigMaps of groups and trees, whose text contains names"
            print_stderr([f"notice: left out: {left_out}"])
        hiding = Anonymizer()
        hiding.learn(hidden)
        self.objects = [hiding.renamed(obj) for obj in hidden]
        self.workloads = [hiding.renamed(obj) for obj in self.workloads]


def _write(objects: Iterable[Object], output: Output, annotations: Mapping[str, str]) -> None:
    """Write JSON object by object, so that a large cluster's text need not be in memory."""
    out = sys.stdout
    if output is Output.JSON:
        meta = {"annotations": annotations}
        stated = f'"metadata": {json.dumps(meta)}, ' if annotations else ""
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
    if annotations:
        out.write("metadata:\n  annotations:\n")
        out.writelines(f"    {name}: {json.dumps(text)}\n" for name, text in annotations.items())
    out.write("items:" + ("\n" if texts else " []\n"))
    out.writelines(texts)
