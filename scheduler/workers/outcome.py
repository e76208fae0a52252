"""What became of a job: a value, never an exception, because time-outs and deaths are ordinary."""

from typing import Literal

import msgspec

Code = Literal["done", "invalid", "error", "timeout", "died", "cancelled", "closed"]


class Outcome(msgspec.Struct, frozen=True):
    """The end of a job.

    `body` is the JSON of the answer and `blob` what it carries besides as bytes, both only with code
    `done`. `invalid` means that the input was at fault, `error` a fault of ours, `timeout` that the
    job was killed at its limit, `died` that the process went away under it.
    """

    code: Code
    body: bytes = b""
    blob: bytes = b""
    message: str = ""
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether there is an answer."""
        return self.code == "done"
