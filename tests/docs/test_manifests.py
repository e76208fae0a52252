"""Manifests on pages are complete: they can be applied unchanged."""

import pytest

from scheduler.base.clock import RealClock
from scheduler.sandbox import manifests
from scheduler.sandbox.kinds.kinds import RELEASES
from scheduler.sandbox.start import new_store
from tests.docs.pages import ROOT, blocks

PAGES = sorted(str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs/howto").glob("*.md"))
# Files of other programs that happen to be YAML, and configurations, which have a test of their
# own.
OTHERS = ("Configuration", "ClusterShape", "Scenario", "Policy", "ClusterQueue")
SHOWN = [
    (page, number, block.text)
    for page in PAGES
    for number, block in enumerate(blocks(page, "yaml"))
    if "kind:" in block.text and not any(f"{other}\n" in block.text for other in OTHERS)
]


@pytest.mark.parametrize(
    ("page", "text"),
    [(page, text) for page, _, text in SHOWN],
    ids=[f"{page}-{number}" for page, number, _ in SHOWN],
)
def test_a_manifest_is_applied(page: str, text: str):
    """The server accepts each manifest of the pages: its kinds, its fields and its name."""
    is_later = "scheduling.k8s.io/v1alpha3" in text
    store = new_store(RealClock(), release=RELEASES[is_later])
    if "volcano.sh/v1" in text:
        definitions = ROOT / "docs/examples/volcano/definitions.yaml"
        for one in manifests.parse(definitions.read_text(), str(definitions)):
            manifests.apply(store, one)
    done = [manifests.apply(store, one) for one in manifests.parse(text, page)]

    assert done
    assert all(line.endswith((" created", " configured")) for line in done)


def test_there_are_manifests():
    """A page for gangs shows at least one manifest of each kind."""
    assert 3 <= len([page for page, _, _ in SHOWN if page == "howto/gang-scheduling.md"])
