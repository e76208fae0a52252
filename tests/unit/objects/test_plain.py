"""Plain manifests become structs."""

from datetime import UTC, datetime

import pytest

from scheduler.base.errors import ObjectError
from scheduler.objects.plain import read_node, read_object, read_pod


def test_nulls_mean_not_set_and_times_become_text():
    """The result of YAML equals the object that the API server would have sent."""
    pod = read_pod(
        {
            "metadata": {
                "name": "p",
                "labels": None,
                "creationTimestamp": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
            },
            "spec": {"containers": [{"name": "c", "resources": None}], "nodeSelector": None},
        }
    )

    assert "2026-01-02T03:04:05Z" == pod.metadata.creation_timestamp
    assert pod.spec.node_selector is None


def test_namespace_and_uid_are_filled_in():
    """The API server never shows an object without them."""
    assert "default/p" == read_pod({"metadata": {"name": "p"}}).key
    assert "" == read_node({"metadata": {"name": "n"}}).metadata.namespace
    first, second = (
        read_pod({"metadata": {"name": "p", "namespace": ns}}).metadata.uid for ns in ("a", "b")
    )
    assert first != second


def test_a_kind_is_read_by_its_name():
    """Unknown kinds and unnamed objects are errors."""
    kind, service = read_object({"kind": "Service", "metadata": {"name": "s"}})

    assert ("Service", "default") == (kind.kind, service.metadata.namespace)
    with pytest.raises(ObjectError, match='Gadget g: kind "Gadget" is not one that Trellis reads'):
        read_object({"kind": "Gadget", "metadata": {"name": "g"}})
    with pytest.raises(ObjectError, match='kind "None"'):
        read_object([])
