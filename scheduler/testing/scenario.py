"""`Scenario`: the whole engine on a clock that the test moves, for more than one verdict.

Queues, back-off, requeueing, permit, preemption and binding run as in the daemon; the API server is
simulated in memory, so that nothing fails unless a plugin causes it. Time does not pass until
`advance`. Called by tests of plugins; never sleeps and opens no socket.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from msgspec.structs import replace

from scheduler.base.clock import ManualClock, rfc3339
from scheduler.base.errors import InputError, ObjectError, StateError
from scheduler.config import load
from scheduler.engine.attempt.cycle import Ties
from scheduler.engine.decision import Decision
from scheduler.engine.effects import Record, Watched
from scheduler.engine.queue.pod import QueuedPod, Where
from scheduler.framework.handle import Handle
from scheduler.framework.plugin import Plugin
from scheduler.framework.registry import Registry
from scheduler.intree import IN_TREE
from scheduler.objects.plain import plain_data, read_object
from scheduler.objects.pod import Pod
from scheduler.simulate.cluster.cluster import SimulatedCluster
from scheduler.simulate.cluster.extenders import skipped_extenders
from scheduler.simulate.stage import AnswerOptions, Setup, build_engine
from scheduler.testing.scene import NOW, PluginClass

# A test in which pods wake each other forever must end.
MOST_ROUNDS = 100_000
_HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


class Fault(NamedTuple):
    """An exception that a plugin raised, or an object that could not be used."""

    plugin: str
    point: str
    error: Exception


class Scenario:
    """A cluster with a scheduler.

    Objects are plain manifests, pods are named by `name` or `namespace/name`. `plugins` are classes
    to run beside the default ones at all their points, with `args` by plugin name; `config` (the
    text of a file) replaces both. `events` are those recorded so far, `faults` the plugins'
    exceptions; both only grow.
    """

    def __init__(
        self,
        *objects: Mapping[str, Any],
        plugins: Iterable[PluginClass] = (),
        args: Mapping[str, Mapping[str, Any]] | None = None,
        config: str = "",
        now: float = NOW,
    ) -> None:
        classes = tuple(plugins)
        registry = Registry((*IN_TREE, *classes))
        text = config or _config(classes, args or {})
        loaded = load(text, file="the scenario's configuration", registry=registry)
        self._clock = ManualClock(now)
        skipped_extenders(loaded.scheduler.extenders)
        self._engine = build_engine(Setup(loaded, registry), AnswerOptions(ties=Ties.NAME))
        self._cluster = SimulatedCluster(self._engine, ())
        self._decisions: dict[str, list[Decision]] = {}
        self._uids = 0
        self.events: list[Record] = []
        self.faults: list[Fault] = []
        observation = self._engine.observation
        observation.on_decision = self._decided
        observation.on_fault = lambda *fault: self.faults.append(Fault(*fault))
        self.apply(*objects)

    @property
    def now(self) -> float:
        """Return the time, in seconds since the epoch."""
        return self._clock.now()

    # External changes.

    def apply(self, *objects: Mapping[str, Any]) -> None:
        """Create objects, or replace those of the same name; ObjectError for an invalid one."""
        for raw in objects:
            kind, obj = read_object(raw)
            if isinstance(obj, Pod):
                self._put_pod(raw, obj)
            else:
                self._deliver(Watched(kind.kind, "MODIFIED", obj))

    def delete(self, kind: str, name: str, namespace: str = "default") -> None:
        """Delete an object; InputError when there is none of that name."""
        key = f"{namespace}/{name}"
        if kind == "Pod":
            self._cluster.drop(self._pod(key).metadata.uid, self.now)
            return
        if kind == "Node":
            row = self._engine.cluster.table.rows.get(name)
            found = None if row is None else self._engine.cluster.table.nodes[row]
        else:
            known = self._engine.cluster.store.of(kind)
            found = known.get(key) or known.get(name)
        if found is None:
            raise InputError(f"there is no {kind} {name}")
        self._deliver(Watched(kind, "DELETED", found))

    # Time.

    def run(self) -> None:
        """Schedule pods until no further change happens at this time."""
        for _ in range(MOST_ROUNDS):
            effects = self._engine.run(self.now, 1)
            self.events += [effect for effect in effects if isinstance(effect, Record)]
            self._cluster.carry_out(effects, self.now)
            if not effects and not self._engine.has_work():
                return
        raise StateError(f"pods are still being retried after {MOST_ROUNDS} rounds")

    def advance(self, seconds: float) -> None:
        """Advance the clock; the engine runs at each of its own deadlines on the way."""
        end = self.now + seconds
        self.run()
        while (wake := self._engine.next_wakeup()) is not None and wake <= end:
            # A deadline that remains after its run must not stop the clock.
            self._clock.set(max(self.now + 0.001, wake))
            self.run()
        self._clock.set(max(self.now, end))
        self.run()

    # Results.

    def node_of(self, pod: str) -> str:
        """Return the node that a pod is bound to, '' if it is not bound.

        InputError after its deletion.
        """
        return self._pod(pod).spec.node_name

    def state(self, pod: str) -> str:
        """Return the state of a pod: `bound`, `gone`, or kube-scheduler's name of its queue."""
        found = self._cluster.find(_key(pod))
        if found is None:
            return "gone"
        if found.spec.node_name:
            return "bound"
        queued = self._engine.queues.get(found.metadata.uid)
        if queued is None:
            return "not ours"
        if queued.where is Where.IN_FLIGHT and queued.uid in self._engine.bindings.waiting:
            return "waiting"
        return queued.where.value

    def message(self, pod: str) -> str:
        """Return the message of a pod's PodScheduled condition, or ''."""
        condition = self._pod(pod).condition("PodScheduled")
        return "" if condition is None else condition.message

    def nominated(self, pod: str) -> str:
        """Return the node to which preemption nominated a pod, or ''."""
        return self._pod(pod).status.nominated_node_name

    def attempts(self, pod: str) -> int:
        """Return the number of attempts of a pod."""
        return len(self.decisions(pod))

    def decisions(self, pod: str) -> tuple[Decision, ...]:
        """Return the result of each attempt of a pod, oldest first."""
        return tuple(self._decisions.get(_key(pod), ()))

    def plugin(self, name: str, profile: str = "") -> Plugin[Any]:
        """Return the plugin object of a profile, the first one by default."""
        profiles = self._engine.profiles
        return profiles[profile or next(iter(profiles))].plugins[name]

    @property
    def handle(self) -> Handle:
        """Return the engine's handle for plugins: waiting pods, `allow`, `reject`."""
        plugins = next(iter(self._engine.profiles.values())).plugins
        return next(iter(plugins.values())).handle

    # Internals.

    def _put_pod(self, raw: Mapping[str, Any], pod: Pod) -> None:
        meta, spec = pod.metadata, pod.spec
        known = self._cluster.find(pod.key)
        if known is not None:
            meta = replace(meta, uid=known.metadata.uid)
        elif not (plain_data(raw).get("metadata") or {}).get("uid"):
            self._uids += 1
            meta = replace(meta, uid=f"uid-{self._uids:06}")
        if meta.creation_timestamp is None:
            meta = replace(meta, creation_timestamp=rfc3339(self.now))
        if "schedulerName" not in (raw.get("spec") or {}):
            spec = replace(spec, scheduler_name=next(iter(self._engine.profiles)))
        if known is not None and not spec.node_name:
            spec = replace(spec, node_name=known.spec.node_name)
        faults = len(self.faults)
        self._cluster.put(replace(pod, metadata=meta, spec=spec), self.now)
        self._refuse(faults)

    def _deliver(self, event: Watched) -> None:
        faults = len(self.faults)
        self._engine.handle(event, self.now)
        self._refuse(faults)

    def _refuse(self, faults: int) -> None:
        """Raise the engine's error about an object, so that a test does not continue without it."""
        for fault in self.faults[faults:]:
            if isinstance(fault.error, ObjectError):
                raise ObjectError(fault.error.message, where=f"{fault.plugin} {fault.point}")

    def _pod(self, name: str) -> Pod:
        found = self._cluster.find(_key(name))
        if found is None:
            raise InputError(f"there is no pod {_key(name)}")
        return found

    def _decided(self, queued: QueuedPod, decision: Decision) -> None:
        self._decisions.setdefault(queued.pod.key, []).append(decision)


def _key(pod: str) -> str:
    return pod if "/" in pod else f"default/{pod}"


def _config(classes: Iterable[PluginClass], args: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the configuration text of a profile with these plugins; JSON is YAML."""
    enabled = [{"name": cls.name} for cls in classes]
    given = [{"name": name, "args": plain_data(one)} for name, one in args.items()]
    profile = {"plugins": {"multiPoint": {"enabled": enabled}}, "pluginConfig": given}
    return json.dumps(_HEAD | {"profiles": [profile]})
