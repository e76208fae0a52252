"""Random situations in which a group is pending, as manifests, and how to give up what is asked in them."""

import json
from copy import deepcopy

from scheduler.testing import node
from tests.unit.plugins.groupsworld import config_map, group, members

RULES = (
    ("hard", True),
    ("min", (2, 3)),
    ("max", (1, 2)),
    ("partitions", (1, 3)),
    ("factor", (2, 3)),
)


class GroupSituation:
    """A tree of racks and nodes, and a group whose members ask something; `fields` is all that is asked."""

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
        rules = {level: _rule(random) for level in ("rack", "node")}
        size = random.randint(2, 6)
        self.group = group("g", size, rules)
        spec = {"nodeSelector": {"pool": "x"}} if random.random() < 0.4 else {}
        self.members = members("g", size, cpu=str(random.randint(1, 3)), spec=spec)
        self.fields = ["requests[cpu]", *(["spec.nodeSelector[pool]"] if spec else [])]
        for level, rule in rules.items():
            self.fields += [f"data.constraints.{level}.{key}" for key in rule if key != "type"]

    @property
    def all(self):
        """Return all objects."""
        return [*self.nodes, self.topology, self.group, *self.members]


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
    """Return the situation in which the group and its members do not ask this."""
    at = deepcopy(at)
    rules = json.loads(at.group["data"]["constraints"])
    for field in fields:
        if field.startswith("data.constraints."):
            _, _, level, key = field.split(".")
            del rules[level][key]
            continue
        for member in at.members:
            if field == "requests[cpu]":
                del member["spec"]["containers"][0]["resources"]["requests"]["cpu"]
            else:
                assert field == "spec.nodeSelector[pool]", field
                del member["spec"]["nodeSelector"]
    at.group["data"]["constraints"] = json.dumps(rules)
    return at


def followed(at, changes):
    """Return the situation in which these changes have been made to the group and to every member."""
    steps = {(change.object, change.field) for change in changes}
    fields = {field for _, field in steps}
    for field in fields - {one for one in fields if one.startswith("data.")}:
        named = {name for name, other in steps if other == field}
        assert named == {f"Pod default/{one['metadata']['name']}" for one in at.members}
    assert {change.change for change in changes} == {"remove"}
    return reduced(at, sorted(fields))
