"""The tree of a group of groups: the topology keys that its groups name as levels, one below the
other.

A group's key is below the keys of the groups around it. Keys of groups that are not inside one
another need not nest. Such groups are placed only if the keys nest by the nodes' labels; otherwise
the groups are rejected by name. A node without the label is in no unit of it (`NOWHERE`); the empty
value of a label is a unit like any other. Pure.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from scheduler.base.errors import ObjectError
from scheduler.groups.description.spec import GroupNode
from scheduler.groups.topology.tree import DEFAULT_TREE, NODE, Topology

# The unit of a node without the label. No label value: these have no parentheses.
NOWHERE = "(no label)"
Columns = Mapping[str, Mapping[str, str]]


def tree(root: GroupNode, columns: Columns, nodes: Sequence[str]) -> Topology:
    """Return the tree of a group's keys; `columns` has the value of each key by node. ObjectError
    names keys that do not nest.
    """
    chains = list(_chains(root, ()))
    keys = _ordered(chains, columns)
    for at, key in enumerate(keys):
        for chain in (chain for chain in chains if key in chain):
            _check(key, chain, keys[:at], columns)
    leaves = tuple(
        sorted((tuple(columns[key].get(name, NOWHERE) for key in keys), name) for name in nodes)
    )
    return Topology(DEFAULT_TREE, f"labels {', '.join(keys)}", (*keys, NODE), leaves)


def places(found: Iterable[str]) -> str:
    """Return units for a message: the empty value is quoted, nodes without the label are named
    so.
    """
    named = {NOWHERE: "nodes without it", "": '""'}
    return ", ".join(named.get(one, one) for one in sorted(found))


def keys_of(root: GroupNode) -> tuple[str, ...]:
    """Return the topology keys of a group and of those in it, each once."""
    return tuple(dict.fromkeys(one.key_label for one in root.every() if one.key_label))


def _chains(node: GroupNode, above: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield for each group with a topology key the keys from the root down to it."""
    key = node.key_label
    own = (*above, key) if key and key not in above else above
    if own:
        yield own
    for one in node.groups:
        yield from _chains(one, own)


def _ordered(chains: Sequence[Sequence[str]], columns: Columns) -> list[str]:
    """Return the keys in an order in which each follows its outer keys; otherwise by
    fewest values.
    """
    left = dict.fromkeys(key for chain in chains for key in chain)
    found: list[str] = []
    while left:
        free = [
            key
            for key in left
            if all(
                above not in left
                for chain in chains
                if key in chain
                for above in _before(chain, key)
            )
        ]
        if not free:
            raise ObjectError(
                f"the topology keys {' and '.join(sorted(left))} stand below one another"
            )
        first = min(free, key=lambda key: (len(set(columns[key].values())), key))
        found.append(first)
        del left[first]
    return found


def _before(chain: Sequence[str], key: str) -> Sequence[str]:
    return chain[: chain.index(key)]


def _check(key: str, chain: Sequence[str], above: Sequence[str], columns: Columns) -> None:
    """Check that nodes with the same value of a key have the same value of each outer key."""
    around = _before(chain, key)
    units: dict[tuple[str, ...], tuple[str, ...]] = {}
    for name, value in columns[key].items():
        own = (value, *(columns[each].get(name, NOWHERE) for each in around))
        path = tuple(columns[each].get(name, NOWHERE) for each in above)
        if units.setdefault(own, path) != path:
            other = next(each for each, a, b in zip(above, path, units[own], strict=True) if a != b)
            raise ObjectError(
                f"the topology keys {key} and {other} do not nest: nodes with "
                f"{key}={value} have several "
                f"values of {other}; groups that name them cannot be placed together exactly"
            )
