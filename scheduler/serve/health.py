"""Named health checks and their text forms, as Kubernetes' components write them.

The daemon registers one check per component that can fail (leaderElection, shutdown,
sched-handler-sync, operators) for the relevant endpoints. A check is a plain function that returns
at once: None if healthy, else a reason. Checks never wait and never repair anything.
"""

import json
from collections.abc import Callable, Collection
from typing import Literal, NamedTuple

import structlog

from scheduler.base.meters import Counter, Family, Gauge, MetricSample, Spec

Endpoint = Literal["healthz", "livez", "readyz"]
ENDPOINTS: tuple[Endpoint, ...] = ("healthz", "livez", "readyz")
Check = Callable[[], str | None]

HEALTHCHECK = Spec(
    "kubernetes_healthcheck",
    "gauge",
    labels=("name", "type"),
    buckets=(),
    help="1 when the check passed the last time it was asked, else 0.",
)
HEALTHCHECKS = Spec(
    "kubernetes_healthchecks_total",
    "counter",
    labels=("name", "type", "status"),
    buckets=(),
    help="Times a check was asked, by its answer: success, error.",
)

_log = structlog.get_logger()


class HealthReport(NamedTuple):
    """The result of one health request; `lines` is for verbose output and failures."""

    healthy: bool
    lines: str


def _ping() -> str | None:
    return None


class HealthChecks:
    """The checks of the three endpoints, in order of registration."""

    def __init__(self) -> None:
        self._checks: dict[Endpoint, dict[str, Check]] = {name: {} for name in ENDPOINTS}
        self._last = Family(HEALTHCHECK, Gauge)
        self._total = Family(HEALTHCHECKS, Counter)

    def register(self, name: str, check: Check, *endpoints: Endpoint) -> None:
        """Add a check under `name` to these endpoints; the same name again replaces it."""
        for endpoint in endpoints:
            self._checks[endpoint][name] = check

    def checks(self, endpoint: Endpoint) -> dict[str, Check]:
        """Return the checks of an endpoint by name; an endpoint without checks has `ping`."""
        return self._checks[endpoint] or {"ping": _ping}

    def run(self, endpoint: Endpoint, exclude: Collection[str] = ()) -> HealthReport:
        """Run every check that is not excluded."""
        lines: list[str] = []
        failed: dict[str, str] = {}
        checks = self.checks(endpoint)
        for name in checks:
            if name in exclude:
                lines.append(f"[+]{name} excluded: ok\n")
                continue
            reason = self.run_check(endpoint, name)
            if reason is None:
                lines.append(f"[+]{name} ok\n")
            else:
                failed[name] = reason
                # This endpoint needs no authentication, so the reason is only logged.
                lines.append(f"[-]{name} failed: reason withheld\n")
        unknown = sorted({name for name in exclude if name not in checks})
        if unknown:
            names = ",".join(json.dumps(name) for name in unknown)
            text = "warn: some health checks cannot be excluded: no matches for"
            lines.append(f"{text} {names}\n")
        if failed:
            _log.warning("health check failed", endpoint=endpoint, failed=failed)
        return HealthReport(healthy=not failed, lines="".join(lines))

    def run_check(self, endpoint: Endpoint, name: str) -> str | None:
        """Run one check: return None if healthy, else the reason; a check that raises has
        failed.
        """
        try:
            reason = self.checks(endpoint)[name]()
        except Exception as error:  # noqa: BLE001 - a broken check is a failed check
            reason = f"{type(error).__name__}: {error}"
        self._last.labels(name, endpoint).set(reason is None)
        self._total.labels(name, endpoint, "success" if reason is None else "error").inc()
        return reason

    def collect(self) -> list[tuple[Spec, list[MetricSample]]]:
        """Return the two metrics of `/metrics/slis`."""
        return [(family.spec, family.samples()) for family in (self._last, self._total)]
