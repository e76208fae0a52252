"""The decision log: the engine's inputs and outputs, as JSON lines.

The first line has the engine's parameters, each further line is one turn: the time, the events, the
number of attempts, the effects. The same turns on an engine with the same parameters produce the
same effects, byte for byte; `simulate.replay` verifies it. This module encodes and decodes, and
does no I/O.
"""

from typing import Any

import msgspec

from scheduler.base.errors import InputError
from scheduler.engine.effects import (
    Answer,
    Behind,
    CaughtUp,
    Complete,
    Effects,
    Event,
    Evict,
    Leading,
    Listed,
    Solve,
    Watched,
)
from scheduler.objects.kinds import BY_KIND

FORMAT = 1
# Effects whose answers pods wait for: a group's placement, and a victim's eviction. A pod whose
# binding is in progress already takes its capacity.
AWAITED = tuple(str(effect.__struct_config__.tag) for effect in (Solve, Evict))


class Header(msgspec.Struct, frozen=True, rename="camel"):
    """The parameters of the engine: the configuration as text (empty for the defaults) and the
    seed.

    `kubernetes` is the release of the API server; a log without it was written by a version that
    followed 1.36.
    """

    version: str
    config: str = ""
    seed: int = 0
    format: int = FORMAT
    kubernetes: str = ""


class LoggedTurn(msgspec.Struct, frozen=True, rename="camel"):
    """One turn; `cycles` is the number of pods it might try, `effects` are as the engine returned
    them.
    """

    now: float
    events: tuple[Watched | Listed | Complete | Behind | CaughtUp | Answer | Leading, ...]
    cycles: int
    effects: msgspec.Raw = msgspec.Raw(b"[]")


class _EffectHead(msgspec.Struct, frozen=True):
    effect: str
    id: int = 0


_encoder = msgspec.json.Encoder()
_heads = msgspec.json.Decoder(list[_EffectHead])
_header = msgspec.json.Decoder(Header)
_step = msgspec.json.Decoder(LoggedTurn)


def encode_header(header: Header) -> bytes:
    """Return the first line of a log."""
    return _encoder.encode(header) + b"\n"


class LogBuffer:
    """Encodes events when they arrive and turns when they have ended, into one buffer of `lines`.

    An object that was read just now is encoded in a quarter of the time that it takes a turn later,
    when the processor has to fetch its parts from memory again. Texts are written once and moved
    once: at 5 kB a pod it is copying that costs.
    """

    def __init__(self) -> None:
        self._arrived = bytearray()
        self._lines = bytearray()

    def arrive(self, event: Event) -> int:
        """Take the text of the next event; return its size in bytes, by which `end_turn` finds
        it.
        """
        before = len(self._arrived)
        _encoder.encode_into(event, self._arrived, before)
        self._arrived += b","
        return len(self._arrived) - before

    def end_turn(self, now: float, size: int, cycles: int, effects: tuple[Effects, ...]) -> None:
        """Write the line of a turn that took in the oldest `size` bytes of events."""
        lines = self._lines
        lines += b'{"now":'
        _encoder.encode_into(now, lines, len(lines))
        lines += b',"events":['
        if size:
            with memoryview(self._arrived) as texts:
                lines += texts[: size - 1]
            del self._arrived[:size]
        lines += b'],"cycles":%d,"effects":' % cycles
        _encoder.encode_into(effects, lines, len(lines))
        lines += b"}\n"

    def take(self) -> bytearray:
        """Return the lines since the last call."""
        taken, self._lines = self._lines, bytearray()
        return taken


def encode_step(
    now: float, events: list[Event], cycles: int, effects: tuple[Effects, ...]
) -> bytes:
    """Return the line of one turn."""
    encoder = LogBuffer()
    encoder.end_turn(now, sum(map(encoder.arrive, events)), cycles, effects)
    return bytes(encoder.take())


def encode_effects(effects: tuple[Effects, ...]) -> bytes:
    """Return effects in the form that a line has."""
    return _encoder.encode(effects)


def decode_header(line: bytes, *, where: str = "") -> Header:
    """Read the first line; InputError if it is no header of a decision log."""
    try:
        header = _header.decode(line)
    except msgspec.DecodeError as error:
        raise InputError(f"not a decision log: {error}", where=where) from error
    if header.format != FORMAT:
        raise InputError(f"format {header.format} is not known, only {FORMAT}", where=where)
    return header


def decode_step(line: bytes, *, where: str = "") -> LoggedTurn:
    """Read the line of one turn; InputError states the invalid part."""
    try:
        step = _step.decode(line)
        return msgspec.structs.replace(step, events=tuple(map(_typed, step.events)))
    except (msgspec.DecodeError, msgspec.ValidationError, KeyError) as error:
        raise InputError(f"not a turn of a decision log: {error}", where=where) from error


def awaited(turn: LoggedTurn) -> dict[int, str]:
    """Return the ids and names of a turn's effects whose answers its pods wait for."""
    effects = bytes(turn.effects)
    if not any(f'"{name}"'.encode() in effects for name in AWAITED):
        return {}
    return {one.id: one.effect for one in _heads.decode(effects) if one.effect in AWAITED}


def _typed(event: Any) -> Any:
    """Give the objects of an event the structs of their kind."""
    if isinstance(event, Watched):
        struct = BY_KIND[event.kind].struct
        return msgspec.structs.replace(event, object=msgspec.convert(event.object, struct))
    if isinstance(event, Listed):
        struct = BY_KIND[event.kind].struct
        objects = tuple(msgspec.convert(obj, struct) for obj in event.objects)
        return msgspec.structs.replace(event, objects=objects)
    return event
