"""Metric providers: measured load from several sources, as immutable snapshots with ages.

A provider answers `fetch()` with a `FigureSnapshot`; `LastGood` keeps the last one until it
expires. To add a source, write a class with `name` and `fetch` that returns figures in plain units
(cores, bytes, bytes per second), each with the time of its measurement: callers use the age, not
the arrival.
"""

from operators.metricproviders.http import HttpSettings, HttpSource
from operators.metricproviders.lastgood import LastGood, ProviderRecord
from operators.metricproviders.metricsserver import MetricsServer
from operators.metricproviders.prometheus import DEFAULT_QUERIES, Prometheus, Query, usual_queries
from operators.metricproviders.provider import Fetch, FigureProvider, ProviderError
from operators.metricproviders.snapshot import CPU, MEMORY, Figure, FigureName, FigureSnapshot

__all__ = [
    "CPU",
    "DEFAULT_QUERIES",
    "MEMORY",
    "Fetch",
    "Figure",
    "FigureName",
    "FigureProvider",
    "FigureSnapshot",
    "HttpSettings",
    "HttpSource",
    "LastGood",
    "MetricsServer",
    "Prometheus",
    "ProviderError",
    "ProviderRecord",
    "Query",
    "usual_queries",
]
