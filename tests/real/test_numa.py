"""A burst of aligned pods on a real API server: no kubelet rejects one, though reports arrive
late.
"""

import json
from random import Random

import pytest
import yaml

from tests.apiserver.patience import pause, until
from tests.e2e.numacluster import PACKING, guaranteed
from tests.real.api import Api
from tests.real.background import background
from tests.real.numakubelets import REPORTS, Kubelets
from tests.real.schedulers import ROOT

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]

NAME = "NodeResourceTopologyMatch"
NODES, PODS, REPORT_S = 200, 1000, 30.0
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ROLES = "/apis/rbac.authorization.k8s.io/v1"


def configuration(args, scheduler_name):
    """Return a profile with the plugin at all its points."""
    return {
        "profiles": [
            {
                "schedulerName": scheduler_name,
                "plugins": {"multiPoint": {"enabled": [{"name": NAME}]}},
                "pluginConfig": [
                    {"name": NAME, "args": args},
                    {"name": "NodeResourcesFit", "args": {"scoringStrategy": PACKING}},
                ],
            }
        ]
    }


async def prepare(api):
    """Create the kind on the API server, and wait until the scheduler has read it."""
    definition = yaml.safe_load((ROOT / "crds/noderesourcetopologies.yaml").read_text())
    await api.expect("POST", DEFINITIONS, definition)
    rule = {
        "apiGroups": ["topology.node.k8s.io"],
        "resources": ["noderesourcetopologies"],
        "verbs": ["get", "list", "watch"],
    }
    role = {"metadata": {"name": "numa"}, "rules": [rule]}
    user = {
        "kind": "User",
        "name": "system:kube-scheduler",
        "apiGroup": "rbac.authorization.k8s.io",
    }
    ref = {"kind": "ClusterRole", "name": "numa", "apiGroup": "rbac.authorization.k8s.io"}
    await api.expect("POST", f"{ROLES}/clusterroles", role)
    binding = {"metadata": {"name": "numa"}, "subjects": [user], "roleRef": ref}
    await api.expect("POST", f"{ROLES}/clusterrolebindings", binding)

    async def is_served():
        try:
            return (await api.request("GET", REPORTS))[0] == 200
        except json.JSONDecodeError:
            return False  # a path that is not served yet is answered in plain text

    await until(is_served, "the kind to be served")


@pytest.mark.parametrize("args", [{"cacheResyncPeriodSeconds": 5}, {}], ids=["cache", "none"])
async def test_a_burst_on_a_real_api_server(audited_cluster, scheduler, report, args):
    """1,000 Guaranteed pods at once on 200 nodes, reports 30 s old: 0 refusals with the cache."""
    if scheduler.name != "trellis":
        pytest.skip("the plugin is ours")
    source = Random(3)
    async with Api(audited_cluster) as api:
        await prepare(api)
        kubelets = Kubelets(api, REPORT_S, source)
        await kubelets.create(NODES)
        _, version = await api.list("/api/v1/pods")
        pods = [guaranteed(f"p{number:04}", source.choice([2, 3, 4])) for number in range(PODS)]
        for pod in pods:
            pod["spec"]["schedulerName"] = scheduler.scheduler_name
        bodies = [json.dumps(pod).encode() for pod in pods]
        async with background(kubelets.follow(version)):
            with scheduler.start(
                audited_cluster, configuration(args, scheduler.scheduler_name)
            ) as running:
                await running.wait_ready()
                await api.create_all("/api/v1/namespaces/default/pods", bodies)
                done_s = await until(
                    lambda: len(kubelets.running) + len(kubelets.refused) == PODS,
                    "every pod to be admitted or refused",
                    600,
                )
                await pause(1.0)
    zones = [zone for node in kubelets.nodes.values() for zone in node.aligner.zones]
    free = sum(zone.free["cpu"] for zone in zones) / sum(zone.capacity["cpu"] for zone in zones)
    report(
        f"numa-{'cache' if args else 'none'}",
        {
            "refused": len(kubelets.refused),
            "running": len(kubelets.running),
            "zones": len(zones),
            "cpusInUse": round(1 - free, 3),
            "seconds": round(done_s, 1),
        },
    )

    if args:
        assert [] == kubelets.refused
    else:
        assert kubelets.refused
