"""`Meters`: every metric of the process, one row each: name with labels, buckets, help.

The rows are declared in `kubernetes.py` and `own.py`. The attribute of an unlabelled row is the
value itself, that of a labelled row its family: call `meters.x.labels(...)` once and keep the
result where speed matters. docs/reference/metrics.md is generated from here. Nothing is computed or
rendered in this file.
"""

from collections.abc import Iterator
from typing import Any, ClassVar

from scheduler.base.meters.kubernetes import KubernetesRows
from scheduler.base.meters.own import OwnRows
from scheduler.base.meters.values import Family, MetricRow, MetricSample, Spec


class Meters(KubernetesRows, OwnRows):
    """All metrics of one process; every attribute is a row of the table."""

    ROWS: ClassVar[dict[str, MetricRow[Any]]]

    def __init__(self) -> None:
        self._families: list[Family[Any]] = []
        for attribute, row in self.ROWS.items():
            family: Family[Any] = Family(row.spec, row.make)
            self._families.append(family)
            # The instance's attribute hides the row: from here on reading it is a plain look-up.
            self.__dict__[attribute] = family if row.spec.labels else family.labels()

    @classmethod
    def table(cls) -> dict[str, Spec]:
        """Return the rows by attribute name, in the order they are written here."""
        return {attribute: row.spec for attribute, row in cls.ROWS.items()}

    def collect(self) -> Iterator[tuple[Spec, list[MetricSample]]]:
        """Yield each metric that has values; skip and count a metric whose callback fails."""
        for family in self._families:
            try:
                samples = family.samples()
            except Exception:  # noqa: BLE001 - one broken owner must not blind the monitoring
                self.scrape_errors.labels(family.spec.name).inc()
                continue
            if samples:
                yield family.spec, samples


Meters.ROWS = {
    name: row
    for rows in (KubernetesRows, OwnRows)
    for name, row in vars(rows).items()
    if isinstance(row, MetricRow)
}
