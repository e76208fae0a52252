"""A pod names a group by a label, an annotation or a field of a known source, or names none."""

import importlib
import pkgutil
from typing import Any

import msgspec
import pytest

from scheduler.groups.sources import configmap, coscheduling, grove, kueue, registry
from scheduler.objects.groups.appgroup import GROUP_LABEL
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
    assert registry.names_group(NAMING[source])
    assert registry.group_of(NAMING[source]).endswith(
        "default/" + ("job-g" if source == "derived" else "g")
    )


def test_a_pod_without_them_names_none():
    """Other labels and annotations name no group."""
    pod = made(labels={"app": "web"}, annotations={"note": "g"})
    assert not registry.names_group(pod)
    assert not registry.group_of(pod)


def test_each_label_of_a_source_names_a_group():
    """A label that only its module knew would make its pods plain."""
    package = registry.__package__ or ""
    modules = [
        importlib.import_module(f"{package}.{one.name}")
        for one in pkgutil.iter_modules(importlib.import_module(package).__path__)
    ]
    labels = {module.LABEL for module in modules if hasattr(module, "LABEL")}

    assert len(labels) >= 4
    for label in labels:
        assert registry.group_of(made(labels={label: "g"})).endswith("default/g"), label
