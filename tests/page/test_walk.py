"""A new user's four questions about a GPU cluster of 300 nodes, answered by the page.

Each is answered by at most three actions: a click, or a chosen or typed value.
tests/unit/cli/test_walk.py does the same with the command line, tests/e2e/test_walk.py on a live
cluster.
"""

import json

import pytest

from scheduler.serve.ui import PageSite
from tests.page.browser import PROGRAM, Tab, browser
from tests.page.test_page import shown
from tests.unit.cli.gpucluster import cluster

pytestmark = [
    pytest.mark.skipif(not PROGRAM, reason="needs chromium (Debian's package of that name)"),
    pytest.mark.allow_blocking("a test reads its files"),
]
SEEN: str = "document.querySelector('main').innerText.includes({})"
# The answer that is visible at the end; an action is a selector to click, or one with a value.
Action = str | tuple[str, str]
QUESTIONS: dict[str, tuple[list[Action], str]] = {
    "why does this gang wait": (
        ["#nav a[href='#/groups']"],
        "24 pods of 8 nvidia.com/gpu do not fit one rack",
    ),
    "is there room for two more training jobs": (
        ["#nav a[href='#/whatif']", ("#manifests", "JOBS"), "button.main"],
        "what-if-1",
    ),
    "what happens if rack-3 goes": (
        ["#nav a[href='#/whatif']", ("#rack", "rack-3"), "button.main"],
        "research/train-006 \u00d7 8",
    ),
    "who uses the GPUs": ([(".head select", "group")], "train-"),
}


def jobs() -> str:
    """Return two more gangs of eight whole nodes in one rack each."""
    found = []
    for number in (1, 2):
        name = f"what-if-{number}"
        made = [one for one in cluster(12) if one["metadata"]["name"].startswith("train-000")]
        text = json.dumps(made).replace("train-000", name)
        found += json.loads(text)
    for one in found:
        one["spec"].pop("nodeName", None)
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": found})


async def act(tab: Tab, action: Action) -> None:
    """Click an element, or give it a value as a user does."""
    selector, value = (action, None) if isinstance(action, str) else action
    found = f"document.querySelector({json.dumps(selector)})"
    await tab.until(f"{found} && !{found}.disabled")
    if value is None:
        await tab.run(f"{found}.click()")
        return
    text = json.dumps(jobs() if value == "JOBS" else value)
    await tab.until(
        f"{found}.tagName !== 'SELECT' || [...{found}.options].some((o) => o.value === {text})"
    )
    events = "for (const name of ['input', 'change']) one.dispatchEvent(new Event(name));"
    await tab.run(f"(() => {{ const one = {found}; one.value = {text}; {events} }})()")


async def walk(tab: Tab, question: str) -> None:
    """Answer a question on the page of the tab: the answer is visible at the end."""
    actions, answer = QUESTIONS[question]
    assert len(actions) <= 3
    for action in actions:
        await act(tab, action)
    await tab.until(SEEN.format(json.dumps(answer)), timeout_s=60)


@pytest.mark.parametrize("question", QUESTIONS)
async def test_a_question_is_answered_within_three_actions(chromium, question):
    """The answer is visible, and the console has no error."""
    work, _ = shown(cluster(300))
    page = PageSite(work.feed, work.answers)
    address = await page.start()
    async with browser(chromium) as tab:
        await tab.look(width=1400, height=900)
        await tab.open(address)
        await tab.until("document.querySelector('.unit button')")
        await walk(tab, question)
        assert [] == tab.problems
    await page.stop()
