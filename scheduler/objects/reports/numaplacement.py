"""The NUMA zone of each container, as agents publish it in short texts (numaplacement, v001).

Containers are named by a hash of namespace, pod and container. Their positions in the sorted list
of all hashes are written zone by zone, as differences, in an alphabet of 89 characters: 64 of them
end a number, the other 25 continue it. The zone with most containers is left out: all remaining
containers are in it. Invalid or inconsistent texts yield None.
"""

from collections.abc import Collection, Mapping
from functools import lru_cache

from xxhash import xxh64_intdigest

METADATA = "topology.node.k8s.io/numaplacement-metadata"
VECTOR = "topology.node.k8s.io/numaplacement-vector"
_HEAD = "npv0v001"
_ENDING, _GOING_ON = 64, 25
_ALPHABET = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"&<>\\')
_VALUES = {letter: value for value, letter in enumerate(_ALPHABET)}

# namespace, pod, container
Name = tuple[str, str, str]


def zones_of(
    metadata: str, vectors: Mapping[int, str], names: Collection[Name]
) -> dict[Name, int] | None:
    """Return the zone number of each container; None if the texts do not fit these containers.

    `vectors` are the texts by zone number, `metadata` is the text of the node.
    """
    numbers = _metadata(metadata)
    if numbers is None or numbers["cc"] != len(names):
        return None
    by_hash = sorted((_hash(name), name) for name in names)
    zone_of: dict[int, int] = {}
    for zone, text in vectors.items():
        if zone == numbers["bn"]:
            continue
        places = decode(text)
        if places is None or any(not 0 <= p < len(by_hash) or p in zone_of for p in places):
            return None
        zone_of.update(dict.fromkeys(places, zone))
    return {name: zone_of.get(at, numbers["bn"]) for at, (_, name) in enumerate(by_hash)}


def encode(zone_of: Mapping[Name, int], zones: int) -> tuple[str, dict[int, str]]:
    """Return the metadata text and each zone's vector for containers in `zones` zones."""
    places: dict[int, list[int]] = {}
    for at, (_, name) in enumerate(sorted((_hash(name), name) for name in zone_of)):
        places.setdefault(zone_of[name], []).append(at)
    fullest = min(places, key=lambda zone: (-len(places[zone]), zone), default=0)
    metadata = f"{_HEAD}::ve=leb89::cc={len(zone_of)}::nn={zones}::bn={fullest}"
    vectors = {zone: _encoded(found) for zone, found in places.items() if zone != fullest}
    return metadata, vectors


def decode(text: str) -> list[int] | None:
    """Return the ascending numbers that a vector encodes; None for an invalid one."""
    found: list[int] = []
    more, goes_on = 0, False
    for letter in text:
        value = _VALUES.get(letter)
        if value is None or more > 2**31:
            return None
        if value >= _ENDING:
            more, goes_on = more * _GOING_ON + value - _ENDING, True
            continue
        step = value + (_ENDING + more * _ENDING if goes_on else 0)
        found.append(step + (found[-1] if found else 0))
        more, goes_on = 0, False
    return None if goes_on else found


def _encoded(numbers: list[int]) -> str:
    steps = [now - before for before, now in zip([0, *numbers], numbers, strict=False)]
    return "".join(map(_number, steps))


def _number(value: int) -> str:
    if value < _ENDING:
        return _ALPHABET[value]
    rest, last = divmod(value - _ENDING, _ENDING)
    digits = [_ALPHABET[last]]
    while True:
        rest, digit = divmod(rest, _GOING_ON)
        digits.append(_ALPHABET[_ENDING + digit])
        if not rest:
            return "".join(reversed(digits))


def _metadata(text: str) -> dict[str, int] | None:
    head, *fields = text.split("::")
    values = dict(field.partition("=")[::2] for field in fields)
    if head != _HEAD or values.pop("ve", "") != "leb89":
        return None
    if any(not value.isdecimal() or len(value) > 9 for value in values.values()):
        return None
    numbers = {name: int(value) for name, value in values.items()}
    return numbers if {"cc", "nn", "bn"} <= numbers.keys() else None


@lru_cache(maxsize=65536)
def _hash(name: Name) -> int:
    # The same containers occur in successive reports of their node.
    return xxh64_intdigest("\0".join(name).encode())
