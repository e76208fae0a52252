"""Injected bugs that the simulation must find by itself, from the server's history alone.

`python -m tests.world.hunt` injects one after the other in a copy of the project and runs worlds
until an invariant is violated. Each changes one line, in the engine or in the client code for the
API server.
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
    Bug("a bind that was put off is sent without asking again", _EFFECTS,
        "if why := self._objection(effect):", 'if why := "":'),
    Bug("a node that has become too small is no objection", "scheduler/engine/binding/inflight.py",
        "short_of(pod, cluster) - pod.short", "set[str]()"),
    Bug("a node that has gone is no objection", "scheduler/engine/binding/inflight.py",
        "if pod.node not in cluster.table.rows:", "if False:"),
    Bug("a member is bound though all others were refused", _BINDINGS,
        " or self.group_objection(pod.uid)", ""),
    Bug("nobody looks what became of a bind that failed", _BINDINGS,
        "(self._look if is_open else self._advance)(pod, result, now)", "self._advance(pod, result, now)"),
    Bug("no room is held for a bind that may still arrive", _BINDINGS,
        "if not pod.is_lost and now < pod.doubt_until:", "if False:"),
    Bug("a bind counts as lost a second after it got no answer", _BINDINGS,
        "LATE_S = 65.0", "LATE_S = 1.0"),
    Bug("504 says that nothing happened", "scheduler/kube/writing/outcome.py",
        "is_open = response.code == 408 or (response.code >= 500 and not _is_barred(response))",
        "is_open = response.code == 408"),
    Bug("what is not answered is answered as done", "scheduler/kube/writing/outcome.py",
        "code = 0 if is_open else response.code", "code = 201 if is_open else response.code"),
    Bug("a bind does not say which pod of this name it means", "scheduler/kube/writing/bodies.py",
        "ref = _Ref(effect.name, effect.namespace, effect.uid)",
        'ref = _Ref(effect.name, effect.namespace, "")'),
    Bug("a look does not ask which pod of this name it sees", _BINDINGS,
        "if seen.uid == pod.uid and seen.node_name == pod.node:", "if seen.node_name == pod.node:"),
    Bug("a bind is held back while patches of its pod fail", "scheduler/kube/writing/podstatus.py",
        "            under_way.is_superseded.set()\n", ""),
    # Leading
    Bug("the fence is not asked before a bind", _EFFECTS,
        "        def check() -> None:\n            self._fence.check()\n", "        def check() -> None:\n"),
    Bug("the fence is not asked again when there is a connection", "scheduler/kube/writing/sender.py",
        "guard=check,", "guard=None,"),
    Bug("the fence stays open for as long as the lease is valid for others", _LEASE,
        "self._fence.open_until(sent_at + self._settings.renew_deadline_s)",
        "self._fence.open_until(sent_at + 3 * self._settings.lease_s)"),
    Bug("the fence is not shut with the lease", _DAEMON,
        "        self._has_lost = True\n        self._executor.fence()\n", "        self._has_lost = False\n"),
    Bug("a lease is taken before it has run out", "scheduler/kube/leaserecord.py",
        "return self._since + duration - now", "return self._since + duration / 8 - now"),
    Bug("the time of a lease is read by its holder's clock", _LEASE,
        "if is_taken and (self.is_leader or self._record.expires_in_s(now) > 0):",
        "if is_taken and self.is_leader:"),
    Bug("a standby decides like a leader", "scheduler/engine/engine.py",
        "return self.is_leading and not self.intake.behind", "return not self.intake.behind"),
    Bug("a new leader does not catch up first", _DAEMON,
        "            self._watches.catch_up()\n", "            pass\n"),
    Bug("a lease is given back over binds on their way", _DAEMON,
        "gives_back=not unsettled", "gives_back=True"),
    Bug("a process that has lost the lease lives on and does nothing", _DAEMON,
        "        if self._has_lost:\n", "        if False:\n"),
    Bug("a leader never begins to lead", _DAEMON,
        "            self._inbox.put(Leading(active=True))\n", ""),
    # Watches
    Bug("decisions go on while a lost list is listed anew", _WATCH,
        "            self._emit(Behind(self.kind.kind))\n", "            pass\n"),
    Bug("one 404 proves that a kind is not offered", _WATCH,
        "        if self.kind.required or why.code not in (403, 404):\n            return False\n",
        "        if why.code != 403:\n            return why.code == 404\n"),
    Bug("one 403 proves that a kind may not be listed", _WATCH,
        "return self._lists == 0 and await self._is_denied()", "return self._lists == 0"),
    Bug("a watch that falls silent is never given up", _WATCH,
        "silence_s: float = 150.0", "silence_s: float = 1e9"),
    Bug("a watch that ends is not opened again", _WATCH,
        "            end, why = await self._watch()\n",
        "            end, why = await self._watch()\n            await asyncio.sleep(1e6)\n"),
    Bug("the last change of a piece is passed over", _WATCH,
        'for line in data.split(b"\\n"):', 'for line in data.split(b"\\n")[:-1] or [data]:'),
    Bug("what a list does not name stays", _INTAKE,
        "return [obj for obj in self._known(event.kind) if identity(obj) not in keys]", "return []"),
    Bug("a kind that was not offered is never asked for again", _WATCH,
        "delay = self._settings.look_again_s * (0.9 + self._random.random() / 5)", "delay = 1e9"),
    # Books
    Bug("nodes that go are kept", _INTAKE,
        "            return self._cluster.drop_node(node.metadata.name)\n", "            return self._cluster.put_node(node)\n"),
    Bug("room that was given back stays taken", _CLUSTER,
        "        if placed is None or not placed.assumed:\n            return NOTHING\n        self._release(placed)\n",
        "        if placed is None or not placed.assumed:\n            return NOTHING\n        self.pods.drop(uid)\n"),
    Bug("pods that go leave their room taken", _CLUSTER,
        "        if placed is None:\n            return NOTHING\n        self._release(placed)\n",
        "        if placed is None:\n            return NOTHING\n        self.pods.drop(uid)\n"),
    Bug("a pod that grows in place counts as before", _CLUSTER,
        "            if before.weighs_as(placed):", "            if before.node == placed.node:"),
    Bug("a node that becomes smaller counts as before", "scheduler/state/table.py",
        "if column.values[row] != offers.get(resource, 0):", "if column.values[row] < offers.get(resource, 0):"),
    Bug("assumed pods take no room", _CLUSTER,
        "        placed = self._record(pod, node, assumed=True)\n        self._replace(placed)\n",
        "        placed = self._record(pod, node, assumed=True)\n        self.pods.put(placed)\n"),
    Bug("an older version of a bound pod puts it back into the queue", _INTAKE,
        "        if placed is not None and placed.assumed:\n", "        if False:\n"),
    Bug("a pod that goes stays in the queue", _INTAKE,
        "waited = self._queues.remove(uid)", "waited = self._queues.get(uid)"),
    # The queue
    Bug("a pod whose binding failed is lost", _QUEUES,
        '        queued.failed_at = now\n        self._wait(queued, Where.ERROR_BACKOFF, "ScheduleAttemptFailure")\n',
        "        queued.failed_at = now\n"),
    Bug("changes during an attempt wake nobody", _QUEUES,
        "helpful = next((c for c in missed if self._may_help(queued, c)), None)", "helpful = None"),
    Bug("room that is freed wakes nobody", _QUEUES,
        "            if queued.uid != but:\n                self._requeue(queued, change.label, now)\n",
        "            if queued.uid != but:\n                pass\n"),
    Bug("a back-off never ends", _QUEUES,
        '                    self._end_backoff(queued, "BackoffComplete", now)\n', "                    pass\n"),
    Bug("a gate that opens lets nobody in", _QUEUES,
        "        elif queued.where is Where.GATED:\n            self._enter(queued, change.label, now)\n",
        "        elif queued.where is Where.GATED:\n            pass\n"),
    Bug("a pod that was bound elsewhere is tried again", _INTAKE,
        "        self._suspended.drop(uid)\n        self._queues.remove(uid)\n        self._changes.append(change)\n        if promised not in",
        "        self._suspended.drop(uid)\n        self._changes.append(change)\n        if promised not in"),
    Bug("nobody is told why a pod waits", "scheduler/kube/writing/podstatus.py",
        "            response = await self._sender.once(request)\n",
        "            response = Response(200)\n"),
    # Victims
    Bug("victims go before their receipt is written", _EFFECTS,
        "        await self._recorder.settle(effect.uid)\n", ""),
    Bug("victims are not marked", "scheduler/kube/writing/eviction.py",
        'if mark is not None and mark.status == "True":', "if True:"),
    Bug("equally important pods may go", "scheduler/plugins/preemption/victims.py",
        "kept = kept[joined.fields[PRIORITY, kept] < priority]",
        "kept = kept[joined.fields[PRIORITY, kept] <= priority]"),
    Bug("receipts do not say for whom", _PREEMPTION,
        "            self._outbox.put(preempted_event(victim, by, now))\n", "            pass\n"),
    Bug("evictions that are answered are waited for no more, and the preemptor is not let in", _PREEMPTION,
        "        elif queued is not None and queued.where is Where.GATED:\n", "        elif False:\n"),
    # Groups
    Bug("members are let go before all stand at permit", _FLIGHTS,
        "            if can_go and self._is_complete(binding):\n", "            if is_reserved:\n"),
    Bug("members whose bind failed keep no room", _ATTEMPT,
        'kept = pod.node if is_kept else ""', 'kept = ""'),
    Bug("groups that were left half bound do not come first", _GROUPS,
        "        self._hold_others({run.key for run in (*self._runs.values(), *self._line)})\n", ""),
    Bug("members of whole groups are evicted one by one", "scheduler/groups/plugin.py",
        "DisruptionMode.ALL if is_whole else DisruptionMode.SINGLE", "Mode.SINGLE"),
    Bug("a group is not asked before each bind whether enough of it have a place", _FLIGHTS,
        "return binding.planner.group_short(binding.key, uid, binding.uids, displaced)", 'return ""'),
    Bug("whether a group was whole is not asked before the rest of it is let go", "scheduler/groups/planning/conditions.py",
        "    if not bound or not is_ours or past.was_whole([one.pod for one in bound], described_by):\n        return False\n",
        "    if bound:\n        return True\n"),
    # Bugs that were found without the simulation: their fix is reverted
    Bug("what an API server asks to wait for is waited for without bound", "scheduler/kube/connection/backoff.py",
        "return min(retry_after_s, MOST_RETRY_AFTER_S) + min(delay, 1.0)", "return retry_after_s + min(delay, 1.0)"),
    Bug("a request that waits keeps its place among those that are sent", "scheduler/kube/writing/sender.py",
        "        async with aside():\n            await asyncio.sleep(", "        if True:\n            await asyncio.sleep("),
)  # fmt: skip
