"""Applications, topologies and nodes for tests of the network plugins, as plain manifests."""

from scheduler.testing import node, pod

GROUP = "appgroup.diktyo.x-k8s.io"
WORKLOAD = "appgroup.diktyo.x-k8s.io.workload"
REGION = "topology.kubernetes.io/region"
ZONE = "topology.kubernetes.io/zone"


def placed_node(name, region="", zone="", **more):
    """Return a node of a region and zone; "" leaves the label out."""
    labels = {key: value for key, value in ((REGION, region), (ZONE, zone)) if value}
    return node(name, labels=labels, **more)


def member(name, workload, on="", group="app", **more):
    """Return a pod of a workload; `on` is its node."""
    labels = {GROUP: group, WORKLOAD: workload}
    return pod(name, labels=labels, node_name=on, **more)


def app_group(workloads, name="app", namespace="default", order=(), algorithm="KahnSort"):
    """Return an AppGroup from workload → {dependency: (limit, bandwidth) or limit}."""

    def dependency(label, needs):
        limit, bandwidth = needs if isinstance(needs, tuple) else (needs, None)
        found = {"workload": _ref(label), "maxNetworkCost": limit}
        return found | ({"minBandwidth": bandwidth} if bandwidth is not None else {})

    return {
        "apiVersion": "appgroup.diktyo.x-k8s.io/v1alpha1",
        "kind": "AppGroup",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "numMembers": len(workloads),
            "topologySortingAlgorithm": algorithm,
            "workloads": [
                {
                    "workload": _ref(label),
                    "dependencies": [dependency(one, needs) for one, needs in on.items()],
                }
                for label, on in workloads.items()
            ],
        },
        "status": {
            "topologyOrder": [
                {"workload": _ref(label), "index": index} for index, label in enumerate(order, 1)
            ]
        },
    }


def topology(regions=(), zones=(), name="nt-default", table="UserDefined", both=True):
    """Return a NetworkTopology from (origin, destination, cost[, capacity]) per level."""
    levels = [
        {"topologyKey": key, "originList": _origins(paths, both)}
        for key, paths in ((REGION, regions), (ZONE, zones))
    ]
    return {
        "apiVersion": "networktopology.diktyo.x-k8s.io/v1alpha1",
        "kind": "NetworkTopology",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"weights": [{"name": table, "topologyList": levels}]},
    }


def _origins(paths, both):
    listed: dict[str, list[dict[str, object]]] = {}
    for origin, destination, cost, *capacity in paths:
        for ends in ((origin, destination), (destination, origin))[: 2 if both else 1]:
            path = {"destination": ends[1], "networkCost": cost}
            if capacity:
                path["bandwidthCapacity"] = capacity[0]
            listed.setdefault(ends[0], []).append(path)
    return [{"origin": origin, "costList": costs} for origin, costs in listed.items()]


def _ref(label):
    return {"kind": "Deployment", "apiVersion": "apps/v1", "name": f"{label}-d", "selector": label}
