"""The page of the metrics, from the table of all metrics."""

from collections.abc import Iterable

from docs.generate import markdown
from operators.agents.netperf.latencies import SPECS as NETPERF
from scheduler.base.meters import Meters, Spec
from scheduler.serve.health import HEALTHCHECK, HEALTHCHECKS
from scheduler.serve.metrics import POD_LIMIT, POD_REQUEST

INTRODUCTION = f"""\
# Metrics

{markdown.origin("scheduler/base/meters")}

`/metrics` on the HTTPS port (10259) returns these in the text format of Prometheus, or as
OpenMetrics on request. The reader needs the right to `get` the path, as for kube-scheduler:
[monitoring](../howto/monitoring.md) describes how. A labelled metric appears with its first value.

Durations are in seconds. Buckets are written as first bound … last bound (number of bounds).
"""

SECTIONS: dict[str, tuple[tuple[str, ...], str]] = {
    "As kube-scheduler": (
        ("scheduler_",),
        (
            "Names, labels and buckets are those of kube-scheduler 1.36, so that dashboards "
            "carry over. "
            "These of its names are absent, because Trellis has no such component: `batch_*`, "
            "`get_node_hint_*`, `store_schedule_results_*` (results are not kept from pod to pod), "
            "`volume_*` (the volume binder "
            "has no cache of its own) and `*async_api_call*` (its gate is off; see "
            "`trellis_effects_*`)."
        ),
    ),
    "As every component of Kubernetes": (
        ("leader_election_", "kubernetes_", "rest_client_"),
        "`process_*` and `python_info` come from the client library of Prometheus.",
    ),
    "Of Trellis alone": (("trellis_",), "Metrics without a counterpart in kube-scheduler."),
}


def page() -> str:
    """Return the whole page."""
    specs = list(Meters.table().values())
    parts = [INTRODUCTION]
    for title, (prefixes, text) in SECTIONS.items():
        rows = table(spec for spec in specs if spec.name.startswith(prefixes))
        parts.append(f"## {title}\n\n{text}\n\n{rows}")
    resources = table([POD_REQUEST, POD_LIMIT])
    parts.append(
        "## `/metrics/resources`\n\n"
        "Two series per pod and resource, on the leader only.\n\n" + resources
    )
    slis = table([HEALTHCHECK, HEALTHCHECKS])
    parts.append(
        "## `/metrics/slis`\n\nThe health checks, counted per request to a health endpoint.\n\n"
        + slis
    )
    parts.append(
        "## `trellis agent netperf`\n\n"
        "The agent's own endpoint, plain HTTP on port 10262. `origin` and `destination` are "
        "nodes.\nOne node of a pair reports it, for both directions.\n\n" + table(NETPERF)
    )
    return "\n".join(parts)


def table(specs: Iterable[Spec]) -> str:
    """Return a table with one row per metric."""
    return markdown.table(
        ("name", "type", "labels", "buckets", "meaning"),
        (
            (
                markdown.code(spec.name),
                spec.kind,
                ", ".join(spec.labels),
                buckets(spec),
                markdown.text(spec.help),
            )
            for spec in specs
        ),
    )


def buckets(spec: Spec) -> str:
    """Return the bounds as `first … last (number)`, or '' without buckets."""
    if not spec.buckets:
        return ""
    return f"{spec.buckets[0]:.6g} … {spec.buckets[-1]:.6g} ({len(spec.buckets)})"
