"""Questions about MovePlans for the helper process: a header and raw lists of the API server.

The lists stay unread in the daemon: parsing a large cluster takes seconds of its event loop.
"""

from collections.abc import Sequence

import msgspec

from scheduler.base.errors import InputError
from scheduler.objects.meta import Object
from scheduler.objects.moves.moveplan import MovePlanSpec, MovePlanStatus, PlannedMove

PLAN, CHECK = "plan", "check"
_HEAD_BYTES = 8


class MoveQuestion(Object, frozen=True):
    """Plan a spec, or check whether the first of `moves` (the remaining ones) may start now.

    `cooling` are keys of owners whose pods other plans moved too recently. `config` is the text of
    the configuration in use, empty for the default one. `plan` is the name of the MovePlan: what
    it reserves itself is not taken.
    """

    what: str
    spec: MovePlanSpec
    now: float
    config: str = ""
    cooling: tuple[str, ...] = ()
    moves: tuple[PlannedMove, ...] = ()
    plan: str = ""
    lengths: tuple[int, ...] = ()


class MoveCheck(Object, frozen=True):
    """Why a move may not start: `over` the goal is settled, `stale` the plan is wrong now, `later`
    a condition that may pass. All are empty if it may.
    """

    over: str = ""
    stale: str = ""
    later: str = ""


class MoveAnswer(Object, frozen=True):
    """The answer: the fields of status that a plan has, or the result of a check."""

    status: MovePlanStatus = MovePlanStatus()
    check: MoveCheck = MoveCheck()


def packed(question: MoveQuestion, pages: Sequence[bytes]) -> bytes:
    """Return a question with the lists that it is about."""
    lengths = tuple(len(page) for page in pages)
    head = msgspec.json.encode(msgspec.structs.replace(question, lengths=lengths))
    return b"".join((len(head).to_bytes(_HEAD_BYTES, "big"), head, *pages))


def unpacked(payload: bytes) -> tuple[MoveQuestion, list[bytes]]:
    """Return the question and its lists; InputError for invalid bytes."""
    end = _HEAD_BYTES + int.from_bytes(payload[:_HEAD_BYTES], "big")
    try:
        question = msgspec.json.decode(payload[_HEAD_BYTES:end], type=MoveQuestion)
    except msgspec.MsgspecError as error:
        raise InputError(f"the question about moves cannot be read: {error}") from error
    pages = []
    for length in question.lengths:
        pages.append(payload[end : end + length])
        end += length
    return question, pages
