"""The helper process, a real one: results, limits, deaths, cancellation, and a loop that
continues.
"""

import asyncio

import msgspec
import pytest

from scheduler.groups.problem.instance import Instance, Leaf, Level, LevelRule
from scheduler.groups.solver import questions
from scheduler.workers import WorkerPool

ODD = "tests.unit.workers.oddjobs"
LONG_S = 30.0


@pytest.fixture
async def odd():
    """A pool whose jobs misbehave."""
    async with WorkerPool(ODD, grace_s=0.0) as pool:
        yield pool


async def started_job(pool):
    """Wait until a job is handed over."""
    while pool._number == 0:  # noqa: ASYNC110 - the pool has no event for this
        await asyncio.sleep(0)


async def test_answers_come_back_with_their_bytes(odd):
    """Every job gets its own answer, JSON and blob, in whatever number they wait."""
    payloads = [f'"{n}"'.encode() * 1000 for n in range(20)]

    outcomes = await asyncio.gather(*(odd.run("echo", each, LONG_S) for each in payloads))

    assert [(each, each[::-1]) for each in payloads] == [(o.body, o.blob) for o in outcomes]
    assert 1 == odd.starts


async def test_a_job_is_killed_at_its_limit_and_the_next_one_runs(odd):
    """The limit ends the job with the process; a new process runs the next job."""
    late, after = await asyncio.gather(odd.run("forever", b"", 0.05), odd.run("pid", b"", LONG_S))

    assert ("timeout", "done") == (late.code, after.code)
    assert "forever was stopped after 0.05 s" == late.message
    assert 2 == odd.starts


async def test_a_dying_process_takes_only_its_job_along(odd):
    """The running job reports it; waiting jobs run in the next process."""
    died, after = await asyncio.gather(odd.run("die", b"", LONG_S), odd.run("echo", b"1", LONG_S))

    assert ("died", "done") == (died.code, after.code)


async def test_a_process_that_dies_between_jobs_is_replaced(odd):
    """No caller sees that an idle process ended."""
    await odd.run("echo", b"", LONG_S)
    odd._process.kill()
    await odd._process.wait()

    assert (await odd.run("echo", b"2", LONG_S)).ok


async def test_cancelling_the_call_stops_the_job(odd):
    """A job without a caller does not delay the next one."""
    call = asyncio.create_task(odd.run("forever", b"", LONG_S))
    await started_job(odd)
    call.cancel()

    assert (await odd.run("echo", b"", LONG_S)).ok
    assert call.cancelled()


async def test_a_cancelled_job_that_waits_is_never_begun(odd):
    """Jobs are skipped after the end of their caller."""
    first = asyncio.create_task(odd.run("echo", b"", LONG_S))
    second = asyncio.create_task(odd.run("die", b"", LONG_S))
    await asyncio.sleep(0)
    second.cancel()

    assert (await first).ok
    assert (await odd.run("echo", b"", LONG_S)).ok
    assert 1 == odd.starts


@pytest.mark.parametrize(
    ("kind", "code"), [("odd", "error"), ("refuse", "invalid"), ("unknown", "invalid")]
)
async def test_faults_are_values(odd, kind, code):
    """A job that raises returns the error, and the process continues."""
    outcome = await odd.run(kind, b"", LONG_S)

    assert code == outcome.code
    assert kind in outcome.message
    assert (await odd.run("echo", b"", LONG_S)).ok
    assert 1 == odd.starts


async def test_what_a_library_prints_does_not_disturb(odd):
    """Standard output is reserved for the answers."""
    assert b"7" == (await odd.run("chatter", b"7", LONG_S)).body


async def test_the_process_is_polite(odd):
    """The process has a lower scheduling priority than the daemon."""
    assert int((await odd.run("nice", b"", LONG_S)).body) >= 10


async def test_closing_ends_everything():
    """Waiting and running jobs end as closed, the process has ended, later calls raise an error."""
    pool = WorkerPool(ODD)
    await pool.start()
    calls = [asyncio.create_task(pool.run("forever", b"", LONG_S)) for _ in range(2)]
    await started_job(pool)
    process = pool._process
    assert process is not None
    await pool.close()

    assert ["closed", "closed"] == [(await call).code for call in calls]
    assert process.returncode is not None
    assert "closed" == (await pool.run("echo", b"", LONG_S)).code


async def test_a_process_that_does_not_start_fails_the_job_and_not_the_pool():
    """A missing module is a value, too."""
    async with WorkerPool("tests.unit.workers.nothere") as pool:
        assert "died" == (await pool.run("echo", b"", LONG_S)).code


async def test_the_loop_goes_on_while_a_group_is_solved():
    """The real kinds: a question is answered in the process while the loop keeps turning."""
    levels = (Level("rack"), Level("node", LevelRule("spread")))
    leaves = tuple(Leaf((f"r{n % 3}", f"n{n:02}"), 3) for n in range(9))
    question = questions.Place(Instance(levels, leaves, 8))
    async with WorkerPool() as pool:
        call = asyncio.create_task(pool.run("question", question, LONG_S))
        turns = 0
        while not call.done():
            turns += 1
            await asyncio.sleep(0)
        outcome = call.result()

    assert outcome.ok, outcome.message
    solution = msgspec.json.decode(outcome.body, type=questions.Solution)
    assert solution.placed.optimal
    assert [3, 3, 2] == sorted(filter(None, solution.placed.counts), reverse=True)
    assert turns > 10
