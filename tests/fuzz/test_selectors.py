"""Random selectors: none crashes or hangs, and a program returns a verdict or one error."""

import json
import random
import re
from time import process_time

import pytest

from scheduler.cel import (
    CelCompileError,
    CelRuntimeError,
    DeviceInput,
    Quantity,
    Version,
    compile_selector,
)
from tests.vectors.frame import DATA

DRIVER = "gpu.example.com"
DEVICES = (
    DeviceInput(
        DRIVER,
        {
            "model": "a100",
            "index": 0,
            "ecc": True,
            "driverVersion": Version.parse("2.0.0-rc.1"),
            "example.org/tier": "silver",
        },
        {"memory": Quantity.parse("20Gi"), "cores": Quantity.parse("16")},
        allow_multiple_allocations=True,
    ),
    DeviceInput(DRIVER, {}, {}),
)
LIMIT_S = 3.0  # CPU time for one text and both devices

PIECES = [
    'device.attributes["gpu.example.com"]',
    'device.capacity["gpu.example.com"]',
    "device.driver",
    "device.attributes",
    "device",
    ".model",
    ".index",
    ".ecc",
    ".memory",
    ".?nope",
    ".missing",
    "[",
    "]",
    "(",
    ")",
    "{",
    "}",
    ",",
    ":",
    ".",
    "?",
    "[?",
    ".?",
    "&&",
    "||",
    "!",
    "-",
    "+",
    "*",
    "/",
    "%",
    "==",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
    "in",
    "true",
    "false",
    "null",
    "0",
    "1",
    "2",
    "3u",
    "1.5",
    "-1",
    "1e9",
    '"a"',
    '"model"',
    '""',
    'b"x"',
    '"[0-9]+"',
    '"(a+)+"',
    '"%s"',
    'r"\\d"',
    "x",
    "y",
    "k",
    "v",
    "cel.bind(",
    "has(",
    "size(",
    ".exists(x,",
    ".all(k,",
    "v,",
    ".map(x,",
    ".filter(x,",
    ".exists_one(x,",
    ".sortBy(x,",
    ".transformMap(k,",
    "v,",
    ".optMap(x,",
    ".orValue(",
    ".hasValue()",
    ".value()",
    ".size()",
    ".matches(",
    ".find(",
    ".findAll(",
    ".split(",
    ".join(",
    ".replace(",
    ".format(",
    ".sort()",
    ".distinct()",
    ".flatten()",
    ".reverse()",
    ".slice(",
    ".sum()",
    ".min()",
    ".isGreaterThan(",
    ".compareTo(",
    ".add(",
    ".asInteger()",
    ".major()",
    ".charAt(",
    ".substring(",
    ".indexOf(",
    'quantity("1Gi")',
    'semver("1.2.3")',
    "quantity(",
    "semver(",
    "int(",
    "string(",
    "double(",
    "uint(",
    "type(",
    "dyn(",
    "duration(",
    "timestamp(",
    "ip(",
    "cidr(",
    "url(",
    "optional.of(",
    "optional.none()",
    "lists.range(",
    "sets.contains(",
    "format.named(",
    "strings.quote(",
    "/*é",
    "@",
    "$",
    "#",
    "\\",
    "'",
    '"',
    "```",
    "\n",
    "\t",
]


EXPRESSIONS = [
    case["expression"]
    for file in ("cel.json", "cel-recorded.json")
    for case in json.loads((DATA / "dra" / file).read_text())["cases"]
]
TOKEN = re.compile(r"\w+|\s+|\"[^\"]*\"|.", re.DOTALL)


def random_text(chance: random.Random) -> str:
    """Return pieces of the language in a row, or a selector with some of its tokens changed."""
    if chance.random() < 0.2:
        return "".join(chance.choice(PIECES) for _ in range(chance.randrange(1, 24)))
    tokens = TOKEN.findall(chance.choice(EXPRESSIONS))
    others = TOKEN.findall(chance.choice(EXPRESSIONS))
    for _ in range(chance.randrange(1, 3)):
        at = chance.randrange(len(tokens))
        match chance.randrange(4):
            case 0:
                tokens[at] = chance.choice(PIECES)
            case 1:
                tokens[at] = chance.choice(others)
            case 2:
                tokens.insert(at, chance.choice(others))
            case _:
                tokens[at] = ""
    return "".join(tokens)


def put(number: int) -> bool:
    """Compile one text and evaluate it on the devices; return whether it compiled."""
    text = random_text(random.Random(number))
    started = process_time()
    try:
        program = compile_selector(text)
    except CelCompileError:
        return False
    finally:
        assert process_time() - started < LIMIT_S, text
    for device in DEVICES:
        try:
            verdict = program.verdict(device)
        except CelRuntimeError:
            continue
        assert type(verdict.matches) is bool
        assert verdict == program.verdict(device)
    assert process_time() - started < LIMIT_S, text
    return True


def test_random_selectors():
    """A few hundred texts, some of which are selectors."""
    assert sum(put(number) for number in range(600)) > 8


@pytest.mark.long
@pytest.mark.timeout(600)
def test_twenty_thousand_random_selectors():
    """The test runs with 20,000 texts."""
    assert sum(put(number) for number in range(20_000)) > 500
