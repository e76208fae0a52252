"""Random situations with a pending group, as manifests, and how to remove requirements in them."""

import json
from copy import deepcopy

from scheduler.testing import node
from tests.unit.plugins.devices import claim, gpu_class, local_slice
from tests.unit.plugins.groupobjects import config_map, group, members

RULES = (
    ("hard", True),
    ("min", (2, 3)),
    ("max", (1, 2)),
    ("partitions", (1, 3)),
    ("factor", (2, 3)),
)


TAINT = {"key": "a", "value": "x", "effect": "NoSchedule"}
TOLERATION = "spec.tolerations[a=x:NoSchedule]"
COSCHEDULING, KUBERNETES = "scheduling.x-k8s.io/v1alpha1", "scheduling.k8s.io/v1alpha2"


class GroupSituation:
    """A tree of racks and nodes, and a group whose members have requirements.

    `fields` are all requirements. The group is a ConfigMap with rules, or a PodGroup of either
    kind, without rules.
    """

    def __init__(self, random):
        racks = {
            f"r{rack}": {
                f"n{rack}-{at}": random.randint(0, 5) for at in range(random.randint(1, 3))
            }
            for rack in range(random.randint(2, 3))
        }
        self.nodes = [
            node(name, cpu=str(cpus), memory="64Gi", pods="110", labels=_labels(random))
            for below in racks.values()
            for name, cpus in below.items()
        ]
        tree: dict[str, dict[str, dict[str, str]]] = {
            rack: {name: {} for name in below} for rack, below in racks.items()
        }
        data = {"tree": json.dumps(tree), "level-names": json.dumps(["rack", "node"])}
        self.topology = config_map("tree", "sakkara.topology", data)
        source = random.choice(("ConfigMap", "ConfigMap", "ConfigMap", COSCHEDULING, KUBERNETES))
        rules = (
            {level: _rule(random) for level in ("rack", "node")} if source == "ConfigMap" else {}
        )
        size = random.randint(2, 6)
        spec = {"nodeSelector": {"pool": "x"}} if random.random() < 0.4 else {}
        self.members = members("g", size, cpu=str(random.randint(1, 3)), spec=spec)
        self.group = group("g", size, rules) if rules else self._pod_group(source, size)
        self.fields = ["requests[cpu]", *(["spec.nodeSelector[pool]"] if spec else [])]
        self.devices = []
        if random.random() < 0.3:
            self._ask_for_devices(random)
        if random.random() < 0.3:
            for one in self.nodes:
                if random.random() < 0.6:
                    one["spec"]["taints"] = [TAINT]
        if any(one["spec"].get("taints") for one in self.nodes):
            self.fields.append(TOLERATION)
        for level, rule in rules.items():
            self.fields += [f"data.constraints.{level}.{key}" for key in rule if key != "type"]

    def _ask_for_devices(self, random):
        """Make each member request a device, of which nodes have few."""
        template = {
            "metadata": {"namespace": "default", "name": "gpu"},
            "spec": claim("any")["spec"],
        }
        kind = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate"}
        self.devices = [gpu_class(), kind | {**template, "spec": {"spec": template["spec"]}}]
        for one in self.nodes:
            names = [f"gpu-{number}" for number in range(random.randint(0, 3))]
            if names:
                self.devices.append(local_slice(one["metadata"]["name"], *names))
        for one in self.members:
            entry = {"name": "gpu", "resourceClaimTemplateName": "gpu"}
            one["spec"]["resourceClaims"] = [entry]
        self.fields.append("spec.resourceClaims[gpu]")

    def _pod_group(self, source, size):
        """Describe the group by a PodGroup of Kubernetes, and name it in its members."""
        for one in self.members:
            one["metadata"]["labels"] = {}
            if source == COSCHEDULING:
                one["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": "g"}
            else:
                one["spec"]["schedulingGroup"] = {"podGroupName": "g"}
        policy = {"schedulingPolicy": {"gang": {"minCount": size}}}
        spec = {"minMember": size} if source == COSCHEDULING else policy
        meta = {"name": "g", "namespace": "default"}
        return {"apiVersion": source, "kind": "PodGroup", "metadata": meta, "spec": spec}

    @property
    def all(self):
        """Return all objects."""
        return [*self.nodes, self.topology, *self.devices, self.group, *self.members]


def _labels(random):
    return {"pool": random.choice("xxy")}


def _rule(random):
    rule = {"type": random.choice(("pack", "spread"))}
    for key, among in RULES:
        if random.random() < 0.35:
            rule[key] = among if among is True else random.choice(among)
    if rule.get("min", 0) > rule.get("max", 9):
        del rule["min"]
    return rule


def reduced(at, fields):
    """Return the situation without these requirements of the group and its members."""
    at = deepcopy(at)
    rules = json.loads(at.group["data"]["constraints"]) if "data" in at.group else {}
    for field in fields:
        if field.startswith("data.constraints."):
            _, _, level, key = field.split(".")
            del rules[level][key]
            continue
        for member in at.members:
            if field == TOLERATION:
                member["spec"]["tolerations"] = [{"operator": "Equal", **TAINT}]
            elif field == "spec.resourceClaims[gpu]":
                del member["spec"]["resourceClaims"]
            elif field == "requests[cpu]":
                del member["spec"]["containers"][0]["resources"]["requests"]["cpu"]
            else:
                assert field == "spec.nodeSelector[pool]", field
                del member["spec"]["nodeSelector"]
    if "data" in at.group:
        at.group["data"]["constraints"] = json.dumps(rules)
    return at


def followed(at, changes):
    """Return the situation in which these changes have been made."""
    at = deepcopy(at)
    rest = [change for change in changes if not applied(at, change)]
    return _given_up(at, rest)


def applied(at, change):
    """Make a change of the size, of nodes, or of requests; return False for any other."""
    kind, _, key = change.object.partition(" ")
    if change.change == "delete":
        at.members = [one for one in at.members if f"default/{one['metadata']['name']}" != key]
    elif kind == "Node" and change.change == "add":
        model = next(one for one in at.nodes if one["metadata"]["name"] == change.value)
        copy = deepcopy(model)
        copy["metadata"] |= {"name": key, "uid": f"uid-{key}"}
        if "kubernetes.io/hostname" in copy["metadata"].get("labels", {}):
            copy["metadata"]["labels"]["kubernetes.io/hostname"] = key
        at.nodes.append(copy)
    elif change.field == "data.size":
        at.group["data"]["size"] = change.value
    elif change.field == "spec.minMember":
        at.group["spec"]["minMember"] = int(change.value)
    elif change.field == "spec.schedulingPolicy.gang.minCount":
        at.group["spec"]["schedulingPolicy"]["gang"]["minCount"] = int(change.value)
    elif change.change == "set" and change.field.startswith("requests["):
        (member,) = (one for one in at.members if f"default/{one['metadata']['name']}" == key)
        resources = member["spec"]["containers"][0]["resources"]["requests"]
        resources[change.field[len("requests[") : -1]] = change.value
    else:
        return False
    return True


def _given_up(at, changes):
    """Return the situation with these changes applied to the group and to every member."""
    assert {(change.change, change.field) for change in changes if change.change != "remove"} <= {
        ("add", "spec.tolerations")
    }
    steps = {
        (change.object, TOLERATION if change.change == "add" else change.field)
        for change in changes
    }
    fields = {field for _, field in steps}
    for field in fields - {one for one in fields if one.startswith("data.")}:
        named = {name for name, other in steps if other == field}
        assert named == {f"Pod default/{one['metadata']['name']}" for one in at.members}
    return reduced(at, sorted(fields))
