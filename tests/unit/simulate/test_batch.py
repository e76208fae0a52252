"""`--batch`: a line in, a line out, in order, whatever the lines hold."""

import json

import pytest

from scheduler.base.errors import InputError
from scheduler.framework.registry import Registry
from scheduler.intree import IN_TREE
from scheduler.simulate.batch import Batch, moment
from scheduler.simulate.setups import Setups
from scheduler.simulate.stage import AnswerOptions
from scheduler.testing import node
from tests.unit.simulate.asking import HEAD, pod

PACK = f"{HEAD}profiles: [{{schedulerName: pack}}]\n"


def no_file(name):
    raise InputError("cannot be read: No such file or directory", where=name)


@pytest.fixture(scope="module")
def batch():
    return Batch(Setups(Registry(IN_TREE)), AnswerOptions(), no_file)


def ask(batch, **case):
    return json.loads(batch.answer(json.dumps(case).encode()))


def test_a_case_and_its_answer(batch):
    """The id is returned unchanged, whatever its type; details are there on demand."""
    objects = [node("n"), pod("p")]
    plain = ask(batch, id="one", objects=objects)
    detailed = ask(batch, id={"any": [1]}, objects=objects, details=True)

    assert ["id", "simulation"] == list(plain)
    assert "n" == plain["simulation"]["pods"][0]["node"]
    assert "nodes" not in plain["simulation"]["pods"][0]
    assert {"any": [1]} == detailed["id"]
    assert ["n"] == [one["name"] for one in detailed["simulation"]["pods"][0]["nodes"]]


def test_pending_pods_stand_apart(batch):
    """The equivalent of `-f`: these pods are placed whether they name a profile or not."""
    bare = pod("p", spec={"schedulerName": "default-scheduler"})

    assert [] == ask(batch, objects=[node("n"), bare])["simulation"]["pods"]
    got = ask(batch, objects=[node("n")], pending=[bare])
    assert ["p"] == [one["name"] for one in got["simulation"]["pods"]]


@pytest.mark.parametrize(
    "config",
    [
        {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
        | {"profiles": [{"schedulerName": "pack"}]},
        PACK,
    ],
)
def test_a_case_may_bring_its_configuration(batch, config):
    """The configuration is an object or a text; the next case has the default again."""
    objects = [node("n"), pod("p", spec={"schedulerName": "pack"})]

    got = ask(batch, objects=objects, config=config)
    assert "pack" == got["simulation"]["pods"][0]["profile"]
    assert [] == ask(batch, objects=objects, config=None)["simulation"]["pods"]


def test_a_configuration_may_be_a_file():
    """A single word names a file; it is read once per case and decoded once."""
    batch = Batch(Setups(Registry(IN_TREE)), AnswerOptions(), {"pack.yaml": PACK}.__getitem__)
    objects = [node("n"), pod("p", spec={"schedulerName": "pack"})]

    got = ask(batch, objects=objects, config="pack.yaml")
    assert "n" == got["simulation"]["pods"][0]["node"]


@pytest.mark.parametrize(
    ("line", "identity", "code", "message"),
    [
        (b"{", None, "InvalidCase", "Input data was truncated"),
        (b'{"id": 7}', 7, "InvalidCase", "missing required field `objects`"),
        (b'{"id": 7, "objects": 5}', 7, "InvalidCase", "Expected `array`, got `int`"),
        (b'{"id": 7, "objects": [], "nodes": []}', 7, "InvalidCase", "unknown field `nodes`"),
        (b'{"id": "a", "objects": [5]}', "a", "InvalidObject", "objects[0]: "),
        (b'{"id": "a", "objects": [{}]}', "a", "InvalidObject", "objects[0]: kind is missing"),
        (b'{"id": "a", "objects": [], "now": "later"}', "a", "InvalidObject", 'now: "later" is'),
        (b'{"id": "a", "objects": [], "config": {}}', "a", "InvalidConfig", "config:1:1: Object"),
        (b'{"id": "a", "objects": [], "config": "f"}', "a", "InvalidObject", "f: cannot be read"),
        (b'{"id": "a", "objects": [' + b"[" * 50_000, None, "InvalidCase", "nested too deeply"),
        (b'{"id": "\xff", "objects": []}', "?", "InvalidCase", ""),
        (
            b'{"id": 1, "objects": [{"kind": "Pod", "metadata": {"name": "\xff"}}]}',
            1,
            "Invalid",
            "",
        ),
    ],
)
def test_a_wrong_line_is_answered_like_any_other(batch, line, identity, code, message):
    """An error has a code and one line of text, and the id if it can be read."""
    answer = json.loads(batch.answer(line).decode(errors="replace"))

    assert answer["error"]["code"].startswith(code)
    assert message in answer["error"]["message"]
    assert "\n" not in answer["error"]["message"]
    if identity != "?":
        assert identity == answer["id"]


def test_cases_know_nothing_of_each_other(batch):
    """The same case gives the same bytes, whatever the cases before it."""
    case = json.dumps({"id": 1, "objects": [node("n"), pod("p")], "details": True}).encode()
    first = batch.answer(case)
    ask(batch, id=2, objects=[node("other"), pod("p", requests={"cpu": "900"})])

    assert first == batch.answer(case)


def test_times():
    """A time is RFC 3339 or seconds; any other text is refused."""
    assert 1767225600.0 == moment("2026-01-01T00:00:00Z") == moment(1767225600)
    for wrong in ("soon", -1, 1e300, float("nan"), ""):
        with pytest.raises(InputError):
            moment(wrong)
