"""Keep `status` of every AppGroup up to date with its spec, its pods and their network costs."""

from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping
from typing import Any

from operators.appgroup import costs
from operators.appgroup.pods import by_group, misspelt, oddities
from operators.appgroup.status import ObservedGroup, ObservedPod, merge_patch, status_steps
from operators.cooperative import in_turns, step_by_step
from operators.keeper import Key, StatusKeeper
from operators.operator import OperatorSurroundings, Recipe
from scheduler.base.clock import rfc3339
from scheduler.objects.groups.appgroup import AppGroup
from scheduler.objects.kinds import Kind
from scheduler.objects.network import NetworkTopology, Statistics

APP_GROUP = Kind(
    "AppGroup", "appgroup.diktyo.x-k8s.io", "v1alpha1", "appgroups", AppGroup, required=False
)


class AppGroupOperator(StatusKeeper[AppGroup]):
    """Lists pods, orders workloads, sums up costs."""

    kind = APP_GROUP
    wakes = ("Pod", "Node", "NetworkTopology")

    def __init__(self, around: OperatorSurroundings) -> None:
        super().__init__(around)
        self._pods: Mapping[Key, list[ObservedPod]] = {}
        self._oddities: Mapping[Key, tuple[str, ...]] = {}
        self._at = costs.NodePlaces()
        # The last result about a group: its patch is made from the same.
        self._summed: dict[Key, tuple[Mapping[str, Statistics], Statistics | None]] = {}

    async def gather(self) -> None:
        """Sort the placed pods by group, and look up their nodes' zones and regions."""
        view, wanted = self.around.view, self.around.settings.app_group
        pods: dict[Key, list[ObservedPod]] = defaultdict(list)
        counts: Counter[tuple[Key, str]] = Counter()
        async for handful in in_turns(list(view.pods()) if self.objects else ()):
            for key, some in by_group(handful, self.objects, wanted.namespaces).items():
                pods[key] += some
            counts.update(misspelt(handful, self.objects))
        self._pods, self._oddities = pods, oddities(counts)
        self._summed = {}
        topologies: Mapping[str, NetworkTopology] = view.objects("NetworkTopology")
        keys = [f"{namespace}/{wanted.network_topology}" for namespace in wanted.namespaces]
        topology = next((topologies[key] for key in keys if key in topologies), None)
        self._at = costs.places(view.nodes(), topology, wanted.weights)

    async def surroundings(self, key: Key, obj: AppGroup) -> Hashable:
        """Return the group's pods, oddities of other pods, and network costs."""
        pods = tuple(self._pods.get(key, ()))
        steps = costs.summing(obj.spec, pods, self._at)
        by_workload, total = self._summed[key] = await step_by_step(steps)
        return pods, self._oddities.get(key, ()), tuple(by_workload.items()), total

    async def patch(self, key: Key, obj: AppGroup) -> dict[str, Any]:
        """Return the fields of status to be written."""
        pods = tuple(self._pods.get(key, ()))
        by_workload, total = self._summed[key]
        observed = ObservedGroup(
            generation=obj.metadata.generation,
            previous=obj.status,
            now=rfc3339(self.around.clock.now()),
            pods=pods,
            costs=by_workload,
            total=total,
            oddities=self._oddities.get(key, ()),
            namespace=obj.metadata.namespace,
        )
        wanted = await step_by_step(status_steps(obj.spec, observed))
        return merge_patch(obj.status, wanted, legacy=self.around.legacy)


RECIPE = Recipe("appgroup", APP_GROUP, AppGroupOperator)
