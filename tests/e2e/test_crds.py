"""The definitions of `crds/` on a server: taken as they are, and their objects with every field."""

import json
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
import yaml

from scheduler.kube.api import Response
from tests.apiserver.patience import asked
from tests.e2e.operatorcluster import (
    CRDS,
    DEFINITIONS,
    SERVERS,
    LiveCluster,
    open_cluster,
    until_ok,
)
from tests.unit.crds.test_crds import IN_USE

pytestmark = pytest.mark.allow_blocking("servers and clients are set up on the test's loop")


@pytest.fixture(params=SERVERS)
async def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[LiveCluster]:
    async with open_cluster(request.param, tmp_path) as opened:
        yield opened


def conditions(answer: Response) -> dict[str, str]:
    """Return the conditions of a definition by type."""
    return {one["type"]: one["status"] for one in json.loads(answer.body)["status"]["conditions"]}


async def test_definitions_are_taken_and_keep_every_field(cluster: LiveCluster):
    """No warning condition, the short names exist, and objects in use are stored unchanged."""
    for path in sorted(CRDS.glob("*.yaml")):
        definition = yaml.safe_load(path.read_text())
        await cluster.send("POST", f"{DEFINITIONS}?fieldValidation=Strict", definition)
        names, group = definition["spec"]["names"], definition["spec"]["group"]
        root = f"/apis/{group}/{definition['spec']['versions'][0]['name']}"
        is_namespaced = definition["spec"]["scope"] == "Namespaced"
        objects = f"{root}/{'namespaces/default/' if is_namespaced else ''}{names['plural']}"
        await until_ok(cluster.client, objects)
        await until_ok(cluster.client, root)
        # A real server may serve the objects before it writes `Established`.
        stored = f"{DEFINITIONS}/{definition['metadata']['name']}"
        answer = await asked(
            partial(cluster.client.request, "GET", stored),
            lambda answer: "True" == conditions(answer).get("Established"),
            stored,
        )
        resources = (await cluster.send("GET", root))["resources"]

        found = conditions(answer)
        # A real server also says of kinds in groups of Kubernetes that they were approved there.
        assert "True" == found.pop("KubernetesAPIApprovalPolicyConformant", "True")
        assert {"Established": "True", "NamesAccepted": "True"} == found
        (served,) = (one for one in resources if one["name"] == names["plural"])
        assert names.get("shortNames") == served.get("shortNames")
        for kind in {names["kind"]} & set(IN_USE):
            document = {
                "apiVersion": f"{group}/v1alpha1",
                "kind": kind,
                "metadata": {"name": "all", "namespace": "default"},
            } | IN_USE[kind]
            made = await cluster.send("POST", f"{objects}?fieldValidation=Strict", document)
            document["metadata"] = made["metadata"]
            written = await cluster.send(
                "PUT", f"{objects}/all/status?fieldValidation=Strict", document
            )
            assert IN_USE[kind] == {part: written[part] for part in ("spec", "status")}
