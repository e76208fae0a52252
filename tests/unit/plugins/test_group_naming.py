"""A pod names a group by a label, an annotation or a field of a known source, or names none."""

from typing import Any

import msgspec
import pytest

from scheduler.groups.sources import configmap, coscheduling, grove, kueue, registry
from scheduler.objects.finished import GROUP_LABELS, names_group
from scheduler.objects.groups import GROUP_LABEL
from scheduler.objects.pod import Pod


def made(**parts: Any) -> Pod:
    spec = parts.pop("spec", {})
    return msgspec.convert(
        {"metadata": {"name": "p", "namespace": "default", "uid": "u", **parts}, "spec": spec}, Pod
    )


NAMING = {
    "ConfigMap": made(labels={configmap.LABEL: "g"}),
    "Coscheduling": made(labels={coscheduling.LABEL: "g"}),
    "Kueue": made(labels={kueue.LABEL: "g"}),
    "Grove": made(labels={grove.LABEL: "g"}),
    "AppGroup": made(labels={GROUP_LABEL: "g"}),
    "Volcano": made(annotations={"scheduling.k8s.io/group-name": "g"}),
    "KAI": made(annotations={"pod-group-name": "g"}),
    "Workload": made(spec={"schedulingGroup": {"podGroupName": "g"}}),
    "derived": msgspec.structs.replace(made(), derived_group="job-g"),
}


@pytest.mark.parametrize("source", NAMING)
def test_each_source_names_its_group(source: str):
    """The store of finished pods and the sources recognize the same pods."""
    assert names_group(NAMING[source])
    assert registry.group_of(NAMING[source]).endswith(
        "default/" + ("job-g" if source == "derived" else "g")
    )


def test_a_pod_without_them_names_none():
    """Other labels and annotations name no group."""
    pod = made(labels={"app": "web"}, annotations={"note": "g"})
    assert not names_group(pod)
    assert not registry.group_of(pod)


def test_the_labels_are_those_of_the_sources():
    """A label that a source reads and `names_group` does not would make its pods plain."""
    labels = {configmap.LABEL, coscheduling.LABEL, kueue.LABEL, grove.LABEL, GROUP_LABEL}
    assert labels == GROUP_LABELS
