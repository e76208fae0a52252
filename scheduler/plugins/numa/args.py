"""The arguments of NodeResourceTopologyMatch, in the format of the scheduler-plugins.

`policies` and `alignment` are ours. Everything is validated here; no other module reads the raw
texts.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from scheduler.framework import Args
from scheduler.plugins.numa.zones import (
    ALL,
    AUTODETECT,
    ONLY_EXCLUSIVE,
    RESTRICTED,
    SINGLE,
)

LEAST_ALLOCATED, MOST_ALLOCATED = "LeastAllocated", "MostAllocated"
BALANCED_ALLOCATION, LEAST_NUMA_NODES = "BalancedAllocation", "LeastNUMANodes"
STRATEGIES: Final = (MOST_ALLOCATED, BALANCED_ALLOCATION, LEAST_ALLOCATED, LEAST_NUMA_NODES)
ENABLED, DISABLED = "Enabled", "Disabled"
SHARED, DEDICATED = "Shared", "Dedicated"
ONLY_RESOURCES: Final = "OnlyResources"
GREEDY, EXACT = "Greedy", "Exact"

_LARGEST_WEIGHT: Final = 100_000


class ResourceWeight(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """The weight of a resource in a zone's score; 0 means 1."""

    name: str = ""
    weight: int = 0


class ZoneScoring(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """The scoring of nodes."""

    type: str = ""
    resources: tuple[ResourceWeight, ...] = ()

    def weight_of(self, resource: str) -> int:
        """Return the weight of a resource; an unlisted one weighs 1."""
        return next((one.weight for one in self.resources if one.name == resource), 1) or 1


class CacheArgs(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """The settings of the over-reserve cache."""

    foreign_pods_detect: str = ALL
    resync_method: str = AUTODETECT
    informer_mode: str = DEDICATED
    resync_scope: str = ALL


def _default_scoring() -> ZoneScoring:
    both = (ResourceWeight("cpu", 1), ResourceWeight("memory", 1))
    return ZoneScoring(LEAST_ALLOCATED, both)


class NodeResourceTopologyMatchArgs(Args):
    """Scoring, the kind of cache, preemption, and which kubelet policies the filter checks.

    `cacheResyncPeriodSeconds` above 0 turns the over-reserve cache on; `discardReservedNodes` takes
    precedence. With `alignment: Exact` a rejection states when a split of the containers exists
    that the kubelet does not search.
    """

    scoring_strategy: ZoneScoring = msgspec.field(default_factory=_default_scoring)
    cache_resync_period_seconds: int = 0
    discard_reserved_nodes: bool = False
    cache: CacheArgs = msgspec.field(default_factory=CacheArgs)
    preemption_mode: str = DISABLED
    policies: tuple[str, ...] = (SINGLE,)
    alignment: str = GREEDY

    @property
    def reserves(self) -> bool:
        """Return whether the over-reserve cache is on."""
        return self.cache_resync_period_seconds > 0 and not self.discard_reserved_nodes

    def validate(self) -> Iterator[tuple[str, str]]:
        """Yield the fields with rejected values."""
        if self.scoring_strategy.type not in STRATEGIES:
            yield "scoringStrategy.type", _invalid(self.scoring_strategy.type, STRATEGIES)
        for place, one in enumerate(self.scoring_strategy.resources):
            if not 0 <= one.weight <= _LARGEST_WEIGHT:
                text = f"Invalid value: {one.weight}: must be between 0 and {_LARGEST_WEIGHT}"
                yield f"scoringStrategy.resources[{place}].weight", text
        choices = {
            "preemptionMode": (self.preemption_mode, (DISABLED, ENABLED)),
            "alignment": (self.alignment, (GREEDY, EXACT)),
            "cache.foreignPodsDetect": (
                self.cache.foreign_pods_detect,
                ("None", ALL, ONLY_EXCLUSIVE),
            ),
            "cache.resyncMethod": (self.cache.resync_method, (ALL, ONLY_EXCLUSIVE, AUTODETECT)),
            "cache.informerMode": (self.cache.informer_mode, (SHARED, DEDICATED)),
            "cache.resyncScope": (self.cache.resync_scope, (ALL, ONLY_RESOURCES)),
        }
        for field, (value, known) in choices.items():
            if value not in known:
                yield field, _invalid(value, known)
        for place, policy in enumerate(self.policies):
            if policy not in (SINGLE, RESTRICTED):
                yield f"policies[{place}]", _invalid(policy, (SINGLE, RESTRICTED))


def _invalid(value: str, known: tuple[str, ...]) -> str:
    return f'Invalid value: "{value}": must be one of {", ".join(known)}'
