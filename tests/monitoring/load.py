"""The load of the watched cluster: pods that are created and deleted, groups, urgent ones, some
that never fit.

Infeasible pods are deleted before they would raise an alert.
"""

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.monitoring.watched import CLAIMED, Watched, pause

STAY_S = 8
APPLICATION = "appgroup.diktyo.x-k8s.io"
ORPHAN = {APPLICATION: "nowhere", f"{APPLICATION}.workload": "w"}
GENERAL = {"pool": "general"}
STAGE = {"pool": "stage"}


async def live(one: Watched) -> None:
    """Go on until cancelled, in turns of a second."""
    here: deque[list[str]] = deque()
    second = 0
    while True:
        here.append(await come(one, second))
        if len(here) > STAY_S:
            await one.delete(here.popleft())
        second += 1
        await pause(1.0)


async def come(one: Watched, second: int) -> list[str]:
    """Create the pods of one second; return their names."""
    number = round(9 + 7 * math.sin(second / 7))
    names = await one.pods(number, nodeSelector=GENERAL, cpu="500m")
    if second % 3 == 0:
        names += await one.group(3 + second % 5)
    if second % 4 == 0:
        for workload in ("front", "back"):
            labels = {APPLICATION: "shop", f"{APPLICATION}.workload": workload}
            names += await one.pods(1, labels=labels, nodeSelector=GENERAL)
    if second % 4 == 2:
        names += await one.pods(3, resourceClaims=CLAIMED)
    turn = second % 24
    if turn == 0:
        names += await one.pods(1, nodeSelector=STAGE, memory="40Gi")
    elif turn == 2:
        names += await one.pods(1, nodeSelector=STAGE, memory="30Gi", priorityClassName="urgent")
    elif turn == 4:
        names += await one.pods(2, nodeSelector={"pool": "none"})
        names += await one.pods(1, labels=ORPHAN, nodeSelector=GENERAL)
    elif turn == 12:
        names += await one.pods(2, nodeSelector=STAGE, memory="22Gi")
    elif turn == 14:
        names += await one.group(4, nodeSelector=STAGE, priorityClassName="urgent", memory="8Gi")
    return names


@asynccontextmanager
async def under_load(one: Watched) -> AsyncIterator[None]:
    """Run the load until the block ends."""
    task = asyncio.create_task(live(one))
    try:
        yield
    finally:
        task.cancel()
        outcome = (await asyncio.gather(task, return_exceptions=True))[0]
        if not isinstance(outcome, asyncio.CancelledError) and outcome is not None:
            raise outcome
