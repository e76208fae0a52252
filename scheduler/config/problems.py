"""Problems of a configuration: one `Problem` per mistake, raised together as `InvalidConfigError`.

Every step of reading a file (document, decode, validate, profiles) adds to a `Problems` collector
and raises once at its end, so that all mistakes of one step are reported together. The texts are
kube-scheduler's where it has one; our hint follows in a separate field.
"""

from enum import StrEnum

import msgspec

from scheduler.base.errors import ConfigError


class ReadingStep(StrEnum):
    """The step of reading that found a problem; kube-scheduler finds them in the same order."""

    DECODE = "decode"
    VALIDATION = "validation"
    START = "start"


class Problem(msgspec.Struct, frozen=True):
    """One mistake: its text, a hint, and its position (1-based; 0 without a position)."""

    stage: ReadingStep
    text: str
    hint: str = ""
    file: str = ""
    line: int = 0
    column: int = 0

    @property
    def where(self) -> str:
        """Return `file:line:column`, with the known parts."""
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file

    def __str__(self) -> str:
        text = self.text + self.hint
        return f"{self.where}: {text}" if self.where else text


class InvalidConfigError(ConfigError):
    """A configuration with at least one problem; its text has one line per problem."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        first = problems[0]
        super().__init__(first.text + first.hint, where=first.where)
        self.problems = problems

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)


class Problems:
    """Collects the problems of one step."""

    # Limits the output for a broken file, so that its first mistake stays visible.
    MOST = 20

    def __init__(self, file: str) -> None:
        self.file = file
        self.found: list[Problem] = []

    def add(
        self, stage: ReadingStep, text: str, at: tuple[int, int] = (0, 0), *, hint: str = ""
    ) -> None:
        """Add a problem at the position `at` (line, column)."""
        self.found.append(Problem(stage, text, hint, self.file, *at))

    def raise_if_any(self) -> None:
        """Raise InvalidConfigError with the first `MOST` problems, in the order they were found."""
        if not self.found:
            return
        shown = self.found[: self.MOST]
        rest = len(self.found) - len(shown)
        if rest:
            shown.append(Problem(shown[-1].stage, f"and {rest} more", file=self.file))
        raise InvalidConfigError(tuple(shown))
