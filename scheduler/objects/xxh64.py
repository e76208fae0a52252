"""XXH64, the 64-bit hash by which agents on nodes and schedulers name a set of pods.

Written from the published description of the algorithm. Plain Python: the texts are short.
"""

from __future__ import annotations

from struct import unpack_from

_MASK = 0xFFFFFFFFFFFFFFFF
_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5


def xxh64(data: bytes, seed: int = 0) -> int:
    """Return the hash of `data` as an unsigned integer."""
    size, at = len(data), 0
    if size >= 32:
        value, at = _stripes(data, seed)
    else:
        value = (seed + _P5) & _MASK
    value = (value + size) & _MASK
    while at + 8 <= size:
        (lane,) = unpack_from("<Q", data, at)
        value ^= _round(0, lane)
        value = (_turned(value, 27) * _P1 + _P4) & _MASK
        at += 8
    if at + 4 <= size:
        (lane,) = unpack_from("<I", data, at)
        value ^= (lane * _P1) & _MASK
        value = (_turned(value, 23) * _P2 + _P3) & _MASK
        at += 4
    for byte in data[at:]:
        value ^= (byte * _P5) & _MASK
        value = (_turned(value, 11) * _P1) & _MASK
    value = ((value ^ (value >> 33)) * _P2) & _MASK
    value = ((value ^ (value >> 29)) * _P3) & _MASK
    return value ^ (value >> 32)


def _stripes(data: bytes, seed: int) -> tuple[int, int]:
    """Return the state after all whole stripes of 32 bytes, and where they end."""
    one, two = (seed + _P1 + _P2) & _MASK, (seed + _P2) & _MASK
    three, four = seed & _MASK, (seed - _P1) & _MASK
    end = len(data) // 32 * 32
    for at in range(0, end, 32):
        first, second, third, fourth = unpack_from("<4Q", data, at)
        one, two = _round(one, first), _round(two, second)
        three, four = _round(three, third), _round(four, fourth)
    value = _turned(one, 1) + _turned(two, 7) + _turned(three, 12) + _turned(four, 18)
    value &= _MASK
    for lane in (one, two, three, four):
        value ^= _round(0, lane)
        value = (value * _P1 + _P4) & _MASK
    return value, end


def _round(state: int, lane: int) -> int:
    return (_turned((state + lane * _P2) & _MASK, 31) * _P1) & _MASK


def _turned(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (64 - bits))) & _MASK
