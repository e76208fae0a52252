"""Metric providers: measured load from wherever a cluster keeps it, as frozen snapshots with ages.

A provider answers `fetch()` with a `Snapshot`; `LastGood` keeps the last one until it expires. To add
a source, write a class with `name` and `fetch` that returns figures in plain units (cores, bytes,
bytes per second) and says of each when it was measured: callers trust the age, not the arrival.
"""

from operators.metricproviders.http import HttpSettings, HttpSource
from operators.metricproviders.lastgood import LastGood, ProviderRecord
from operators.metricproviders.metricsserver import MetricsServer
from operators.metricproviders.prometheus import DEFAULT_QUERIES, Prometheus, Query, usual_queries
from operators.metricproviders.provider import Fetch, MetricProvider, ProviderError
from operators.metricproviders.snapshot import CPU, MEMORY, Figure, Measure, Snapshot

__all__ = [
    "CPU",
    "DEFAULT_QUERIES",
    "MEMORY",
    "Fetch",
    "Figure",
    "HttpSettings",
    "HttpSource",
    "LastGood",
    "Measure",
    "MetricProvider",
    "MetricsServer",
    "Prometheus",
    "ProviderError",
    "ProviderRecord",
    "Query",
    "Snapshot",
    "usual_queries",
]
