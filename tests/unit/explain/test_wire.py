"""A question about a cluster is equal after serialisation for another process."""

import json
from pathlib import Path

import pytest

from scheduler.base.errors import InputError
from scheduler.cli.jobs import pagejobs
from scheduler.config import default_config
from scheduler.explain.questions import Question
from scheduler.explain.responder import QuestionResponder
from scheduler.explain.wire import packed, unpacked
from scheduler.framework.registry import Registry
from scheduler.intree import IN_TREE
from scheduler.simulate.setups import Setups
from scheduler.simulate.stage import AnswerOptions, Setup
from scheduler.snapshot.documents import SourceFile, items_of
from scheduler.snapshot.snapshot import read_snapshot

pytestmark = pytest.mark.allow_blocking("a test reads its files")
CLUSTER = Path(__file__).parents[3] / "docs/examples/whatif/cluster.yaml"


def snapshot():
    """A cluster with workloads, claims, groups."""
    return read_snapshot(items_of(SourceFile("cluster", CLUSTER.read_bytes())))


def test_it_comes_out_as_it_went_in():
    """Objects are in their order, with the question and the form of the answer."""
    there = snapshot()
    question = Question("explain", pod="default/x")
    lines = list(packed(question, there, AnswerOptions(now=3.0), "text"))
    reported, back, options, config = unpacked(b"".join(lines))

    assert (question, AnswerOptions(now=3.0), "text") == (reported, options, config)
    for field in ("nodes", "objects", "bound", "unbound", "given", "taken_at", "notices"):
        assert getattr(there, field) == getattr(back, field), field


@pytest.mark.parametrize("lines", [b"", b"{}", b"x\n", b'{"question":{"what":"dance"}}'])
def test_what_is_no_question_is_refused(lines):
    """The error names the fault."""
    with pytest.raises(InputError, match="not a question about a cluster"):
        unpacked(lines)


@pytest.mark.parametrize("what", ["plan", "explain", "change"])
def test_the_process_answers_as_one_would_here(what):
    """The helper process returns the same bytes as this process."""
    there = snapshot()
    registry = Registry(IN_TREE)
    here = QuestionResponder(Setups(registry, Setup(default_config(registry), registry)))
    pod = there.unbound[0].key if there.unbound else there.bound[0].key
    question = Question(what, pod=pod, manifests="")
    options = AnswerOptions(now=there.taken_at)
    body, _ = pagejobs.run_page(b"".join(packed(question, there, options)))
    import msgspec

    assert json.loads(msgspec.json.encode(here.answer(question, there, options))) == json.loads(
        body
    )


def test_an_invalid_request_gets_the_reason():
    """The process's answer has the reason, as in the calling process."""
    with pytest.raises(InputError, match="no such pod"):
        pagejobs.run_page(
            b"".join(packed(Question("explain", pod="a/none"), snapshot(), AnswerOptions()))
        )
