"""The ConfigMaps of the design text, as data."""

TREE = {
    "name": "cluster-tree",
    "resource-names": '[ "cpu", "memory", "nvidia.com/gpu" ]',
    "level-names": '[ "rack", "node" ]',
    "tree": """
        {"rack-0": {"node-0": {}, "node-1": {}, "node-2": {}},
         "rack-1": {"node-3": {}, "node-4": {}, "node-5": {}}}""",
}
GROUP = {
    "name": "group-a",
    "size": "8",
    "priority": "0",
    "constraints": '{"rack": {"type": "pack"}, "node": {"type": "spread"}}',
}
