"""Write metrics as Prometheus reads them: the text form 0.0.4 or OpenMetrics 1.0.

Called by whoever serves `/metrics`, the daemon or an agent, with rows like those of `table.py`. It writes text
itself because the client library takes many times longer per line, during which nothing is
scheduled. It never changes a value.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import lru_cache

from scheduler.base.meters.values import Histogram, Sample, Spec

TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"

_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", '"': '\\"'})
_HELP_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n"})


def render(metrics: Iterable[tuple[Spec, Iterable[Sample]]], *, openmetrics: bool) -> str:
    """Return all metrics as text, without OpenMetrics' closing `# EOF`."""
    lines: list[str] = []
    for spec, samples in metrics:
        lines.append(header(spec, openmetrics=openmetrics))
        for sample in samples:
            lines += _lines(spec, sample, openmetrics=openmetrics)
    lines.append("")
    return "\n".join(lines)


def header(spec: Spec, *, openmetrics: bool) -> str:
    """Return the `# HELP` and `# TYPE` lines of a metric, without the last line end."""
    name = spec.name.removesuffix("_total") if openmetrics else spec.name
    text = spec.help.translate(_ESCAPES if openmetrics else _HELP_ESCAPES)
    return f"# HELP {name} {text}\n# TYPE {name} {spec.kind}"


def label_text(names: Iterable[str], values: Iterable[str]) -> str:
    """Return `a="x",b="y"` with the values escaped."""
    pairs = zip(names, values, strict=True)
    return ",".join(f'{name}="{str(value).translate(_ESCAPES)}"' for name, value in pairs)


def number(value: float) -> str:
    """Write a value as Go does: whole numbers without a fraction, `+Inf`, `NaN`."""
    value = float(value)
    if math.isfinite(value):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"


def _lines(spec: Spec, sample: Sample, *, openmetrics: bool) -> Iterator[str]:
    labels = label_text(spec.labels, sample.labels)
    braces = f"{{{labels}}}" if labels else ""
    histogram = sample.value
    if not isinstance(histogram, Histogram):
        yield f"{spec.name}{braces} {number(histogram)}"
        return
    bucket = f"{spec.name}_bucket{{{labels},le=" if labels else f"{spec.name}_bucket{{le="
    so_far = 0
    for bound, count in zip(_bounds(spec.buckets, openmetrics), histogram.counts, strict=True):
        so_far += count
        yield f"{bucket}{bound}}} {so_far}"
    yield f"{spec.name}_sum{braces} {number(histogram.sum)}"
    yield f"{spec.name}_count{braces} {so_far}"


@lru_cache(maxsize=256)
def _bounds(bounds: tuple[float, ...], openmetrics: bool) -> tuple[str, ...]:
    # OpenMetrics wants le="1.0", while kube-scheduler's text says le="1": queries that sum over both
    # schedulers by `le` need the same spelling.
    texts = (repr(float(bound)) if openmetrics else number(bound) for bound in bounds)
    return tuple(f'"{text}"' for text in (*texts, "+Inf"))
