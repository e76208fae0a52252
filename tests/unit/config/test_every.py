"""`config check` names every mistake of a file, also those that an earlier one hides."""

import pytest

from scheduler.config.every import every_problem
from scheduler.framework.registry import Registry
from scheduler.intree import IN_TREE

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
# Wrong in all steps: a type, two unknown fields, an argument, a plugin and a rule between fields.
ALL = (
    HEAD
    + """\
parallelism: x
profile: []
percentageOfNodesToScore: 150
profiles:
- schedulerNam: a
  plugins:
    multiPoint:
      enabled:
      - name: NodeResourcesFitt
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: Foo}}
"""
)


def found(text):
    """Return the line of each mistake and the start of its text."""
    problems = every_problem(text, file="f", registry=Registry(IN_TREE))
    return [(one.line, one.text) for one in problems]


def test_mistakes_of_all_steps_are_named_once():
    """No mistake hides another, and consequences of one are not reported."""
    lines = [line for line, _ in found(ALL)]
    assert [3, 4, 5, 7, 11, 14] == sorted(lines)


def test_an_object_in_braces_is_not_missed_when_its_name_is_wrong():
    """The remaining fields without the name are not reported as a mistake."""
    lists = "profiles: [{schedulerName: a, plugins: {score: {enabled: [{name: Foo}]}}}]\n"
    assert [(3, True)] == [(line, '"Foo"' in text) for line, text in found(HEAD + lists)]


@pytest.mark.parametrize("text", [HEAD, HEAD + "profiles: [{schedulerName: a}]\n"])
def test_a_valid_file_has_none(text):
    """No mistake is reported."""
    assert [] == found(text)


@pytest.mark.parametrize("text", ["", "a: [", "5", HEAD + "profiles: 5\n"])
def test_an_unreadable_part_is_reported_once(text):
    """If no part can be left out, the reading ends with the mistakes so far."""
    assert 1 == len(found(text))
