"""A recreated group with the name of a deleted one starts without the other's history."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scheduler.base.clock import parse_rfc3339, rfc3339
from scheduler.engine.effects import Answer, Bind, Call, Effects, Solve, Watched
from scheduler.objects.configmap import GROUP_KEY, ConfigMap, ConfigMapMeta
from scheduler.objects.groups.podgroup import (
    GangPolicy,
    SchedulingGroup,
    SchedulingPolicy,
    WorkloadGroup,
    WorkloadGroupSpec,
)
from scheduler.objects.meta import AnnotatedMeta
from scheduler.objects.pod import Pod
from tests.property.making import make_pod, with_meta, with_spec
from tests.unit.engine.test_groups import NOW, Floor

V1_37 = "PodGroup.v1beta1"


class Again(Floor):
    """A cluster of two nodes in which a group is deleted, and created again by its name."""

    def __init__(self) -> None:
        super().__init__(nodes=2, size=1)
        self.handle(Watched("Pod", "DELETED", make_pod("g-0")))
        self.step()

    def step(self, seconds: float = 1.0) -> list[Effects]:
        """Accept all effects of the scheduler for one second."""
        done: list[Effects] = []
        for _ in range(6):
            for effect in self.run():
                done.append(effect)
                if isinstance(effect, Solve):
                    self.solve(effect)
                elif isinstance(effect, Bind | Call):
                    self.handle(Answer(effect.id, 200, body={}))
        self.now += seconds
        return done

    def config_map(self, uid: str, size: int) -> ConfigMap:
        """Return the ConfigMap of the group `again`."""
        data = {"name": "again", "size": str(size), "constraints": json.dumps({})}
        return ConfigMap(ConfigMapMeta("again", "default", uid, labels={GROUP_KEY: ""}), data)

    def member(self, name: str, cpu: int = 1) -> Pod:
        """Return a pod of the group `again`, created now."""
        pod = make_pod(name, cpu=cpu, labels={"sakkara.group.name": "again"})
        return with_meta(pod, creation_timestamp=rfc3339(self.now))


def written(effects: list[Effects], path: str) -> list[Any]:
    """Return the bodies of the requests to an object."""
    found = [one for one in effects if isinstance(one, Call) and path in one.path]
    return [one.body for one in found]


@pytest.mark.parametrize("is_described_anew", [False, True])
def test_times_of_a_config_map_group_are_those_of_its_own_pods(is_described_anew: bool):
    """New pods of an old ConfigMap, and of a recreated one, count from their own creation."""
    floor = Again()
    first, described = floor.member("again-0"), floor.config_map("one", 1)
    floor.handle(Watched("GroupConfigMap", "ADDED", described))
    floor.handle(Watched("Pod", "ADDED", first))
    floor.step()
    floor.handle(Watched("Pod", "DELETED", first))
    if is_described_anew:
        floor.handle(Watched("GroupConfigMap", "DELETED", described))
    floor.step(600)
    if is_described_anew:
        floor.handle(Watched("GroupConfigMap", "ADDED", floor.config_map("two", 1)))
    second = floor.member("again-1")
    floor.handle(Watched("Pod", "ADDED", second))
    bodies = written(floor.step(), "/configmaps/again")

    values = {step["path"]: step["value"] for body in bodies for step in body if "value" in step}
    started = parse_rfc3339(values["/data/schedBeginTime"])
    assert parse_rfc3339(second.metadata.creation_timestamp) == started
    assert ("two" if is_described_anew else "one") == values["/metadata/uid"]


def test_a_rejection_of_a_deleted_group_is_not_reported_for_its_successor():
    """The new PodGroup lacks only members: no condition is written."""
    floor = Again()

    def described(uid: str, least: int) -> WorkloadGroup:
        meta = AnnotatedMeta(name="again", namespace="default", uid=uid)
        policy = SchedulingPolicy(gang=GangPolicy(least))
        return WorkloadGroup(meta, WorkloadGroupSpec(policy, priority=0))

    def member(name: str, cpu: int) -> Pod:
        return with_spec(make_pod(name, cpu=cpu), scheduling_group=SchedulingGroup("again"))

    large, old = member("again-0", 64), described("one", 1)
    floor.handle(Watched(V1_37, "ADDED", old))
    floor.handle(Watched("Pod", "ADDED", large))
    refused = written(floor.step(10), "/podgroups/again/status")
    assert "False" == refused[0]["status"]["conditions"][0]["status"]
    floor.handle(Watched("Pod", "DELETED", large))
    floor.handle(Watched(V1_37, "DELETED", old))
    floor.step(10)
    floor.handle(Watched(V1_37, "ADDED", described("two", 3)))
    floor.handle(Watched("Pod", "ADDED", member("again-1", 1)))

    assert [] == written(floor.step(10), "/podgroups/again/status")
    assert NOW < floor.now
