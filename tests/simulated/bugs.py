"""Injected bugs that the simulation must find by itself, from the server's history alone.

`python -m tests.simulated.findbugs` injects one after the other in a copy of the project and
simulates clusters until an invariant is violated. Each changes one line, in the engine or in the
client code for the API server.
"""

from typing import Final, NamedTuple


class Bug(NamedTuple):
    """An injected bug: `old`, which occurs once in `file`, becomes `new`."""

    name: str
    file: str
    old: str
    new: str


_BINDINGS: Final = "scheduler/engine/binding/bindings.py"
_EFFECTS: Final = "scheduler/kube/writing/effects.py"
_WATCH: Final = "scheduler/kube/watching/watch.py"
_LEASE: Final = "scheduler/kube/lease.py"
_QUEUES: Final = "scheduler/engine/queue/queues.py"
_INTAKE: Final = "scheduler/engine/intake.py"
_CLUSTER: Final = "scheduler/state/cluster.py"
_ATTEMPT: Final = "scheduler/engine/attempt/attempt.py"
_PREEMPTION: Final = "scheduler/engine/binding/preemption.py"
_GROUPS: Final = "scheduler/groups/cycle/groups.py"
_FLIGHTS: Final = "scheduler/groups/cycle/bindings.py"
_DAEMON: Final = "scheduler/daemon/process.py"

BUGS: Final = (
    # Binds
    Bug("a deferred bind is sent without another check", _EFFECTS,
        "if why := self._objection(effect):", 'if why := "":'),
    Bug("a node that shrank does not stop a bind", "scheduler/engine/binding/inflight.py",
        "short_of(pod, cluster) - pod.short", "set[str]()"),
    Bug("a deleted node does not stop a bind", "scheduler/engine/binding/inflight.py",
        "if pod.node not in cluster.table.rows:", "if False:"),
    Bug("a member is bound although all others were rejected", _BINDINGS,
        " or self.group_objection(pod.uid)", ""),
    Bug("a failed bind is not looked up", _BINDINGS,
        "(self._look if is_open else self._advance)(pod, result, now)",
        "self._advance(pod, result, now)"),
    Bug("no capacity stays reserved for a bind that may still arrive", _BINDINGS,
        "if not pod.is_lost and now < pod.doubt_until:", "if False:"),
    Bug("a bind counts as lost a second after its timeout", "scheduler/engine/effects.py",
        "LATE_S = 65.0", "LATE_S = 1.0"),
    Bug("504 counts as not executed", "scheduler/kube/writing/outcome.py",
        "        return not _is_barred(response)\n", "        return False\n"),
    Bug("a request without an answer counts as done", "scheduler/kube/writing/outcome.py",
        "code = 0 if is_unsettled(response) else response.code",
        "code = 201 if is_unsettled(response) else response.code"),
    Bug("a bind does not contain the pod's uid", "scheduler/kube/writing/bodies.py",
        "ref = _Ref(effect.name, effect.namespace, effect.uid)",
        'ref = _Ref(effect.name, effect.namespace, "")'),
    Bug("a lookup does not compare the pod's uid", _BINDINGS,
        "if seen.uid == pod.uid and seen.node_name == pod.node:", "if seen.node_name == pod.node:"),
    Bug("a bind waits while patches of its pod fail", "scheduler/kube/writing/podstatus.py",
        "            under_way.is_superseded.set()\n", ""),
    # Leading
    Bug("the fence is not checked before a bind", _EFFECTS,
        "        def check() -> None:\n            self._fence.check()\n",
        "        def check() -> None:\n"),
    Bug("the fence is not checked again once there is a connection",
        "scheduler/kube/writing/sender.py",
        "guard=check,", "guard=None,"),
    Bug("the fence stays open until the lease expires for others", _LEASE,
        "self._fence.open_until(sent_at + self._settings.renew_deadline_s)",
        "self._fence.open_until(sent_at + 3 * self._settings.lease_s)"),
    Bug("the fence is not closed when the lease is lost", _DAEMON,
        "        self._has_lost = True\n        self._executor.fence()\n",
        "        self._has_lost = False\n"),
    Bug("a lease is taken before it has expired", "scheduler/kube/leaserecord.py",
        "return self._since + duration - now", "return self._since + duration / 8 - now"),
    Bug("the time of a lease is read by its holder's clock", _LEASE,
        "if is_taken and (self.is_leader or self._record.expires_in_s(now) > 0):",
        "if is_taken and self.is_leader:"),
    Bug("a standby decides like a leader", "scheduler/engine/engine.py",
        "return self.is_leading and not self.intake.behind", "return not self.intake.behind"),
    Bug("a new leader does not catch up first", _DAEMON,
        "            self._watches.catch_up()\n", "            pass\n"),
    Bug("a lease is released while binds are in flight", _LEASE,
        "if self._fence.may_be_late:", "if False:"),
    Bug("a process that has lost the lease keeps running and does nothing", _DAEMON,
        "        if self._has_lost:\n", "        if False:\n"),
    Bug("a leader never begins to lead", _DAEMON,
        "            self._inbox.put(Leading(active=True))\n", ""),
    # Watches
    Bug("scheduling continues during a relist", _WATCH,
        "            self._emit(Behind(self.kind.kind))\n", "            pass\n"),
    Bug("one 404 proves that a kind is not offered", _WATCH,
        "        if self.kind.required or why.code not in (403, 404):\n            return False\n",
        "        if why.code != 403:\n            return why.code == 404\n"),
    Bug("one 403 proves that a kind may not be listed", _WATCH,
        "self._lists == 0 and await self._stays_denied()", "self._lists == 0"),
    Bug("a silent watch is never closed", _WATCH,
        "silence_s: float = 150.0", "silence_s: float = 1e9"),
    Bug("a watch that ends is not opened again", _WATCH,
        "            end, why = await self._watch()\n",
        "            end, why = await self._watch()\n            await asyncio.sleep(1e6)\n"),
    Bug("the last change of a chunk is skipped", _WATCH,
        'for line in data.split(b"\\n"):', 'for line in data.split(b"\\n")[:-1] or [data]:'),
    Bug("objects missing in a list stay", _INTAKE,
        "return [obj for obj in self._known(event.kind) if identity(obj) not in keys]",
        "return []"),
    Bug("an unserved kind is never discovered again", _WATCH,
        "delay = self._settings.look_again_s * (0.9 + self._random.random() / 5)", "delay = 1e9"),
    # Books
    Bug("deleted nodes are kept", _INTAKE,
        "            return self._cluster.drop_node(node.metadata.name)\n",
        "            return self._cluster.put_node(node)\n"),
    Bug("released capacity stays in use", _CLUSTER,
        "        if placed is None or not placed.assumed:\n            return NOTHING\n        "
        "self._release(placed)\n",
        "        if placed is None or not placed.assumed:\n            return NOTHING\n        "
        "self.pods.drop(uid)\n"),
    Bug("deleted pods still use capacity", _CLUSTER,
        "        if placed is None:\n            return NOTHING\n        self._release(placed)\n",
        "        if placed is None:\n            return NOTHING\n        self.pods.drop(uid)\n"),
    Bug("a pod resized in place counts with its old requests", _CLUSTER,
        "            if before.weighs_as(placed):", "            if before.node == placed.node:"),
    Bug("a node that shrinks counts with its old size", "scheduler/state/table.py",
        "if column.values[row] != offers.get(resource, 0):",
        "if column.values[row] < offers.get(resource, 0):"),
    Bug("assumed pods use no capacity", _CLUSTER,
        "        placed = self._record(pod, node, assumed=True)\n        self._replace(placed)\n",
        "        placed = self._record(pod, node, assumed=True)\n        self.pods.put(placed)\n"),
    Bug("an older version of a bound pod puts it back into the queue", _INTAKE,
        "        if placed is not None and placed.assumed:\n", "        if False:\n"),
    Bug("a deleted pod stays in the queue", _INTAKE,
        "waited = self._queues.remove(uid)", "waited = self._queues.get(uid)"),
    # The queue
    Bug("a pod whose binding failed is lost", _QUEUES,
        '        queued.failed_at = now\n        self._wait(queued, Where.ERROR_BACKOFF, '
        '"ScheduleAttemptFailure")\n',
        "        queued.failed_at = now\n"),
    Bug("changes during an attempt wake no pod", _QUEUES,
        "helpful = next((c for c in missed if self._may_help(queued, c)), None)", "helpful = None"),
    Bug("freed capacity wakes no pod", _QUEUES,
        "            if queued.uid != but:\n                self._requeue(queued, change.label, "
        "now)\n",
        "            if queued.uid != but:\n                pass\n"),
    Bug("a back-off never ends", _QUEUES,
        '                    self._end_backoff(queued, "BackoffComplete", now)\n',
        "                    pass\n"),
    Bug("an opened gate ungates no pod", _QUEUES,
        "        elif queued.where is Where.GATED:\n            self._enter(queued, "
        "change.label, now)\n",
        "        elif queued.where is Where.GATED:\n            pass\n"),
    Bug("a pod that was bound elsewhere is tried again", _INTAKE,
        "        self._suspended.drop(uid)\n        self._queues.remove(uid)\n        "
        "self._changes.append(change)\n        if nominated not in",
        "        self._suspended.drop(uid)\n        self._changes.append(change)\n        if "
        "nominated not in"),
    Bug("no condition reports why a pod waits", "scheduler/kube/writing/podstatus.py",
        "            response = await self._sender.once(request)\n",
        "            response = Response(200)\n"),
    # Victims
    Bug("victims are evicted before their event is written", _EFFECTS,
        "        await self._recorder.settle(effect.uid)\n", ""),
    Bug("victims get no DisruptionTarget condition", "scheduler/kube/writing/eviction.py",
        "if effect.is_marked:", "if True:"),
    Bug("pods of equal priority may be evicted", "scheduler/plugins/preemption/victims.py",
        "kept = kept[joined.fields[PRIORITY, kept] < priority]",
        "kept = kept[joined.fields[PRIORITY, kept] <= priority]"),
    Bug("eviction events do not name the preemptor", _PREEMPTION,
        "            self._outbox.put(preempted_event(victim, by, now))\n", "            pass\n"),
    Bug("answered evictions are forgotten, and the preemptor stays gated", _PREEMPTION,
        "        elif queued.where is Where.GATED:\n",
        "        elif False:\n"),
    # Groups
    Bug("members are bound before all have reached permit", _FLIGHTS,
        "            if can_go and self._is_complete(binding):\n", "            if is_reserved:\n"),
    Bug("members whose bind failed keep no capacity reserved", _ATTEMPT,
        'kept = pod.node if is_kept else ""', 'kept = ""'),
    Bug("partially bound groups are not planned first", _GROUPS,
        "        if not self._is_new:\n", "        if True:\n"),
    Bug("members of whole groups are evicted one by one", "scheduler/groups/plugin.py",
        "DisruptionMode.ALL if is_whole else DisruptionMode.SINGLE", "DisruptionMode.SINGLE"),
    Bug("a group's minimum is not checked before each bind", _FLIGHTS,
        "return binding.planner.group_short(binding.key, uid, binding.uids, displaced)",
        'return ""'),
    Bug("members are released without checking that the group was never complete",
        "scheduler/groups/planning/conditions.py",
        "    if not bound or not is_ours or past.was_whole([one.pod for one in bound], "
        "described_by):\n        return False\n",
        "    if bound:\n        return True\n"),
    # Bugs that were found without the simulation: their fix is reverted
    Bug("Retry-After is honoured without bound", "scheduler/kube/connection/backoff.py",
        "return min(retry_after_s, MOST_RETRY_AFTER_S) + min(delay, 1.0)",
        "return retry_after_s + min(delay, 1.0)"),
    Bug("a waiting request keeps its place among those in flight",
        "scheduler/kube/writing/sender.py",
        "        async with aside():\n            await asyncio.sleep(",
        "        if True:\n            await asyncio.sleep("),
)  # fmt: skip
