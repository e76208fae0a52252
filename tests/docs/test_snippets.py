"""YAML on pages is valid: objects that parse, configurations that load."""

import re
import textwrap

import pytest
import yaml

from scheduler.base.meters import Meters
from scheduler.config import load
from scheduler.intree import registry
from scheduler.serve.metrics import POD_LIMIT, POD_REQUEST
from tests.docs.pages import ROOT, blocks

PAGES = sorted(str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md"))
SNIPPETS = [
    (page, number, block.text)
    for page in PAGES
    for number, block in enumerate(blocks(page, "yaml"))
    if not block.file  # a tutorial uses the file
]


@pytest.mark.parametrize(
    ("page", "text"),
    [(page, text) for page, _, text in SNIPPETS],
    ids=[f"{page}-{number}" for page, number, _ in SNIPPETS],
)
def test_a_snippet_is_read(page: str, text: str):
    """Strictly, where it is a configuration."""
    documents = list(yaml.safe_load_all(textwrap.dedent(text)))

    assert documents
    if any("Configuration" in str(one.get("kind")) for one in documents if isinstance(one, dict)):
        load(text, file=page, registry=registry())


def test_metrics_that_pages_name_are_there():
    """A metric on a page is in the daemon's table, or in an agent's."""
    known = {spec.name for spec in Meters.table().values()} | {POD_REQUEST.name, POD_LIMIT.name}
    pages = [ROOT / "docs" / page for page in PAGES]
    named = {
        name
        for page in pages
        for name in re.findall(r"\b(?:scheduler|trellis)_[a-z_]+_[a-z]+\b", page.read_text())
    }

    agents = "".join(file.read_text() for file in (ROOT / "operators/agents").rglob("*.py"))

    assert named
    assert [] == sorted(
        name
        for name in named
        if re.sub(r"_(bucket|sum|count)$", "", name) not in known and name not in agents
    )
