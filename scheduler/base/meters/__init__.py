"""Metrics of the process: `Meters` is the table of all metrics, the other names are types of
values.

The engine, the plugins' runner, kube and the operators' runner add to the values; serve reads them.
"""

from scheduler.base.meters.table import Meters
from scheduler.base.meters.values import (
    Counter,
    Family,
    Gauge,
    Histogram,
    MetricSample,
    Spec,
    Trace,
)

__all__ = ["Counter", "Family", "Gauge", "Histogram", "Meters", "MetricSample", "Spec", "Trace"]
