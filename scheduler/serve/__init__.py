"""HTTP endpoints of the daemon: health, metrics, debug dumps and the page.

Renders records made elsewhere; no handler computes. The daemon fills in `EndpointSources`,
registers its checks with `HealthChecks`, and starts a `Server`.
"""

from scheduler.serve.access import RequestAuthorizer, Review
from scheduler.serve.app import Address, Server
from scheduler.serve.certificates import Files, ServingCertificate
from scheduler.serve.health import Check, HealthChecks
from scheduler.serve.sources import About, EndpointSources, PodResources

__all__ = [
    "About",
    "Address",
    "Check",
    "EndpointSources",
    "Files",
    "HealthChecks",
    "PodResources",
    "RequestAuthorizer",
    "Review",
    "Server",
    "ServingCertificate",
]
