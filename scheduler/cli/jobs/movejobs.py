"""The helper process for MovePlans: calculate a plan, or check its next move.

Named by `trellis run` as the jobs of a `scheduler.workers` pool, which starts it with the first
MovePlan.
"""

from functools import lru_cache

import msgspec

from scheduler.base.errors import InputError, TrellisError
from scheduler.config import default_config, load
from scheduler.intree import registry
from scheduler.moves.executing import answer
from scheduler.objects.moves.movewire import unpacked
from scheduler.simulate.stage import Setup


def run_moves(payload: bytes) -> tuple[bytes, bytes]:
    """Answer a question packed by `objects.movewire`; raise InputError if it is invalid."""
    question, pages = unpacked(payload)
    try:
        found = answer(question, pages, _setup(question.config))
    except TrellisError as error:
        raise InputError(str(error)) from error
    return b"{}", msgspec.json.encode(found)


@lru_cache(maxsize=1)
def _setup(config: str) -> Setup:
    known = registry()
    loaded = load(config, file="(in use)", registry=known) if config else default_config(known)
    return Setup(loaded, known)


def warm() -> None:
    """Find the plugins of this installation."""
    registry()


KINDS = {"moves": run_moves}
