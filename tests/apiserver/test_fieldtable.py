"""The field table that ships with the sandbox says what the real API server says."""

import json

from scheduler.sandbox.kinds.kinds import BUILT_IN, PODS
from scheduler.sandbox.kinds.typetable import type_table
from tests.apiserver.fieldtable import build
from tests.apiserver.realcluster import RealCluster


def test_the_table_is_the_real_servers(real_cluster: RealCluster):
    """Names, types and merge keys of every served kind, from the server's own OpenAPI."""
    _, document = real_cluster.request("GET", "/openapi/v2")
    made = build(document)
    table = type_table()

    assert made["kinds"] == table.kinds
    assert sorted(made["types"]) == table.names()
    assert json.dumps(made["types"], sort_keys=True) == json.dumps(table.raw, sort_keys=True)


def test_every_type_is_linked():
    """No field points to a type that the table does not have, and numbers name known fields."""
    for name in type_table().names():
        known = type_table().shape(name).fields or {}
        numbered = type_table().wire(name).values()
        assert [] == [f.name for f in numbered if not f.inlined and f.name not in known]


def test_stored_kinds_have_a_type():
    """A kind without one could not be decoded strictly."""
    stored = [row for row in BUILT_IN if "list" in row.verbs]

    assert [] == [row.kind for row in stored if type_table().of_resource(row) is None]
    assert type_table().of_resource(PODS) is type_table().shape("core.v1.Pod")
