"""Random situations with a pending pod, as manifests, and how to apply suggestions to them.

Each obstacle keeps the pod off some nodes by one plugin; a situation has a few. `reduced` and
`followed` work on the manifests alone: they share no code with the suggestions.
"""

import re
from copy import deepcopy

from scheduler.testing import node, pod
from tests.unit.plugins.devices import claim, gpu_class, local_slice
from tests.unit.plugins.loadaware.situation import report as load_report
from tests.unit.plugins.networkobjects import GROUP, WORKLOAD, app_group, topology
from tests.unit.plugins.test_nodedeclaredfeatures import HOST_USERS as FEATURE
from tests.unit.plugins.test_numa import report, zone

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


class Situation:
    """Nodes, placed pods and other objects, and the pod that is to be placed: all plain
    manifests.
    """

    def __init__(self, random):
        self.random = random
        self.nodes = [
            node(
                f"n{number}",
                labels={HOST: f"n{number}", ZONE: f"z{number}"},
                allocatable={"cpu": "4", "memory": "8Gi", "pods": "110", "example.com/fpga": "0"},
            )
            for number in range(random.randint(2, 5))
        ]
        self.placed, self.objects = [], []
        self.parts = []
        self.disabled = set()
        self.pod = pod("p", labels={"app": "p"}, spec={"schedulerName": "trellis"})
        self.pod["spec"]["containers"] = [
            {"name": "c", "image": "c", "resources": {"requests": {}}}
        ]

    def share_out(self, number):
        """Distribute this many obstacles over all nodes, each for its part and perhaps more."""
        mixed = self.random.sample(self.nodes, len(self.nodes))
        self.parts = [mixed[part::number] for part in range(number)]

    def some(self):
        """Return some of the nodes, at least one: the next part, else any, usually not all."""
        if self.parts:
            part = self.parts.pop()
            more = [one for one in self.nodes if self.random.random() < 0.2]
            return [one for one in self.nodes if one in part or one in more]
        most = len(self.nodes) if self.random.random() < 0.3 else len(self.nodes) - 1
        return self.random.sample(self.nodes, self.random.randint(1, most))

    def others(self, some):
        """Return the nodes that are not among `some`."""
        return [one for one in self.nodes if one not in some]

    def put(self, where, *, labels=None, spec=None, requests=None):
        """Add a placed pod."""
        name = f"old-{len(self.placed)}"
        made = pod(
            name,
            node_name=where["metadata"]["name"],
            labels=labels or {},
            requests=requests or {},
            spec=spec or {},
        )
        self.placed.append(made)
        return made

    def ask(self, resource, amount):
        """Add a random request to the pod."""
        resources = self.pod["spec"]["containers"][0]["resources"]
        for kind in ("requests", "limits"):  # all Guaranteed, for which NUMA zones are aligned
            resources.setdefault(kind, {})[resource] = amount

    def claim(self, name, volume):
        """Add a bound claim to the pod."""
        self.objects += [_volume(f"pv-{name}", **volume), _claim(name, f"pv-{name}")]
        self.use(name)

    def use(self, name):
        """Add a claim to the pod."""
        source = {"name": name, "persistentVolumeClaim": {"claimName": name}}
        self.pod["spec"].setdefault("volumes", []).append(source)

    @property
    def all(self):
        """Return all objects but the pod."""
        return [*self.nodes, *self.placed, *self.objects]


def name_of(one):
    return one["metadata"]["name"]


def _volume(name, zone="", hosts=()):
    labels = {ZONE: zone} if zone else {}
    spec = {
        "claimRef": {"namespace": "default", "name": name[3:]},
        "accessModes": ["ReadWriteOnce"],
    }
    spec |= {
        "capacity": {"storage": "1Gi"},
        "csi": {"driver": "disk.example.com", "volumeHandle": name},
    }
    if hosts:
        terms = [{"matchExpressions": [{"key": HOST, "operator": "In", "values": list(hosts)}]}]
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    meta = {"name": name, "labels": labels}
    status = {"phase": "Bound"}
    kind = {"apiVersion": "v1", "kind": "PersistentVolume"}
    return kind | {"metadata": meta, "spec": spec, "status": status}


def _claim(name, volume):
    notes = {"pv.kubernetes.io/bind-completed": "yes"}
    meta = {"namespace": "default", "name": name, "uid": f"uid-{name}", "annotations": notes}
    spec = {"volumeName": volume, "accessModes": ["ReadWriteOnce"], "resources": {"requests": {}}}
    kind = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
    return kind | {"metadata": meta, "spec": spec, "status": {"phase": "Bound"}}


# One obstacle each.


def cordon(at):
    for one in at.some():
        one["spec"]["unschedulable"] = True


def taint(at):
    key, value = at.random.choice(("a", "b")), at.random.choice(("", "x"))
    for one in at.some():
        effect = {"key": key, "value": value, "effect": "NoSchedule"}
        one["spec"].setdefault("taints", []).append(effect)


def selector(at):
    key = at.random.choice(("pool", "disk"))
    for one in at.others(at.some()):
        one["metadata"]["labels"][key] = "x"
    at.pod["spec"].setdefault("nodeSelector", {})[key] = "x"


def node_affinity(at):
    for one in at.others(at.some()):
        one["metadata"]["labels"]["arch"] = "x"
    terms = [{"matchExpressions": [{"key": "arch", "operator": "In", "values": ["x", "y"]}]}]
    affinity = at.pod["spec"].setdefault("affinity", {})
    affinity["nodeAffinity"] = {REQUIRED: {"nodeSelectorTerms": terms}}


def port(at):
    number = at.random.choice((80, 443))
    spec = {"containers": [{"name": "c", "ports": [{"containerPort": 1, "hostPort": number}]}]}
    for one in at.some():
        at.put(one, spec=spec)
    ports = at.pod["spec"]["containers"][0].setdefault("ports", [])
    ports.append({"containerPort": 2 + len(ports), "hostPort": number})


def cpu(at):
    for one in at.some():
        at.put(one, requests={"cpu": f"{at.random.randint(21, 40)}00m"})
    at.ask("cpu", "2")


def memory(at):
    for one in at.some():
        at.put(one, requests={"memory": f"{at.random.randint(5, 8)}Gi"})
    at.ask("memory", "4Gi")


def extended(at):
    for one in at.others(at.some()):
        one["status"]["allocatable"]["example.com/fpga"] = "2"
    at.ask("example.com/fpga", str(at.random.randint(1, 3)))


def full(at):
    for one in at.some():
        at.put(one)
        at.put(one)
        one["status"]["allocatable"]["pods"] = "2"


def repelled(at):
    for one in at.some():
        at.put(one, spec={"affinity": _apart({"app": "p"})})


def _apart(labels):
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": labels}}
    return {"podAntiAffinity": {REQUIRED: [term]}}


def apart(at):
    labels = {"side": at.random.choice(("a", "b"))}
    for one in at.some():
        at.put(one, labels=labels)
    own = at.pod["spec"].setdefault("affinity", {}).setdefault("podAntiAffinity", {REQUIRED: []})
    own[REQUIRED] += _apart(labels)["podAntiAffinity"][REQUIRED]


def together(at):
    for one in at.others(at.some()):
        at.put(one, labels={"near": "x"})
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"near": "x"}}}
    at.pod["spec"].setdefault("affinity", {})["podAffinity"] = {REQUIRED: [term]}


def spread(at):
    for one in at.some():
        at.put(one, labels={"app": "p"})
    rule = {"maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "DoNotSchedule"}
    rule |= {"labelSelector": {"matchLabels": {"app": "p"}}}
    rule |= {"nodeTaintsPolicy": at.random.choice(("Honor", "Ignore"))}
    at.pod["spec"].setdefault("topologySpreadConstraints", []).append(rule)


def local_volume(at):
    at.claim("local", {"hosts": [name_of(one) for one in at.others(at.some())] or ["nowhere"]})


def zonal_volume(at):
    here = [one["metadata"]["labels"][ZONE] for one in at.others(at.some())]
    at.claim("zonal", {"zone": at.random.choice(here or ["nowhere"])})


def lost_claim(at):
    at.some()
    at.use("lost")


def disk(at):
    volume = {"name": "shared", "gcePersistentDisk": {"pdName": "shared"}}
    for one in at.some():
        at.put(one, spec={"volumes": [volume]})
    at.pod["spec"].setdefault("volumes", []).append(volume)


def attached(at):
    for one in at.some():
        name = f"used-{name_of(one)}"
        at.objects += [_volume(f"pv-{name}"), _claim(name, f"pv-{name}")]
        source = {"name": name, "persistentVolumeClaim": {"claimName": name}}
        at.put(one, spec={"volumes": [source]})
        drivers = [{"name": "disk.example.com", "nodeID": "x", "allocatable": {"count": 1}}]
        meta = {"name": name_of(one)}
        kind = {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode"}
        at.objects.append(kind | {"metadata": meta, "spec": {"drivers": drivers}})
    at.claim("more", {})


def devices(at):
    without = at.some()
    at.objects += [gpu_class(), claim("gpus")]
    at.objects += [local_slice(name_of(one), "gpu-0") for one in at.others(without)]
    entries = [{"name": "gpus", "resourceClaimName": "gpus"}]
    at.pod["spec"]["resourceClaims"] = entries


def features(at):
    for one in at.others(at.some()):
        one["status"]["declaredFeatures"] = [FEATURE]
    at.pod["spec"] |= {"hostNetwork": True, "hostUsers": False}


def load(at):
    at.objects += [load_report(name_of(one), cpu="4", memory="1Gi") for one in at.some()]


def numa(at):
    for one in at.some():
        zones = [zone(number, cpu="1", memory="4Gi") for number in range(4)]
        at.objects.append(report(name_of(one), *zones))
    requests = at.pod["spec"]["containers"][0]["resources"]["requests"]
    for name, amount in (("cpu", "2"), ("memory", "1Gi")):
        if name not in requests:
            at.ask(name, amount)


def network(at):
    far = at.some()
    home = (at.others(far) or at.nodes)[0]
    at.pod["metadata"]["labels"] |= {GROUP: "app", WORKLOAD: "front"}
    at.put(home, labels={GROUP: "app", WORKLOAD: "db"})
    here = home["metadata"]["labels"][ZONE]
    away = {one["metadata"]["labels"][ZONE]: 10 if one in far else 1 for one in at.nodes}
    zones = [(here, other, cost) for other, cost in away.items() if other != here]
    at.objects += [app_group({"front": {"db": 5}, "db": {}}), topology(zones=zones)]


OBSTACLES = (
    devices, features, load, numa, network, cordon, taint, selector, node_affinity, port, cpu,
    memory, extended, full, repelled, apart, together,
    spread, local_volume, zonal_volume, lost_claim, disk, attached,
)  # fmt: skip


# Suggestions that make at least one node optimal.
COMPARING = (network, spread)


def situation(random):
    """Return a situation with one to four obstacles, and their names."""
    chosen = [random.choice(OBSTACLES) for _ in range(random.choice((1, 2, 2, 2, 3, 3, 4)))]
    return blocked(random, chosen, shares=random.random() < 0.7)


def blocked(random, chosen, *, shares=True):
    """Return a situation with these obstacles, which share all nodes among them or not, and their
    names.
    """
    at = Situation(random)
    chosen = list(dict.fromkeys(chosen))
    if shares:
        at.share_out(len(chosen))
    for obstacle in chosen:
        obstacle(at)
    return at, [one.__name__ for one in chosen]


# The changes that a reason names, applied to the manifests.


def reduced(at, given_up):
    """Return the situation without the pod's requirements in these fields."""
    at = deepcopy(at)
    terms = {field: _term(at.pod, field) for field in given_up}
    for field in given_up:
        _give_up(at, field, terms[field])
    return at


def _term(manifest, field):
    """Return the value at an index, which other changes may move."""
    if match := re.fullmatch(r"spec\.affinity\.(\w+)\.\w+\[(\d+)\]", field):
        return manifest["spec"]["affinity"][match[1]][REQUIRED][int(match[2])]
    if match := re.fullmatch(r"spec\.topologySpreadConstraints\[(\d+)\]", field):
        return manifest["spec"]["topologySpreadConstraints"][int(match[1])]
    return None


def _give_up(at, field, term):
    spec = at.pod["spec"]
    inside = field.partition("[")[2].removesuffix("]")
    container = spec["containers"][0]
    if field.startswith("requests["):
        for kind in ("requests", "limits"):
            del container["resources"][kind][inside]
    elif field.startswith("spec.nodeSelector["):
        del spec["nodeSelector"][inside]
    elif field.startswith("spec.affinity.nodeAffinity"):
        del spec["affinity"]["nodeAffinity"]
    elif field.startswith("spec.affinity."):
        kind = field.split(".")[2]
        left = [one for one in spec["affinity"][kind][REQUIRED] if one is not term]
        spec["affinity"][kind][REQUIRED] = left
    elif field.startswith("spec.topologySpreadConstraints"):
        rules = spec["topologySpreadConstraints"]
        spec["topologySpreadConstraints"] = [one for one in rules if one is not term]
    elif field.startswith("spec.tolerations["):
        _tolerate(spec, inside)
    elif field.startswith("spec.containers[*].ports["):
        number = int(inside.partition("=")[2].partition("/")[0])
        container["ports"] = [one for one in container["ports"] if one["hostPort"] != number]
    elif field.startswith("spec.volumes["):
        spec["volumes"] = [one for one in spec["volumes"] if one["name"] != inside]
    elif field == "plugins.NodeResourcesFit":
        for one in at.nodes:
            one["status"]["allocatable"]["pods"] = "110"
    elif field == "plugins.InterPodAffinity":
        for one in at.placed:
            one["spec"].pop("affinity", None)
    elif field.startswith("spec.resourceClaims["):
        del spec["resourceClaims"]
    elif field == "plugins.NodeDeclaredFeatures":
        for one in at.nodes:
            one["status"]["declaredFeatures"] = [FEATURE]
    else:
        kind = BY_PLUGIN[field]
        at.objects = [one for one in at.objects if one["kind"] != kind]


# Without objects of this kind the plugin rejects nothing.
BY_PLUGIN = {
    "plugins.LoadAwareScheduling": "NodeMetric",
    "plugins.NetworkOverhead": "AppGroup",
    "plugins.NodeResourceTopologyMatch": "NodeResourceTopology",
}


def _tolerate(spec, taint):
    rest, _, effect = taint.rpartition(":")
    key, _, value = rest.partition("=")
    more = {"key": key, "operator": "Equal", "value": value, "effect": effect}
    spec.setdefault("tolerations", []).append(more)


def followed(at, changes):
    """Return the situation in which these changes have been made, as they are written."""
    at = deepcopy(at)
    terms = [_term(at.pod, change.field) for change in changes]
    for change, term in zip(changes, terms, strict=True):
        kind, _, name = change.object.partition(" ")
        if kind == "Node" and change.change == "add" and not change.field:
            at.nodes.append(_node_like(at, change.value, name))
        elif kind == "Node":
            (one,) = (one for one in at.nodes if name_of(one) == name)
            _change_node(one, change)
        elif kind == "Profile":
            assert (name, change.change) == ("trellis", "disable")
            at.disabled.add((change.field.removeprefix("plugins."), change.value))
        elif change.change == "delete":
            left = [one for one in at.placed if f"default/{name_of(one)}" != name]
            assert len(left) < len(at.placed)
            at.placed = left
        elif change.field == "spec.priority":
            at.pod["spec"]["priority"] = int(change.value)
        elif change.field == "spec.tolerations":
            _tolerate(at.pod["spec"], change.value)
        elif change.change == "set" and change.field.startswith("requests["):
            resources = at.pod["spec"]["containers"][0]["resources"]
            for one in resources.values():
                one[change.field[len("requests[") : -1]] = change.value
        else:
            assert (kind, change.change) == ("Pod", "remove"), change
            _give_up(at, change.field, term)
    return at


def _node_like(at, model, name):
    (found,) = (one for one in at.nodes if name_of(one) == model)
    made = deepcopy(found)
    made["metadata"] |= {"name": name, "uid": f"uid-{name}"}
    made["metadata"]["labels"][HOST] = name
    made["spec"]["unschedulable"] = False
    return made


_UNITS = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30}


def _amount(text):
    if text.endswith("m"):
        return int(text[:-1]) / 1000
    return int(text[:-2]) * _UNITS[text[-2:]] if text[-2:] in _UNITS else int(text)


def _change_node(one, change):
    if change.field == "spec.unschedulable":
        one["spec"]["unschedulable"] = False
        return
    name = change.field.partition("[")[2].removesuffix("]")
    offered = one["status"]["allocatable"]
    before = _amount(offered.get(name, "0")) if change.change == "add" else 0
    total = before + _amount(change.value)
    offered[name] = f"{round(total * 1000)}m" if name == "cpu" else str(int(total))
