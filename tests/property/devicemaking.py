"""Random small clusters with devices, as plain objects: pools of every kind, and demanding claims.

All values come from the given random source, so a seed determines a cluster.
"""

from uuid import UUID

GPU, NIC = "gpu.example.com", "nic.example.com"
MODELS = ("a100", "h100", "t4")


def make_cluster(random):
    """Return nodes, slices, classes, claims that are allocated, and claims to be allocated."""
    count = random.randint(1, 4)
    nodes = [
        {"metadata": {"name": f"n{i}", "labels": {"zone": f"z{i % 2}", "rack": f"r{i % 3}"}}}
        for i in range(count)
    ]
    slices = []
    for node in nodes:
        for driver in (GPU, NIC):
            if random.random() < 0.8:
                slices += pool(random, driver, node["metadata"]["name"], node)
    for i in range(random.choice((0, 0, 1, 2))):
        slices += pool(random, random.choice((GPU, NIC)), f"net{i}", None)
    random.shuffle(slices)
    for i, one in enumerate(slices):
        one["metadata"] = {"name": f"s{i:02d}"}
    classes = device_classes()
    taken = taken_claims(random, slices)
    claims = [claim(random, f"c{i}") for i in range(random.choice((1, 1, 1, 2, 3)))]
    return nodes, slices, classes, taken, claims


def device_classes():
    """Return a class for each driver, and one for all devices."""
    return [
        _class("gpu", f'device.driver == "{GPU}"'),
        _class("nic", f'device.driver == "{NIC}"'),
        {"metadata": {"name": "any"}, "spec": {}},
    ]


def _class(name, expression):
    return {
        "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }


def pool(random, driver, name, node):
    """Return the slices of a pool: complete or not, with counters or not, on one node or many."""
    generation = random.choice((1, 1, 1, 2))
    kind = random.choice(("plain", "plain", "plain", "partitions", "shared"))
    parts = random.choice((1, 1, 2))
    about = {"name": name, "generation": generation, "resourceSliceCount": parts}
    if random.random() < 0.08:
        about["resourceSliceCount"] += 1
    slices = []
    for part in range(parts):
        spec = {"driver": driver, "pool": dict(about), **_where(random, node)}
        devices = [
            _device(random, driver, kind, f"d{part}{i}" if random.random() < 0.97 else "d00")
            for i in range(random.randint(1, 4))
        ]
        if spec.get("perDeviceNodeSelection"):
            for device in devices:
                device.update(
                    random.choice(({"allNodes": True}, {"nodeName": "n0"}, _zone(random)))
                )
        slices.append({"spec": spec | {"devices": devices}})
    if kind == "partitions":
        for one in slices:
            one["spec"]["pool"]["resourceSliceCount"] += 1
        counters = {"memory": {"value": "40Gi"}, "slots": {"value": str(random.randint(2, 7))}}
        spec = {k: v for k, v in slices[0]["spec"].items() if k != "devices"}
        spec["pool"] = dict(spec["pool"])
        slices.append({"spec": spec | {"sharedCounters": [{"name": "card", "counters": counters}]}})
    if random.random() < 0.1:
        slices.append(
            {"spec": {**slices[0]["spec"], "pool": {**about, "generation": generation - 1}}}
        )
    return slices


def _where(random, node):
    if node is not None:
        return {"nodeName": node["metadata"]["name"]}
    one = {"nodeName": f"n{random.randint(0, 2)}"}
    return random.choice(
        ({"allNodes": True}, _zone(random), {"perDeviceNodeSelection": True}, one, one)
    )


def _zone(random):
    expression = {"key": "zone", "operator": "In", "values": [f"z{random.randint(0, 1)}"]}
    return {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}


def _device(random, driver, kind, name):
    attributes = {
        "model": {"string": random.choice(MODELS)},
        "index": {"int": random.randint(0, 3)},
    }
    if random.random() < 0.8:
        attributes["root"] = {"string": f"p{random.randint(0, 2)}"}
    if random.random() < 0.3:
        attributes["fabric.example.com/clique"] = {"string": random.choice("xy")}
    device = {"name": name, "attributes": attributes}
    if random.random() < 0.5:
        device["capacity"] = {"memory": {"value": random.choice(("10Gi", "40Gi", "80Gi"))}}
    if random.random() < 0.15:
        effect = random.choice(("NoSchedule", "NoExecute", "None"))
        device["taints"] = [{"key": "bad", "value": "yes", "effect": effect}]
    if random.random() < 0.1:
        device["bindingConditions"] = ["example.com/ready"]
    if kind == "partitions":
        counters = {"memory": {"value": random.choice(("10Gi", "20Gi", "40Gi"))}}
        if random.random() < 0.6:
            counters["slots"] = {"value": str(random.randint(1, 3))}
        device["consumesCounters"] = [{"counterSet": "card", "counters": counters}]
    elif kind == "shared":
        device["allowMultipleAllocations"] = True
        device["capacity"] = {"memory": {"value": "40Gi"}}
        policy = random.choice(
            (
                None,
                {"default": "1Gi", "validRange": {"min": "1Gi", "step": "2Gi", "max": "21Gi"}},
                {"default": "4Gi", "validValues": ["4Gi", "8Gi", "16Gi"]},
            )
        )
        if policy:
            device["capacity"]["memory"]["requestPolicy"] = policy
    return device


def taken_claims(random, slices):
    """Return claims to which some of the devices are allocated."""
    results: list[dict[str, object]] = []
    for one in slices:
        for device in one["spec"].get("devices", ()):
            if random.random() < 0.2:
                spec = one["spec"]
                result = {
                    "request": "r",
                    "driver": spec["driver"],
                    "pool": spec["pool"]["name"],
                    "device": device["name"],
                }
                if device.get("allowMultipleAllocations"):
                    amount = random.choice(("4Gi", "12Gi", "40Gi"))
                    result |= {
                        "shareID": str(UUID(int=random.getrandbits(128), version=4)),
                        "consumedCapacity": {"memory": amount},
                    }
                elif random.random() < 0.1:
                    result["adminAccess"] = True
                results.append(result)
    return [
        {
            "metadata": {"name": f"taken{i}", "namespace": "default", "uid": f"taken{i}"},
            "spec": {
                "devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "any"}}]}
            },
            "status": {"allocation": {"devices": {"results": [result]}}},
        }
        for i, result in enumerate(results)
    ]


def claim(random, name):
    """Return a claim that is to be allocated."""
    requests = []
    for i in range(random.choice((1, 1, 2, 3))):
        if random.random() < 0.25:
            subs = [{"name": f"s{j}", **_ask(random)} for j in range(random.randint(1, 3))]
            requests.append({"name": f"r{i}", "firstAvailable": subs})
        else:
            ask = _ask(random)
            if random.random() < 0.07:
                ask["adminAccess"] = True
            requests.append({"name": f"r{i}", "exactly": ask})
    devices = {"requests": requests}
    constraints = []
    for _ in range(random.choice((0, 0, 1, 2))):
        name = random.choice((f"{GPU}/root", f"{GPU}/model", "fabric.example.com/clique"))
        kind = random.choice(("matchAttribute", "matchAttribute", "distinctAttribute"))
        constraint = {kind: name}
        if random.random() < 0.4:
            constraint["requests"] = [random.choice(requests)["name"]]
        constraints.append(constraint)
    if constraints:
        devices["constraints"] = constraints
    meta = {"name": name, "namespace": "default", "uid": name}
    return {"metadata": meta, "spec": {"devices": devices}}


def _ask(random):
    ask = {"deviceClassName": random.choice(("gpu", "gpu", "nic", "any"))}
    mode = random.random()
    if mode < 0.12:
        ask["allocationMode"] = "All"
    else:
        ask["count"] = random.choice((1, 1, 1, 2, 2, 3, 4, 33 if mode > 0.99 else 1))
    if random.random() < 0.35:
        ask["selectors"] = [{"cel": {"expression": _expression(random, ask["deviceClassName"])}}]
    if random.random() < 0.15:
        ask["tolerations"] = [
            random.choice(({"operator": "Exists"}, {"key": "bad", "value": "yes"}))
        ]
    if random.random() < 0.15:
        ask["capacity"] = {"requests": {"memory": random.choice(("1Gi", "5Gi", "16Gi", "30Gi"))}}
    return ask


def _expression(random, class_name):
    driver = NIC if class_name == "nic" else GPU
    return random.choice(
        (
            f'device.attributes["{driver}"].model == "{random.choice(MODELS)}"',
            f'device.attributes["{driver}"].?root.orValue("none") == "p1"',
            f'device.attributes["{driver}"].index > 0',
            f'device.attributes["{driver}"].root == "p0"',
            "device.allowMultipleAllocations",
        )
    )
