"""Kueue's `Topology`: a tree of nodes by their labels, in which groups are placed by its name.

Read from kueue.x-k8s.io; its levels go from the top to the nodes. Nothing else of Kueue is read:
quota and admission stay with Kueue.
"""

from typing import Annotated

import msgspec

from scheduler.objects.meta import Object, ObjectMeta

HOSTNAME = "kubernetes.io/hostname"
# Kueue allows 8, later versions 16.
MOST_LEVELS = 16
LONGEST_LABEL = 317  # a prefix of 253, a slash, a name of 63


class KueueLevel(Object, frozen=True):
    """One level: nodes with one value of the label `node_label` are one unit."""

    node_label: Annotated[str, msgspec.Meta(max_length=LONGEST_LABEL)] = ""


class KueueTopologySpec(Object, frozen=True):
    """The levels, the widest first; the last may be kubernetes.io/hostname, for single nodes."""

    levels: Annotated[tuple[KueueLevel, ...], msgspec.Meta(max_length=MOST_LEVELS)] = ()


class KueueTopology(Object, frozen=True):
    """A Topology of Kueue; cluster-scoped."""

    metadata: ObjectMeta = ObjectMeta()
    spec: KueueTopologySpec = KueueTopologySpec()

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the labels of the levels above the nodes, from the top."""
        found = tuple(level.node_label for level in self.spec.levels)
        return found[:-1] if found and found[-1] == HOSTNAME else found
