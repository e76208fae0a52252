"""Sakkara's cases as Kubernetes objects: a topology, a group, nodes with capacity for members.

One slot is one CPU: a leaf with n slots is a node with n CPUs, a member requests one (`pod_slots`
for more). Running groups are bound pods with their ConfigMap; fixed pods have the newcomer's
priority, because a pod of lower priority could be a victim.
"""

import json

TOPOLOGY = "topology"
PLENTY = "4Ti"


def config_map(name, label, data, namespace="default"):
    """Return a ConfigMap with the label of Trellis."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace, "labels": {label: ""}},
        "data": data,
    }


def topology(case):
    """Return the topology ConfigMap of a case."""
    return config_map(
        TOPOLOGY,
        "sakkara.topology",
        {
            "level-names": json.dumps(case["levels"]),
            "tree": json.dumps(emptied(case["tree"])),
            "resource-names": '["cpu", "memory"]',
        },
    )


def emptied(tree):
    """Return the tree as Sakkara writes it: leaves are empty objects."""
    return {name: emptied(below) if isinstance(below, dict) else {} for name, below in tree.items()}


def leaves(tree):
    """Return the slots of each leaf by name."""
    found: dict[str, int] = {}
    for name, below in tree.items():
        found |= leaves(below) if isinstance(below, dict) else {name: below}
    return found


def paths(tree, above=()):
    """Return the names on the path to each leaf, the leaf last."""
    found: dict[str, tuple[str, ...]] = {}
    for name, below in tree.items():
        is_inner = isinstance(below, dict)
        found |= paths(below, (*above, name)) if is_inner else {name: (*above, name)}
    return found


def group(spec, name):
    """Return the group ConfigMap of a case."""
    return config_map(
        name,
        "sakkara.group",
        {
            "name": name,
            "size": str(spec["size"]),
            "priority": str(spec.get("priority", 0)),
            "constraints": json.dumps(spec.get("constraints", {})),
        },
    )


def node(name, slots):
    """Return a node with this number of slots."""
    amounts = {"cpu": str(slots), "memory": PLENTY, "pods": "1000"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def pod(name, *, cpus=1, priority=0, of="", on=""):
    """Return a member of a group, bound when it is on a node."""
    labels = {"sakkara.group.name": of} if of else {}
    spec = {
        "schedulerName": "trellis",
        "priority": priority,
        "containers": [{"name": "main", "resources": {"requests": {"cpu": str(cpus)}}}],
    }
    if on:
        spec["nodeName"] = on
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": name, "labels": labels},
        "spec": spec,
        "status": {"phase": "Running" if on else "Pending"},
    }


def objects(case):
    """Return all objects of a case but the members that wait."""
    spec, name = case["group"], case["group"].get("name", "group")
    found = [topology(case), group(spec, name)]
    found += [node(leaf, slots) for leaf, slots in leaves(case["tree"]).items()]
    for running in case.get("running", ()):
        size = sum(running["placement"].values())
        found.append(group({"size": size, "priority": running["priority"]}, running["name"]))
        places = [leaf for leaf, number in running["placement"].items() for _ in range(number)]
        found += [
            pod(
                f"{running['name']}-{at}",
                cpus=running.get("pod_slots", 1),
                priority=running["priority"],
                of=running["name"],
                on=leaf,
            )
            for at, leaf in enumerate(places)
        ]
    for leaf, number in case.get("fixed", {}).items():
        priority = spec.get("priority", 0)
        found += [pod(f"fixed-{leaf}-{at}", priority=priority, on=leaf) for at in range(number)]
    return found


def members(case):
    """Return the members that wait for a place."""
    spec, name = case["group"], case["group"].get("name", "group")
    return [
        pod(
            f"{name}-m{at}",
            cpus=spec.get("pod_slots", 1),
            priority=spec.get("priority", 0),
            of=name,
        )
        for at in range(spec["size"])
    ]
