"""The helper process by itself: it never outlives its parent."""

import subprocess
import sys

import msgspec

from scheduler.workers import frames

ODD = "tests.unit.workers.oddjobs"
LONG_S = 60.0


def answer_of(process):
    """Return the next frame."""
    frame = frames.read(process.stdout)
    assert frame is not None
    return frame


def started_process():
    """Return a helper process that has reported that it is warm."""
    command = [sys.executable, "-m", "scheduler.workers.process", ODD]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    frame = answer_of(process)
    assert frames.Reply(0) == msgspec.json.decode(frame[0], type=frames.Reply)
    return process


def test_it_ends_with_its_input_even_in_the_middle_of_a_job():
    """When the daemon has ended the process ends, whatever its job."""
    with started_process() as process:
        process.stdin.write(frames.pack(frames.JobRequest(1, "forever")))
        process.stdin.close()

        assert 0 == process.wait(LONG_S)
        process.stdin = None


def test_a_frame_that_breaks_off_is_the_end():
    """Half a frame is no job."""
    with started_process() as process:
        process.stdin.write(frames.pack(frames.JobRequest(1, "echo"), b"1")[:-1])
        process.stdin.close()

        assert 0 == process.wait(LONG_S)
        assert b"" == process.stdout.read()
        process.stdin = None


def test_jobs_are_answered_in_order():
    """Frames have header, body and blob; numbers match responses with requests."""
    with started_process() as process:
        for number in (1, 2):
            process.stdin.write(frames.pack(frames.JobRequest(number, "echo"), b"ab"))
        process.stdin.flush()
        answers = [answer_of(process) for _ in (1, 2)]
        process.stdin.close()
        process.stdin = None

    heads = [msgspec.json.decode(head, type=frames.Reply).id for head, _, _ in answers]
    assert [1, 2] == heads
    assert [(b"ab", b"ba")] * 2 == [(body, blob) for _, body, blob in answers]
