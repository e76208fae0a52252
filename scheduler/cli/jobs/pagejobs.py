"""Jobs that a process beside the daemon runs for its page: one question about one cluster.

`trellis run` names this module as the jobs of a `scheduler.workers` pool, which starts the process
at the first question.
"""

from functools import lru_cache

import msgspec

from scheduler.base.errors import InputError, TrellisError
from scheduler.config import default_config, load
from scheduler.explain.responder import QuestionResponder
from scheduler.explain.wire import unpacked
from scheduler.intree import registry
from scheduler.simulate.setups import Setups
from scheduler.simulate.stage import Setup


def run_page(payload: bytes) -> tuple[bytes, bytes]:
    """Answer a question packed by `explain.wire`; raise InputError if it is invalid."""
    question, snapshot, options, config = unpacked(payload)
    try:
        answer = _answering(config).answer(question, snapshot, options)
    except TrellisError as error:
        raise InputError(str(error)) from error
    return msgspec.json.encode(answer), b""


@lru_cache(maxsize=1)
def _answering(config: str) -> QuestionResponder:
    known = registry()
    loaded = load(config, file="(in use)", registry=known) if config else default_config(known)
    return QuestionResponder(Setups(known, Setup(loaded, known)))


def warm() -> None:
    """Find the plugins of this installation."""
    registry()


KINDS = {"page": run_page}
