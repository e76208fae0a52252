"""Which unit has to hold a group, and who uses the devices there: for the message of a refusal.

Pure; reads columns, and calls the plugins that take stock of devices.
"""

from collections import Counter

import numpy as np

from scheduler.framework.groups import Fits, title
from scheduler.framework.nodes import Nodes
from scheduler.framework.together import Stock
from scheduler.groups.problem.answer import Advice
from scheduler.groups.problem.instance import Instance
from scheduler.groups.sources.registry import group_of, is_by_object
from scheduler.groups.topology.tree import Topology
from scheduler.state.podindex import PodIndex

NAMED = 2  # how many users of devices a message names


def packed(instance: Instance, advice: Advice) -> int:
    """Return how deep the unit is that has to hold the whole group, by the rules in conflict; 0:
    none.

    With hard pack on a level the pods below each used unit above it are in one unit; only where
    that is so on all levels above as well they are all in one.
    """
    in_conflict = {one.level for one in advice.conflict if one.rule == "hard"}
    found = 0
    for depth, level in enumerate(instance.levels, 1):
        if not level.rule.is_hard_pack:
            break
        found = depth if level.name in in_conflict else found
    return found


def stocks(tree: Topology, nodes: Nodes, unit: tuple[str, ...], fits: Fits, pods: PodIndex) -> str:
    """Return how many devices the nodes of a unit have, and who uses them; '' without devices."""
    if not fits.stocks:
        return ""
    rows = np.zeros(nodes.size, dtype=np.bool_)
    for path, name in tree.leaves:
        row = nodes.row(name)
        if row is not None and (*path, name)[: len(unit)] == unit:
            rows[row] = True
    return " and ".join(_stock(stock(rows), pods) for stock in fits.stocks)


def _stock(stock: Stock, pods: PodIndex) -> str:
    users: Counter[str] = Counter()
    for user, number in stock.users.items():
        users[_name(user, pods)] += number
    ordered = sorted(users.items(), key=lambda one: (-one[1], one[0]))
    text = (
        f"{stock.free} of {stock.total} {stock.what} that match "
        f"{'is' if stock.free == 1 else 'are'} free"
    )
    said = [f"{number} in use by {name}" for name, number in ordered[:NAMED]]
    rest = sum(number for _, number in ordered[NAMED:])
    said += [f"{rest} by others"] if rest else []
    return ", ".join((text, *said))


def _name(user: str, pods: PodIndex) -> str:
    """Return what the user of a device is called: its group, if it has one."""
    placed = pods.get(user)
    if placed is None:
        return user
    key = group_of(placed.pod)
    if not key or is_by_object(key):  # an application may be a gang or not; a pod is a pod
        return f"the pod {placed.pod.key}"
    return f"the group {title(key)}"
