"""Cases for `simulate --batch`, each with one carelessly written pod.

`line(number)` returns the same case in every run, so the number identifies a failing case.
"""

import json
from random import Random
from typing import Any

from tests.fuzz.grammar import Grammar
from tests.fuzz.mutation import mutate

NODES = ("n0", "n1", "n2")


def line(number: int) -> bytes:
    """Return case `number` as a line."""
    random = Random(number)
    data = json.dumps(case(number, random)).encode()
    if random.random() < 0.02:
        data = _corrupted(data, random)
    return data


def case(number: int, random: Random) -> dict[str, Any]:
    """Return a small cluster and a pod to place; either may make no sense."""
    tidy, odd = Grammar(random, 0.0), Grammar(random, random.choice((0.0, 0.02, 0.1)))
    around = odd if random.random() < 0.2 else tidy
    placed = []
    for index in range(random.randint(0, 3)):
        pod = (odd if random.random() < 0.3 else tidy).pod(f"e{index}")
        pod["spec"]["nodeName"] = random.choice(NODES)
        placed.append(pod)
    wanted = [odd.pod("p")]
    if random.random() < 0.3:
        mutate(wanted, random, random.randint(1, 3))
    objects = [*map(around.node, NODES), *around.surroundings(), *placed]
    if random.random() < 0.1:
        mutate(objects, random, random.randint(1, 2))
    random.shuffle(objects)
    details = random.random() < 0.5
    return {"id": number, "objects": objects, "pending": wanted, "details": details}


def parts(number: int) -> list[Any]:
    """Return the same objects one by one, as a watch would send them: the pod to place last."""
    found = case(number, Random(number))
    return [*found["objects"], *found["pending"]]


def _corrupted(data: bytes, random: Random) -> bytes:
    """Return a line with a piece lost or a few bytes changed."""
    at = random.randrange(len(data))
    if random.random() < 0.5:
        return data[:at] + data[at + random.randint(1, 40) :]
    return data[:at] + random.randbytes(random.randint(1, 4)).replace(b"\n", b" ") + data[at + 1 :]
