"""Events around an engine, one move at a time.

Every move calls `pick(n)` for a number below n where it has a choice. A seeded run uses a random
source, a hypothesis machine its data, so that a failing run shrinks.
"""

from collections.abc import Callable, Mapping
from random import Random

from scheduler.engine.effects import AskExtender, ExtenderAnswer
from scheduler.engine.engine import Engine
from scheduler.objects.meta import ObjectMeta
from scheduler.objects.pod import Pod
from scheduler.objects.workloads import Service
from tests.property.making import make_node, make_pod, node_with, relabelled, with_meta, with_spec
from tests.property.rig import Rig
from tests.property.tinyplugins import plugin_of, tiny_engine

Pick = Callable[[int], int]
Move = Callable[[Rig, Pick], None]

NODES = ("n0", "n1", "n2", "n3")
PODS = tuple(f"p{number}" for number in range(8))
ZONES = ("a", "b")
REFUSALS = (409, 410, 429, 404, 500, 503, 0)

# Most pods are ordinary; the others exercise one or two features each.
LABELS: tuple[dict[str, str], ...] = (
    {},
    {},
    {},
    {"zone": "a"},
    {"apart": "x"},
    {"apart": "x", "zone": "b"},
    {"reserve": "reject"},
    {"permit": "wait"},
    {"permit": "wait", "raise": "unreserve"},
    {"permit": "reject"},
    {"permit": "opens"},
    {"permit": "shuts"},
    {"prebind": "call"},
    {"prebind": "wait"},
    {"prebind": "both"},
    {"needs": "s1"},
    {"permit": "wait", "prebind": "both"},
    {"preempt": "yes"},
    {"preempt": "yes"},
    {"preempt": "yes", "apart": "x"},
)
POINTS = (
    "pre_enqueue", "hint", "pre_filter", "filter", "post_filter", "pre_score", "score", "normalize",
    "reserve", "unreserve.reserve", "permit", "permit.unreserve", "pre_bind", "pre_bind.unreserve",
    "predicate", "close", "bind", "post_bind", "less",
)  # fmt: skip


def _labels(pick: Pick) -> dict[str, str]:
    if pick(6) == 0:
        times = ("1", "2", "always")[pick(3)]
        return {"raise": POINTS[pick(len(POINTS))], "times": times}
    return LABELS[pick(len(LABELS))]


# The cluster.


def add_node(rig: Rig, pick: Pick) -> None:
    """Add or recreate a node."""
    name = NODES[pick(len(NODES))]
    if name not in rig.api.nodes:
        rig.api.put("Node", make_node(name, cpu=1 + pick(4), labels={"zone": ZONES[pick(2)]}))


def change_node(rig: Rig, pick: Pick) -> None:
    """A node's size or label changes."""
    node = rig.api.nodes.get(NODES[pick(len(NODES))])
    if node is None:
        return
    if pick(2):
        offers = {**node.status.allocatable, "cpu": pick(6)}
        rig.api.put("Node", node_with(node, allocatable=offers))
    else:
        rig.api.put("Node", relabelled(node, {"zone": ZONES[pick(2)]}))


def delete_node(rig: Rig, pick: Pick) -> None:
    """Delete a node; its pods stay bound to the name."""
    rig.api.remove("Node", NODES[pick(len(NODES))])


def create_pod(rig: Rig, pick: Pick) -> None:
    """Create a pod; an old name may get a new uid."""
    name = PODS[pick(len(PODS))]
    if f"default/{name}" in rig.api.pods:
        return
    uid = f"{name}-{rig.api._version}"
    gates = ("later",) if pick(12) == 0 else ()
    nominated = NODES[pick(len(NODES))] if pick(10) == 0 else ""
    pod = make_pod(
        name,
        uid=uid,
        cpu=1 + pick(3),
        priority=pick(3),
        labels=_labels(pick),
        gates=gates,
        nominated=nominated,
    )
    rig.api.put("Pod", pod)


def change_pod(rig: Rig, pick: Pick) -> None:
    """Change a pod's labels: the reason of its rejection or fault may end."""
    pod = rig.api.pods.get(f"default/{PODS[pick(len(PODS))]}")
    if pod is None:
        return
    if pod.spec.scheduling_gates:
        rig.api.put("Pod", with_spec(pod, scheduling_gates=()))
    elif pick(2):
        rig.api.put("Pod", with_meta(pod, labels={}))
    else:
        rig.api.put("Pod", with_meta(pod, labels=_labels(pick)))


def delete_pod(rig: Rig, pick: Pick) -> None:
    """A pod is deleted at once."""
    rig.api.remove("Pod", f"default/{PODS[pick(len(PODS))]}")


def terminate_pod(rig: Rig, pick: Pick) -> None:
    """Request the deletion of a pod, which stays for a while."""
    rig.api.terminate(f"default/{PODS[pick(len(PODS))]}")


def finish_pod(rig: Rig, pick: Pick) -> None:
    """End a bound pod."""
    rig.api.finish(f"default/{PODS[pick(len(PODS))]}")


def bind_elsewhere(rig: Rig, pick: Pick) -> None:
    """Bind a pod of Trellis as another scheduler."""
    rig.api.bind_foreign(f"default/{PODS[pick(len(PODS))]}", NODES[pick(len(NODES))])


def foreign_pod(rig: Rig, pick: Pick) -> None:
    """Create a pod of another scheduler on a node, or delete one."""
    name = f"f{pick(2)}"
    if f"default/{name}" in rig.api.pods:
        rig.api.remove("Pod", f"default/{name}")
    else:
        node, cpu = NODES[pick(len(NODES))], 1 + pick(2)
        uid = f"{name}-{rig.api._version}"
        rig.api.put("Pod", make_pod(name, uid=uid, cpu=cpu, node=node, scheduler="another"))


def service(rig: Rig, pick: Pick) -> None:
    """Create or delete a service that pods wait for."""
    name = ("s1", *PODS)[pick(len(PODS) + 1)]
    if f"default/{name}" in rig.api.objects["Service"]:
        rig.api.remove("Service", f"default/{name}")
    else:
        rig.api.put("Service", Service(ObjectMeta(name=name, namespace="default")))


# The wire, the watch, the engine.


def _any_ready(rig: Rig, pick: Pick) -> int | None:
    ready = rig.ready()
    return ready[pick(len(ready))] if ready else None


def perform(rig: Rig, pick: Pick) -> None:
    """Carry out an effect and answer it."""
    place = _any_ready(rig, pick)
    if place is not None:
        rig.perform(place)


def perform_twice(rig: Rig, pick: Pick) -> None:
    """Carry out an effect twice; the second answer counts."""
    place = _any_ready(rig, pick)
    if place is not None:
        rig.perform(place, times=2)


def lose_answer(rig: Rig, pick: Pick) -> None:
    """Carry out an effect and lose its answer."""
    place = _any_ready(rig, pick)
    if place is not None:
        rig.perform(place, deliver=False)


def refuse(rig: Rig, pick: Pick) -> None:
    """Fail an effect."""
    place = _any_ready(rig, pick)
    if place is not None:
        rig.refuse(place, REFUSALS[pick(len(REFUSALS))])


def delay(rig: Rig, pick: Pick) -> None:
    """Abandon an effect that arrives much later."""
    place = _any_ready(rig, pick)
    if place is not None:
        rig.delay(place)


def swallow(rig: Rig, pick: Pick) -> None:
    """An effect vanishes without an answer."""
    place = _any_ready(rig, pick)
    if place is not None:
        rig.swallow(place)


def arrive(rig: Rig, pick: Pick) -> None:
    """Carry out a delayed effect."""
    if rig.strays:
        rig.arrive(pick(len(rig.strays)))


def deliver(rig: Rig, pick: Pick) -> None:
    """Deliver any answer in flight."""
    if rig.answers:
        rig.deliver(pick(len(rig.answers)), times=1 + (pick(5) == 0))


def watch(rig: Rig, pick: Pick) -> None:
    """Deliver some or all watch events of one kind."""
    rig.watch(rig.kinds[pick(len(rig.kinds))], (1, 2, 100)[pick(3)])


def relist(rig: Rig, pick: Pick) -> None:
    """Lose a watch and list the kind again, at once or in parts."""
    kind = rig.kinds[pick(len(rig.kinds))]
    if pick(2):
        rig.relist(kind)
    else:
        rig.relist_in_parts(kind)


def run(rig: Rig, pick: Pick) -> None:
    """The engine tries a few pods."""
    rig.run(1 + pick(4))


def time_passes(rig: Rig, pick: Pick) -> None:
    """Advance the time: shortly, to the engine's next wake-up, or by minutes."""
    ends = rig.engine.next_wakeup()
    choice = pick(8)
    if choice == 0:
        rig.pass_time(float(10 * pick(40)))
    elif choice < 4 and ends is not None:
        rig.pass_time(max(0.0, ends - rig.now))
    else:
        rig.pass_time(pick(30) / 10)


def doorman(rig: Rig, pick: Pick) -> None:
    """Allow or reject a waiting pod."""
    handle = plugin_of(rig.engine, "Doorman").handle
    waiting = list(handle.waiting_pods())
    if waiting:
        uid = waiting[pick(len(waiting))].metadata.uid
        if pick(3):
            handle.allow(uid, "Doorman")
        else:
            handle.reject(uid, "Doorman", "sent away")


def lead(rig: Rig, pick: Pick) -> None:
    """The lease is lost or regained."""
    rig.lead(not rig.engine.is_leading)


def restart(rig: Rig, pick: Pick) -> None:
    """Kill the process and start a new one."""
    rig.restart()


def seeded_run(
    seed: int,
    build: Callable[[], Engine] = tiny_engine,
    *,
    without: tuple[Move, ...] = (),
    instead: Mapping[Move, Move] | None = None,
    extender: Callable[[AskExtender, Pod], ExtenderAnswer] | None = None,
) -> Rig:
    """Make 60 to 120 moves, all chosen by `seed`; the rig has not settled.

    `without` leaves moves out, `instead` replaces some, `extender` answers for extenders.
    """
    random = Random(seed)
    rig = Rig(build)
    rig.api.extender = extender
    for _ in range(60 + random.randrange(60)):
        move = WEIGHTED[random.randrange(len(WEIGHTED))]
        if move not in without:
            (instead or {}).get(move, move)(rig, random.randrange)
    return rig


MOVES: tuple[tuple[Move, int], ...] = (
    (create_pod, 14), (run, 14), (watch, 14), (perform, 12), (deliver, 12), (time_passes, 6),
    (add_node, 6), (change_node, 3), (delete_node, 1), (change_pod, 3), (delete_pod, 2),
    (terminate_pod, 1), (finish_pod, 2), (bind_elsewhere, 2), (foreign_pod, 2), (service, 2),
    (perform_twice, 2), (lose_answer, 3), (refuse, 4), (delay, 2), (swallow, 1), (arrive, 2),
    (relist, 2), (doorman, 2), (lead, 1), (restart, 1),
)  # fmt: skip
WEIGHTED: tuple[Move, ...] = tuple(move for move, weight in MOVES for _ in range(weight))
