"""Classes are called by words of the field, or by words that the glossary explains."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

from tests.house.source import PRODUCT, ROOT, name_of, python_files, tree_of

# Words of Python, numpy, HTTP, Kubernetes and plain English that need no explanation, one a line.
FIELD = ROOT / "tests/house/nouns.txt"


# Names of two classes, with the reason: both are the field's own words, or say the same of one thing.
TWINS = {
    "Access": "operators may not know scheduler.kube: their protocol for its class",
    "Api": "as Access",
    "Bind": "an effect, and kube-scheduler's extension point",
    "Counter": "of devices in Kubernetes' API, and Prometheus' metric",
    "Credentials": "as Access",
    "JobOutcome": "as Access, for scheduler.workers",
    "NodeAffinity": "a pod's field, and kube-scheduler's plugin",
    "Response": "as Access",
}


def classes() -> Iterator[tuple[str, str]]:
    """Yield the name of each public class, and where it is."""
    for file in python_files(*PRODUCT):
        for node in ast.walk(tree_of(file)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                yield node.name, name_of(file)


def nouns() -> dict[str, str]:
    """Return the last word of each public class's name, and a place where it is used."""
    found = {}
    for name, file in classes():
        words = re.findall(r"[A-Z]+(?![a-z])|[A-Z][a-z0-9]*", name)
        found[words[-1].lower()] = f"{file}: {name}"
    return found


def test_a_name_stands_for_one_class():
    """Say of which kind something is where another class has the plain word."""
    files = defaultdict(list)
    for name, file in classes():
        files[name].append(file)

    assert {} == {n: two for n, two in files.items() if len(two) > 1 and n not in TWINS}
    assert set() == {name for name in TWINS if len(files[name]) < 2}


def test_a_noun_of_our_own_stands_in_the_glossary():
    """Call a class by a word that its readers know; else explain it in docs/glossary.md."""
    field = set(FIELD.read_text().split())
    rows = re.findall(r"^\| ([^|]+) \|", (ROOT / "docs/glossary.md").read_text(), re.MULTILINE)
    explained = {word.strip().lower() for row in rows for word in row.split()}

    assert {} == {n: where for n, where in nouns().items() if n not in field | explained}


def test_no_word_is_called_known_and_explained():
    """Each word has one reason to be allowed."""
    field = FIELD.read_text().split()
    rows = re.findall(r"^\| (\w+) \|", (ROOT / "docs/glossary.md").read_text(), re.MULTILINE)

    assert [] == sorted({row.lower() for row in rows} & set(field))
    assert sorted(set(field)) == field
