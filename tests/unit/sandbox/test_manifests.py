"""Manifests from files: all documents, in order, and every mistake with its place."""

from pathlib import Path

import pytest

from scheduler.base.clock import ManualClock
from scheduler.base.errors import InputError
from scheduler.sandbox import manifests
from scheduler.sandbox.kinds.kinds import CONFIGMAPS, PODS
from scheduler.sandbox.start import new_store

MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {a: '%s'}\n"


def store():
    return new_store(ManualClock(1000.0), seed=1, with_crds=False)


def test_documents_lists_and_folders_are_taken_apart(tmp_path: Path):
    """Files of a folder are sorted by name; documents and list items keep their order."""
    (tmp_path / "b.yaml").write_text(MAP % ("three", 1))
    (tmp_path / "a.yaml").write_text(
        f"---\n{MAP % ('one', 1)}---\n# nothing\n---\n{MAP % ('two', 1)}"
    )
    (tmp_path / "c.json").write_text(
        '{"apiVersion": "v1", "kind": "List", "items": '
        '[{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "four"}}]}'
    )
    (tmp_path / "notes.txt").write_text("no manifest")
    found = list(manifests.read([str(tmp_path)]))

    assert ["one", "two", "three", "four"] == [each.obj["metadata"]["name"] for each in found]
    assert [f"{tmp_path / 'a.yaml'}:2", f"{tmp_path / 'a.yaml'}:9"] == [e.where for e in found[:2]]


def test_namespaces_come_before_what_is_in_them():
    """A snapshot names its objects in any order; objects that others need are created first."""
    kinds = ["Pod", "Namespace", "ConfigMap", "CustomResourceDefinition", "Pod"]
    text = "---\n".join(
        f"{{apiVersion: v1, kind: {kind}, metadata: {{name: n{i}}}}}\n"
        for i, kind in enumerate(kinds)
    )
    found = manifests.in_order(manifests.parse(text, "f"))

    assert ["n3", "n1", "n0", "n2", "n4"] == [each.obj["metadata"]["name"] for each in found]


def test_applying_creates_and_then_changes():
    """The second time an object is changed, not refused."""
    here = store()
    (first,) = manifests.parse(MAP % ("one", 1), "f")
    (second,) = manifests.parse(MAP % ("one", 2), "f")

    assert "configmap/one created" == manifests.apply(here, first)
    assert "configmap/one configured" == manifests.apply(here, second)
    assert {"a": "2"} == here.get(CONFIGMAPS, "default", "one").obj["data"]


def test_objects_pass_the_rules_of_the_server():
    """These objects are defaulted as through HTTP."""
    here = store()
    spec = "{containers: [{name: a, image: b}]}"
    text = f"{{apiVersion: v1, kind: Pod, metadata: {{name: p}}, spec: {spec}}}"
    (pod,) = manifests.parse(text, "f")
    manifests.apply(here, pod)

    assert "Always" == here.get(PODS, "default", "p").obj["spec"]["restartPolicy"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a: 1\nb: }\n", "f:2:4: "),
        ("--- \n- 1\n", "f:2: not a Kubernetes object"),
        ("kind: Pod\n", "f:1: apiVersion and kind are missing"),
    ],
)
def test_what_is_no_manifest_is_refused(text, complaint):
    """The message begins with file and line."""
    with pytest.raises(InputError) as caught:
        list(manifests.parse(text, "f"))

    assert complaint in str(caught.value)


def test_refusals_carry_the_place():
    """An unknown kind and an invalid object are reported with file and line."""
    here = store()
    for text, complaint in (
        ("\n\napiVersion: x/v1\nkind: Odd\n", 'f:3: no kind "Odd" in version "x/v1"'),
        ("{apiVersion: v1, kind: Pod, metadata: {name: p}}", "spec.containers: Required value"),
    ):
        (manifest,) = manifests.parse(text, "f")
        with pytest.raises(InputError) as caught:
            manifests.apply(here, manifest)
        assert complaint in str(caught.value)


def test_a_missing_file_is_reported(tmp_path: Path):
    """The message names the file."""
    with pytest.raises(InputError, match=r"gone\.yaml: cannot be read"):
        list(manifests.read([str(tmp_path / "gone.yaml")]))
