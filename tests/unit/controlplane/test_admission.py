"""Admission: what other objects add to a new pod or claim, and rejections."""

from typing import Any

import pytest

from scheduler.controlplane import admission
from scheduler.controlplane.objects import AdmissionError


class Given:
    """The objects of a test, by kind."""

    def __init__(self, **kinds):
        self.kinds = kinds

    def find(self, kind, name):
        """Return the object of that name."""
        return next((one for one in self.all(kind) if one["metadata"]["name"] == name), None)

    def all(self, kind, namespace=""):
        """Return all objects of a kind."""
        return self.kinds.get(kind, [])


def runtime_class(**more):
    """Return the RuntimeClass `kata`."""
    return Given(RuntimeClass=[{"metadata": {"name": "kata"}, "handler": "kata"} | more])


def test_a_runtime_class_adds_overhead_and_scheduling():
    """The selectors are joined, tolerations that another one covers are dropped."""
    everything = {"operator": "Exists"}
    spec = {
        "runtimeClassName": "kata",
        "nodeSelector": {"a": "1"},
        "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoSchedule"}],
    }
    given = runtime_class(
        overhead={"podFixed": {"cpu": "1"}},
        scheduling={"nodeSelector": {"b": "2"}, "tolerations": [everything, everything]},
    )
    admission.apply_runtime_class(given, spec)
    assert {"cpu": "1"} == spec["overhead"]
    assert {"a": "1", "b": "2"} == spec["nodeSelector"]
    assert [everything] == spec["tolerations"]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"runtimeClassName": "cata"}, 'RuntimeClass "cata" not found'),
        ({"runtimeClassName": "kata", "nodeSelector": {"b": "3"}}, r"nodeSelector\[b\] = 2"),
        ({"runtimeClassName": "kata", "overhead": {"cpu": "9"}}, "doesn't match RuntimeClass"),
    ],
)
def test_a_pod_that_contradicts_its_runtime_class_is_refused(spec, message):
    """The API server answers 403."""
    given = runtime_class(
        overhead={"podFixed": {"cpu": "1"}}, scheduling={"nodeSelector": {"b": "2"}}
    )
    with pytest.raises(AdmissionError, match=message):
        admission.apply_runtime_class(given, spec)


EXISTS, EQUAL = {"key": "k", "operator": "Exists"}, {"key": "k", "value": "v"}
NO_EXECUTE = EXISTS | {"effect": "NoExecute"}
FIVE_SECONDS = NO_EXECUTE | {"tolerationSeconds": 5}


@pytest.mark.parametrize(
    ("own", "added", "kept"),
    [
        (EQUAL, EXISTS, [EXISTS]),
        (EXISTS, EQUAL, [EXISTS]),
        (EQUAL, EQUAL | {"operator": "Equal", "value": "w"}, None),
        (EQUAL | {"effect": "NoSchedule"}, EQUAL, [EQUAL]),
        (FIVE_SECONDS, NO_EXECUTE, [NO_EXECUTE]),
        (NO_EXECUTE, FIVE_SECONDS, [NO_EXECUTE]),
        (NO_EXECUTE, NO_EXECUTE, [NO_EXECUTE]),
        (EXISTS, EXISTS | {"key": "other"}, None),
    ],
)
def test_a_toleration_is_redundant_if_another_includes_it(own, added, kept):
    """The comparison is that of pkg/util/tolerations; None keeps both."""
    spec = {"runtimeClassName": "kata", "tolerations": [own]}
    admission.apply_runtime_class(runtime_class(scheduling={"tolerations": [added]}), spec)
    assert spec["tolerations"] == ([own, added] if kept is None else kept)


def storage_class(name, created="", default="true"):
    """Return a StorageClass whose default-class annotation has the value `default`."""
    meta = {"name": name, "annotations": {admission.DEFAULT_CLASS: default}}
    return {"metadata": meta | ({"creationTimestamp": created} if created else {})}


@pytest.mark.parametrize(
    ("classes", "given", "wanted"),
    [
        ([storage_class("a")], None, "a"),
        ([storage_class("a")], "", ""),
        ([storage_class("a")], "b", "b"),
        ([storage_class("a", default="false")], None, None),
        ([storage_class("b", "2026-01-01T00:00:00Z"), storage_class("a", "2025-01-01T00:00:00Z")],
            None, "b"),
        ([storage_class("b"), storage_class("a")], None, "a"),
    ],
)  # fmt: skip
def test_a_claim_without_a_class_takes_the_default(classes, given, wanted):
    """The newest of several defaults, then the first by name; an empty name requests no class."""
    claim = {"metadata": {"name": "c"}, "spec": {}}
    if given is not None:
        claim["spec"]["storageClassName"] = given
    admission.admit_volume_claim(Given(StorageClass=classes), claim)
    assert wanted == claim["spec"].get("storageClassName")


def test_values_of_match_label_keys_become_part_of_the_selector_once():
    """A pod that passed the API server already stays unchanged."""
    term: dict[str, Any] = {
        "labelSelector": {"matchLabels": {"a": "b"}},
        "matchLabelKeys": ["hash", "missing"],
    }
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    pod = {"metadata": {"labels": {"hash": "x"}}, "spec": {"affinity": affinity}}
    for _ in range(2):
        admission.merge_match_label_keys(pod)
        wanted = [{"key": "hash", "operator": "In", "values": ["x"]}]
        assert wanted == term["labelSelector"]["matchExpressions"]
