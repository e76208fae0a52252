"""What a NodeResourceTopology says about its kubelet and its agent, apart from amounts.

Pure functions from the object; spellings are the kubelet's and case-sensitive, and what is not
understood is passed over, as agents of many versions write these fields.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from scheduler.objects.numa import NamedValue, NodeResourceTopology

NONE, BEST_EFFORT, RESTRICTED, SINGLE = "none", "best-effort", "restricted", "single-numa-node"
POLICIES: Final = (NONE, BEST_EFFORT, RESTRICTED, SINGLE)
CONTAINER, POD = "container", "pod"
DEFAULT_MOST_ZONES: Final = 8
LARGEST_MOST_ZONES: Final = 1024

FINGERPRINT: Final = "nodeTopologyPodsFingerprint"
METHOD: Final = "nodeTopologyPodsFingerprintMethod"
WITH_EXCLUSIVE: Final = "with-exclusive-resources"
ANNOTATION: Final = "topology.node.k8s.io/fingerprint"

ALL, ONLY_EXCLUSIVE, AUTODETECT = "All", "OnlyExclusiveResources", "Autodetect"

_OLD_NAMES: Final = {
    f"{old}{level}": (policy, scope)
    for old, policy in (
        ("SingleNUMANode", SINGLE),
        ("Restricted", RESTRICTED),
        ("BestEffort", BEST_EFFORT),
    )
    for level, scope in (("PodLevel", POD), ("ContainerLevel", CONTAINER))
} | {
    # The word of the design text, whose check goes container by container. Its other words (Restricted,
    # BestEffort, None) ask for no check, which is how a kubelet that says nothing is read as well.
    "SingleNumaNode": (SINGLE, CONTAINER)
}


class KubeletSettings(msgspec.Struct, frozen=True):
    """How a node's kubelet aligns; `most_zones` is the largest number of NUMA nodes it handles."""

    policy: str = NONE
    scope: str = CONTAINER
    most_zones: int = DEFAULT_MOST_ZONES


def kubelet_settings(topology: NodeResourceTopology) -> KubeletSettings:
    """Return the settings: the first old name, then attributes field by field."""
    policy, scope, most = NONE, CONTAINER, DEFAULT_MOST_ZONES
    if topology.topology_policies:
        policy, scope = _OLD_NAMES.get(topology.topology_policies[0], (policy, scope))
    for attribute in topology.attributes:
        value = attribute.value
        if attribute.name == "topologyManagerPolicy" and value in POLICIES:
            policy = value
        elif attribute.name == "topologyManagerScope" and value in (CONTAINER, POD):
            scope = value
        elif attribute.name == "topologyManagerMaxNUMANodes":
            most = _most_zones(value, most)
    return KubeletSettings(policy, scope, most)


def expected_fingerprint(topology: NodeResourceTopology) -> str:
    """Return the published fingerprint, an empty text without one."""
    found = attribute(topology.attributes, FINGERPRINT)
    return found or topology.metadata.annotations.get(ANNOTATION, "")


def counts_only_exclusive(topology: NodeResourceTopology, method: str) -> bool:
    """Whether the fingerprint is of pods with exclusive resources alone, by a resync method."""
    if not attribute(topology.attributes, FINGERPRINT):
        return False  # agents that write the annotation know one method
    if method == AUTODETECT:
        return attribute(topology.attributes, METHOD) == WITH_EXCLUSIVE
    return method == ONLY_EXCLUSIVE


def attribute(attributes: Iterable[NamedValue], name: str) -> str:
    """Return the value of an attribute, an empty text without it."""
    return next((one.value for one in attributes if one.name == name), "")


def _most_zones(text: str, otherwise: int) -> int:
    try:
        number = int(text) if len(text) < 20 else 0
    except ValueError:
        return otherwise
    return min(number, LARGEST_MOST_ZONES) if number > 1 else otherwise
