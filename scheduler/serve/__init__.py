"""HTTP endpoints of the daemon: health, metrics, debug dumps and the page.

Renders records made elsewhere; no handler computes. The daemon fills in `Sources`, registers its
checks with `HealthChecks`, and starts a `Server`.
"""

from scheduler.serve.access import Access, Review
from scheduler.serve.app import Address, Server
from scheduler.serve.certificates import Files, ServingCertificate
from scheduler.serve.health import Check, HealthChecks
from scheduler.serve.sources import About, PodResources, Sources

__all__ = [
    "About",
    "Access",
    "Address",
    "Check",
    "Files",
    "HealthChecks",
    "PodResources",
    "Review",
    "Server",
    "ServingCertificate",
    "Sources",
]
