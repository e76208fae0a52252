"""A short hash of the parts of a configuration that affect decisions: profiles, extenders, gates.

The daemon publishes it on its Lease; the command line compares it with that of the local
configuration, so that `explain` answers as the running daemon would.
"""

import hashlib
from typing import Final

import msgspec

from scheduler.config.load import Loaded
from scheduler.config.render import documents

HASH_LENGTH: Final = 16
# Settings of the process, without effect on decisions.
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
    """Return the hash; equal for configurations with the same decisions."""
    kept = [
        {key: value for key, value in document.items() if key not in _OF_THE_PROCESS}
        for document in documents(loaded)
    ]
    text = msgspec.json.encode(kept, order="sorted")
    return hashlib.sha256(text).hexdigest()[:HASH_LENGTH]
