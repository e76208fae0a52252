"""Two simulations of the same snapshot, compared pod by pod."""

import msgspec

from scheduler.simulate.records import API_VERSION, PodName, PodResult, Result, Simulation, Summary


class PodSide(msgspec.Struct, frozen=True, rename="camel"):
    """The result of a pod under one configuration."""

    profile: str
    result: Result
    node: str | None
    reason: str
    message: str
    nominated_node: str | None
    victims: tuple[PodName, ...]


class PodDifference(msgspec.Struct, frozen=True):
    """A pod with different results; a side is None if no profile there serves the pod."""

    namespace: str
    name: str
    before: PodSide | None
    after: PodSide | None

    @property
    def key(self) -> str:
        """Return `namespace/name`."""
        return f"{self.namespace}/{self.name}"


class Summaries(msgspec.Struct, frozen=True):
    """Both simulations in numbers."""

    before: Summary
    after: Summary


class SimulationDiff(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """All differences, pods by name; `same` counts the pods without one."""

    api_version: str = API_VERSION
    kind: str = "SimulationDiff"
    pods: tuple[PodDifference, ...]
    same: int
    summary: Summaries

    @property
    def is_same(self) -> bool:
        """Return whether there is no difference."""
        return not self.pods


def diff(before: Simulation, after: Simulation) -> SimulationDiff:
    """Return how `after` differs from `before`; profile names alone are no difference."""
    old = {pod.key: pod for pod in before.pods}
    new = {pod.key: pod for pod in after.pods}
    found = []
    for key in sorted(old.keys() | new.keys()):
        one, other = _side(old.get(key)), _side(new.get(key))
        if _outcome(one) != _outcome(other):
            namespace, _, name = key.partition("/")
            found.append(PodDifference(namespace, name, one, other))
    return SimulationDiff(
        pods=tuple(found),
        same=len(old.keys() | new.keys()) - len(found),
        summary=Summaries(before.summary, after.summary),
    )


def _side(pod: PodResult | None) -> PodSide | None:
    return None if pod is None else msgspec.convert(pod, PodSide, from_attributes=True)


def _outcome(side: PodSide | None) -> PodSide | None:
    if side is None:
        return None
    victims = tuple(sorted(side.victims, key=lambda pod: (pod.namespace, pod.name)))
    return msgspec.structs.replace(side, profile="", victims=victims)
