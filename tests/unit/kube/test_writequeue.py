"""The end of write queues."""

import asyncio

from scheduler.kube.writing.writequeue import WriteQueue


async def test_a_stopped_queue_completes_its_work_in_order():
    """The first item is answered first; the order by addresses of tasks would differ in each
    run.
    """
    ended: list[int] = []

    async def work(item: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(item)

    queue = WriteQueue("test", work, limit=50)
    for number in range(50):
        queue.put(number)
    await asyncio.sleep(0)
    queue.stop()
    await queue.wait_stopped()
    assert ended == list(range(50))


async def test_a_queue_accepts_and_counts_work_until_it_is_stopped():
    """`put` returns whether the item is accepted; all others are counted as dropped."""
    done: list[int] = []

    async def work(item: int) -> None:
        done.append(item)

    queue = WriteQueue("test", work, limit=2)
    accepted = [queue.put(number) for number in range(5)]
    await queue.wait_idle()
    idle = queue.in_flight
    queue.stop()
    refused = [queue.put(number) for number in range(5, 8)]
    await queue.wait_stopped()

    assert ([True] * 5, [False] * 3) == (accepted, refused)
    assert (list(range(5)), 3, 0) == (done, queue.dropped, idle)
