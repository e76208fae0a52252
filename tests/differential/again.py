"""Repeat recorded decisions without a cluster: does ours still differ from the peer's?

    python -m tests.differential.again build/differential/difference-1-17-2.json ...

A file has the objects of the API server, the pod, the peer's outcome and the name of the
configuration. Exit code 1 if one differs.
"""

import sys
from pathlib import Path
from typing import Any

import msgspec

from tests.differential.case import Decision
from tests.differential.compare import differences, through_simulate
from tests.differential.kinds import Manifest
from tests.differential.known import explained
from tests.differential.ours import Ours


def repeated(one: Decision, ours: Ours) -> dict[str, Any]:
    """Decide again; return the unexplained differences."""
    one.ours = ours.decide(one.objects, one.pod, one.peer)
    one.differences = differences(one.peer, one.ours) | simulate_differences(one, ours)
    return {} if explained(one) else one.differences


def simulate_differences(one: Decision, ours: Ours) -> dict[str, Any]:
    """Compare the result of `simulate --batch` with the engine's, if no other pod is pending."""
    assert one.ours is not None
    waiting = [obj for obj in one.objects if obj["kind"] == "Pod" and not _is_placed(obj)]
    if waiting or one.peer.result == "Error":
        return {}
    return through_simulate(ours.simulated(one.objects, one.pod), one.ours)


def _is_placed(pod: Manifest) -> bool:
    return bool(pod["spec"].get("nodeName"))


def main() -> int:
    """Repeat the files of the command line; return the exit code."""
    found = 0
    for file in map(Path, sys.argv[1:]):
        one = msgspec.json.decode(file.read_bytes(), type=Decision)
        configuration = msgspec.json.decode((file.parent / one.configuration).read_bytes())
        unexplained = repeated(one, Ours(configuration, one.kubernetes, one.feature_gates))
        found += bool(unexplained)
        print(f"{file.name}: {'as the peer' if not one.differences else one.known or 'differs'}")
        for path, (peer, ours) in unexplained.items():
            print(f"  {path}\n    peer {peer}\n    ours {ours}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
