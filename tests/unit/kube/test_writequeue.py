"""The end of lanes."""

import asyncio

from scheduler.kube.writing.writequeue import WriteQueue


async def test_a_stopped_lane_ends_its_work_in_the_order_of_its_beginning():
    """The first item is answered first; the order by addresses of tasks would differ in each
    run.
    """
    ended: list[int] = []

    async def work(item: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(item)

    lane = WriteQueue("test", work, limit=50)
    for number in range(50):
        lane.put(number)
    await asyncio.sleep(0)
    lane.stop()
    await lane.wait_stopped()
    assert ended == list(range(50))
