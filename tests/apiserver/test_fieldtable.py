"""The sandbox's field table equals the real API server's."""

import json

import pytest

from scheduler.base.release import V1_37
from scheduler.sandbox.kinds.kinds import PODS, RELEASES, of_release
from scheduler.sandbox.kinds.typetable import type_table
from tests.apiserver.fieldtable import build, build_since, shipped
from tests.apiserver.realcluster import RealCluster, start_cluster


def test_the_table_is_the_real_servers(real_cluster: RealCluster):
    """Names, types and merge keys of every served kind, from the server's own OpenAPI."""
    if real_cluster.release >= V1_37:
        pytest.skip("types.json is of 1.36; the next case compares what 1.37 has besides")
    _, document = real_cluster.request("GET", "/openapi/v2")
    made = build(document)
    table = shipped("types.json")

    assert made["kinds"] == table["kinds"]
    assert sorted(made["types"]) == sorted(table["types"])
    assert json.dumps(made["types"], sort_keys=True) == json.dumps(table["types"], sort_keys=True)


@pytest.mark.real
def test_what_the_next_release_has_besides_is_its_servers():
    """The additions of the next release equal its server's: groups of pods, Jobs' fields about
    them, and fields of pods whose gates are off.
    """
    with start_cluster(name="fields", is_later=True) as cluster:
        _, document = cluster.request("GET", "/openapi/v2")
    made = build_since(document, shipped("types.json"))

    table = shipped("types-1.37.json")
    assert (made["kinds"], made["types"]) == (table["kinds"], table["types"])
    assert made["gated"] == table["gated"]


def test_every_type_is_linked():
    """No field refers to a type that the table lacks, and numbers belong to known fields."""
    for name in type_table().names():
        known = type_table().shape(name).fields or {}
        numbered = type_table().wire(name).values()
        assert [] == [f.name for f in numbered if not f.inlined and f.name not in known]


def test_stored_kinds_have_a_type():
    """A kind without a type could not be decoded strictly."""
    served = {row for release in RELEASES for row in of_release(release)}
    stored = [row for row in served if "list" in row.verbs]

    assert [] == [row.kind for row in stored if type_table().of_resource(row) is None]
    assert type_table().of_resource(PODS) is type_table().shape("core.v1.Pod")
