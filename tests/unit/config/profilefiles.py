"""Configuration files of many kinds, each of which must keep groups atomic: name → profiles of the
file.
"""

from typing import Final

HEAD: Final = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
_MOST: Final = "{scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}"
_ALONE: Final = (
    "multiPoint: {disabled: [{name: '*'}], enabled: [{name: PrioritySort}, "
    "{name: NodeResourcesFit}, {name: DefaultPreemption}, {name: DefaultBinder}]}"
)
# The profile that the test's pods name is `trellis` in each.
PROFILES: Final = {
    "no profile": "",
    "name only": "profiles: [{schedulerName: trellis}]",
    "two profiles": "profiles: [{schedulerName: other}, {schedulerName: trellis}]",
    "MostAllocated": "profiles: [{schedulerName: trellis, pluginConfig: "
    f"[{{name: NodeResourcesFit, args: {_MOST}}}]}}]",
    "only pluginConfig": "profiles: [{schedulerName: trellis, pluginConfig: "
    "[{name: NodeAffinity, args: {}}, {name: ClusterTopologyPlacementGroup, args: "
    "{preemption: Disabled}}]}]",
    "weights": "profiles: [{schedulerName: trellis, plugins: {score: {disabled: "
    "[{name: ImageLocality}], enabled: [{name: NodeResourcesFit, weight: 9}]}}}]",
    "plugins disabled": "profiles: [{schedulerName: trellis, plugins: {multiPoint: {disabled: "
    "[{name: PodTopologySpread}, {name: NodeResourceTopologyMatch}, {name: NetworkOverhead}]}}}]",
    "all disabled, some listed": f"profiles: [{{schedulerName: trellis, plugins: {{{_ALONE}}}}}]",
    "no gate": "profiles: [{schedulerName: trellis, plugins: {preEnqueue: "
    "{disabled: [{name: '*'}]}}}]",
    "QOSSort": "profiles: [{schedulerName: trellis, plugins: {queueSort: "
    "{disabled: [{name: '*'}], enabled: [{name: QOSSort}]}}}]",
    "Sakkara's": "profiles: [{schedulerName: trellis, plugins: {queueSort: "
    "{disabled: [{name: '*'}], enabled: [{name: ClusterTopologyPlacementGroup}]}, multiPoint: "
    "{enabled: [{name: ClusterTopologyPlacementGroup}]}}}]",
    "TopologicalSort": "profiles: [{schedulerName: trellis, plugins: {queueSort: "
    "{disabled: [{name: PrioritySort}], enabled: [{name: TopologicalSort}]}}}]",
}
GATING: Final = (
    "profiles: [{schedulerName: trellis, plugins: {%s: "
    "{disabled: [{name: ClusterTopologyPlacementGroup}]}}}]"
)


def files() -> dict[str, str]:
    """Return the texts of the files by name."""
    return {name: f"{HEAD}{text}\n" for name, text in PROFILES.items()}
