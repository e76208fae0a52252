"""Many simulations, one JSON object per line in and out: for programs with frequent questions.

`{"id", "config"?, "objects": [...], "pending"?: [...], "details"?, "now"?, "kubernetes"?}` becomes
`{"id", "simulation": {...}}` or `{"id", "error": {"code", "message"}}`. Cases are independent of
each other. Pure: the command line reads and writes the lines.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from scheduler.base.clock import parse_rfc3339
from scheduler.base.errors import ConfigError, InputError, TrellisError
from scheduler.base.nesting import is_too_deep
from scheduler.base.release import read_release
from scheduler.simulate.records import Simulation
from scheduler.simulate.setups import Setups
from scheduler.simulate.simulate import simulate
from scheduler.simulate.stage import AnswerOptions, Setup
from scheduler.snapshot.documents import items_of_objects
from scheduler.snapshot.snapshot import read_snapshot

INVALID_CASE, INVALID_CONFIG, INVALID_OBJECT = "InvalidCase", "InvalidConfig", "InvalidObject"
INTERNAL = "InternalError"
_NULL = msgspec.Raw(b"null")

# Returns the text of a configuration file that a case names.
ReadFile = Callable[[str], str]


class CaseFault(msgspec.Struct, frozen=True):
    """Why a case has no answer."""

    code: str
    message: str


class _Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    objects: list[msgspec.Raw]
    id: msgspec.Raw = _NULL
    config: msgspec.Raw = _NULL
    pending: list[msgspec.Raw] | None = None
    details: bool | None = None
    now: str | int | float | None = None
    kubernetes: str | None = None


class _Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    id: msgspec.Raw
    simulation: Simulation | None = None
    error: CaseFault | None = None


class _Id(msgspec.Struct, frozen=True):
    id: msgspec.Raw = _NULL


_case = msgspec.json.Decoder(_Case)
_id = msgspec.json.Decoder(_Id)
_encode = msgspec.json.Encoder().encode


class Batch:
    """Answer cases; `options` are the defaults of a case."""

    def __init__(self, setups: Setups, options: AnswerOptions, read_file: ReadFile) -> None:
        self._setups = setups
        self._options = options
        self._read_file = read_file

    def answer(self, line: bytes) -> bytes:
        """Return the line that answers one case, without its end; never raises for bad input."""
        identity = _NULL
        try:
            line.decode()  # fields that decoding skips would be returned unchanged
            case = _case.decode(_shallow(line))
            identity = case.id
            return _encode(_Answer(identity, self._simulated(case)))
        except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
            fault = CaseFault(INVALID_CASE, _words(error))
        except ConfigError as error:
            fault = CaseFault(INVALID_CONFIG, "; ".join(str(error).splitlines()))
        except InputError as error:
            fault = CaseFault(INVALID_OBJECT, str(error))
        except TrellisError as error:
            fault = CaseFault(INTERNAL, str(error))
        except Exception as error:  # noqa: BLE001 - one invalid case must not end the others
            fault = CaseFault(INTERNAL, f"{type(error).__name__}: {error}")
        return _encode(_Answer(_identity_of(line, identity), error=fault))

    def _simulated(self, case: _Case) -> Simulation:
        options = self._options
        if case.kubernetes is not None:
            options = replace(options, release=read_release(case.kubernetes, where="kubernetes"))
        if case.details is not None or case.now is not None:
            now = options.now if case.now is None else moment(case.now)
            details = options.details if case.details is None else case.details
            options = replace(options, now=now, details=details)
        snapshot = read_snapshot(
            items_of_objects(case.objects, "objects"),
            items_of_objects(case.pending or (), "pending"),
        )
        return simulate(snapshot, self._setup(bytes(case.config)), options)

    def _setup(self, config: bytes) -> Setup:
        if config == b"null":
            return self._setups.default
        if not config.startswith(b'"'):
            return self._setups.of(config.decode(), file="config")
        text: str = msgspec.json.decode(config)
        if "\n" in text or ":" in text:
            return self._setups.of(text, file="config")
        return self._setups.of(self._read_file(text), file=text)


def _shallow(line: bytes) -> bytes:
    """Return a line with bounded nesting; RecursionError otherwise, on every interpreter."""
    if is_too_deep(line):
        raise RecursionError
    return line


def moment(text: str | float) -> float:
    """Return a time from RFC 3339 or seconds since the epoch; InputError for any other text."""
    if isinstance(text, int | float):
        found: float | None = float(text)
    else:
        found = parse_rfc3339(text)
    if found is None or not 0 <= found < 2**33:
        raise InputError(f'"{text}" is not a time like 2026-01-31T12:00:00Z', where="now")
    return found


def _identity_of(line: bytes, known: msgspec.Raw) -> Any:
    """Return the id of a case that could not be decoded as a whole, if it can be found."""
    if known is not _NULL:
        return known
    try:
        return _id.decode(line).id
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return known


def _words(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply"
    return str(error)[:300]
