"""Pods that do not compete with a group, while its plan takes up to the solver's limit: their loss
of throughput.

    python -m tests.perf.besideplan --nodes 400 --pods 2000 --rounds 7

An engine has two pools of nodes. A group of three roles wants the first pool, and its question to
the solver stays unanswered; pods of the second pool are decided and bound meanwhile. Rounds with
and without the group alternate in one process, by CPU time. Writes JSON: pods per second of both
(medians), and their ratio. Asserts nothing.
"""

import argparse
import gc
import json
from statistics import median
from time import process_time

from scheduler.engine.effects import Answer, Bind, Leading, Solve, Watched
from scheduler.engine.engine import Engine
from scheduler.objects.groups.podgroup import PodGroup, PodGroupSpec
from scheduler.objects.meta import AnnotatedMeta
from scheduler.objects.pod import Pod
from tests.property.engines import PROFILES, REGISTRY
from tests.property.making import make_node, make_pod, with_spec

NOW = 1_767_225_600.0
POOL, GROUP = "pool", "scheduling.x-k8s.io/pod-group"
ROLES = ((1, 24), (2, 16), (3, 8))  # CPUs of a member, and how many members


def pinned(name: str, pool: str, cpu: int, group: str = "") -> Pod:
    """Return a pod for a pool."""
    made = make_pod(name, cpu=cpu, labels={GROUP: group} if group else {})
    return with_spec(made, node_selector={POOL: pool})


class Pools:
    """An engine with two pools, and perhaps a group that is being planned for the first."""

    def __init__(self, nodes: int, *, planned: bool) -> None:
        self.engine = Engine(PROFILES, REGISTRY)
        self.handle(Leading(active=True))
        for number in range(nodes):
            pool = "a" if number % 2 else "b"
            node = make_node(f"n{number}", cpu=16, labels={POOL: pool})
            self.handle(Watched("Node", "ADDED", node))
        if planned:
            self._plan()

    def handle(self, event: object) -> None:
        """Pass an event to the engine."""
        self.engine.handle(event, NOW)  # type: ignore[arg-type]

    def _plan(self) -> None:
        """Make a group of three roles call the solver, which does not answer."""
        size = sum(count for _, count in ROLES)
        meta = AnnotatedMeta(name="g", namespace="default", uid="g")
        self.handle(Watched("PodGroup", "ADDED", PodGroup(meta, PodGroupSpec(size))))
        for cpu, count in ROLES:
            for number in range(count):
                self.handle(Watched("Pod", "ADDED", pinned(f"g-{cpu}-{number}", "a", cpu, "g")))
        effects = self.engine.run(NOW, 50)
        assert [True] == [isinstance(one, Solve) for one in effects if isinstance(one, Solve)]

    def bind(self, pods: int) -> float:
        """Create and bind pods of the second pool; return the CPU seconds."""
        waiting = {f"p{number}": pinned(f"p{number}", "b", 1) for number in range(pods)}
        gc.collect()
        started = process_time()
        for at, pod in enumerate(list(waiting.values()), 1):
            self.handle(Watched("Pod", "ADDED", pod))
            if at % 10 == 0 or at == pods:
                for one in self.engine.run(NOW, 50):
                    if isinstance(one, Bind):
                        self.handle(Answer(one.id, 201))
                        bound = with_spec(waiting.pop(one.name), node_name=one.node)
                        self.handle(Watched("Pod", "MODIFIED", bound))
        took = process_time() - started
        assert not waiting, f"{len(waiting)} pods wait"
        return took


def measure(nodes: int, pods: int, rounds: int) -> dict[str, float]:
    """Return the pods per second with and without the plan, and their ratio."""
    times: dict[bool, list[float]] = {True: [], False: []}
    for number in range(2 * rounds):
        planned = number % 2 == 0
        times[planned].append(Pools(nodes, planned=planned).bind(pods))
    beside, alone = (pods / median(times[planned]) for planned in (True, False))
    return {"beside": round(beside), "alone": round(alone), "ratio": round(beside / alone, 3)}


def main() -> None:
    """Run the benchmark with the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=400)
    parser.add_argument("--pods", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=7)
    chosen = parser.parse_args()
    print(json.dumps(measure(chosen.nodes, chosen.pods, chosen.rounds)))


if __name__ == "__main__":
    main()
