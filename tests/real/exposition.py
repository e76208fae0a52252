"""Parse the Prometheus text format: a /metrics page as families of samples."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

Labels = tuple[tuple[str, str], ...]
Metrics = Mapping[str, "FamilyText"]

_SAMPLE = re.compile(r"^([A-Za-z_:][\w:]*)(?:\{(.*)\})? (\S+)(?: \d+)?$")
_LABEL = re.compile(r'([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)",?')
_HISTOGRAM_PARTS = ("_bucket", "_sum", "_count")


@dataclass
class FamilyText:
    """One metric: its type and its samples by (suffix, labels)."""

    name: str
    kind: str
    samples: dict[tuple[str, Labels], float] = field(default_factory=dict)

    @property
    def label_names(self) -> frozenset[str]:
        """Return the names of its labels, without `le`."""
        return frozenset(n for _, labels in self.samples for n, _ in labels) - {"le"}

    @property
    def bounds(self) -> tuple[float, ...]:
        """Return the buckets of a histogram, ascending; empty for others."""
        found = {float(dict(labels)["le"]) for s, labels in self.samples if s == "_bucket"}
        return tuple(sorted(found))

    def value(self, suffix: str = "", **labels: str) -> float:
        """Return the sum of the samples that carry these labels."""
        wanted = set(labels.items())
        return sum(
            value
            for (part, found), value in self.samples.items()
            if part == suffix and wanted <= set(found)
        )

    def by(self, *names: str) -> dict[tuple[str, ...], float]:
        """Return plain values, or the counts of a histogram, summed by some of the labels."""
        suffix = "_count" if self.kind == "histogram" else ""
        found: dict[tuple[str, ...], float] = {}
        for (part, labels), value in self.samples.items():
            if part == suffix:
                key = tuple(dict(labels).get(name, "") for name in names)
                found[key] = found.get(key, 0) + value
        return found

    def summed(self) -> tuple[list[tuple[float, float]], float, float]:
        """Return a histogram over all labels: cumulative buckets, the sum, the count."""
        buckets: dict[float, float] = {}
        for (part, labels), value in self.samples.items():
            if part == "_bucket":
                bound = float(dict(labels)["le"])
                buckets[bound] = buckets.get(bound, 0) + value
        return sorted(buckets.items()), self.value("_sum"), self.value("_count")


def parse(text: str) -> dict[str, FamilyText]:
    """Return the metrics of a page by name; raise ValueError for an invalid line."""
    families: dict[str, FamilyText] = {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ", 3)
            families[name] = FamilyText(name, kind)
        elif line and not line.startswith("#"):
            match = _SAMPLE.match(line)
            if match is None:
                raise ValueError(f"no sample: {line!r}")
            name, labels, value = match.groups()
            family, suffix = _family(families, name)
            key = tuple(sorted(_LABEL.findall(labels or "")))
            family.samples[suffix, key] = math.inf if value == "+Inf" else float(value)
    return families


def _family(families: dict[str, FamilyText], name: str) -> tuple[FamilyText, str]:
    for suffix in _HISTOGRAM_PARTS:
        base = name.removesuffix(suffix)
        if base != name and base in families and families[base].kind in ("histogram", "summary"):
            return families[base], suffix
    return families.setdefault(name, FamilyText(name, "untyped")), ""
