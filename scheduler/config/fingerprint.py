"""A short hash of what a configuration means for decisions: profiles, extenders, feature gates.

The daemon publishes it on its Lease; the command line compares it with that of the configuration at
hand, so that `explain` answers as the running daemon would.
"""

import hashlib
from typing import Final

import msgspec

from scheduler.config.load import Loaded
from scheduler.config.render import documents

HASH_LENGTH: Final = 16
# These say how the process runs, not where pods go.
_OF_THE_PROCESS: Final = (
    "leaderElection",
    "clientConnection",
    "enableProfiling",
    "enableContentionProfiling",
    "page",
    "decisionLog",
    "tracing",
    "operators",
    "capacity",
    "metricProviders",
)


def fingerprint(loaded: Loaded) -> str:
    """Return the hash; equal for configurations that decide alike."""
    kept = [
        {key: value for key, value in document.items() if key not in _OF_THE_PROCESS}
        for document in documents(loaded)
    ]
    text = msgspec.json.encode(kept, order="sorted")
    return hashlib.sha256(text).hexdigest()[:HASH_LENGTH]
