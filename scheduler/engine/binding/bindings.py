"""From a chosen node to a bound pod: reserve, permit, pre-bind, bind, and the rules for answers.

Pure like the rest of the engine: requests to the API server leave as effects, and their answers
return through `answer`. A bind whose outcome is unknown is looked up. It is sent again while the
first request may still arrive, before the pod's capacity is released. A lost answer can therefore
neither lose a pod nor overcommit a node. The result of each binding is put into `changes`.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from scheduler.base.errors import PluginError
from scheduler.engine.attempt import failure
from scheduler.engine.attempt.suspended import GRACE_S
from scheduler.engine.binding.inflight import Ended, InFlight, is_doubtful, objection, short_of
from scheduler.engine.binding.permit import PermitDecision, WaitingPods
from scheduler.engine.binding.prebind import PRE_BIND, PreBindPlaces
from scheduler.engine.deadlines import Deadlines
from scheduler.engine.effects import (
    LATE_S,
    OUTDATED,
    Answer,
    AskExtender,
    Bind,
    Call,
    Look,
    Seen,
)
from scheduler.engine.extender.extenders import ConfiguredExtender, bound_through, interested
from scheduler.engine.observation import Observation
from scheduler.engine.outbox import Outbox
from scheduler.engine.queue.hints import PREEMPTED
from scheduler.engine.queue.queues import Queues
from scheduler.framework.calls import (
    ApiCall,
    BindPod,
    CallResult,
    PodEvent,
    PreBindDone,
    WaitUntil,
    WillWait,
)
from scheduler.framework.status import Code, Status, unschedulable
from scheduler.state.cluster import Cluster

ANSWER_DEADLINE_S = 60.0
LOOK_AGAIN_S = 1.0
# Volumes are provisioned within seconds, usually; a longer wait is reported on the pod.
REPORT_AFTER_S = 30.0
MOST_BINDS = 5


class Bindings:
    """All pods between decision and binding, by uid; an extender that binds does so for the
    plugins.
    """

    def __init__(
        self,
        outbox: Outbox,
        observation: Observation,
        queues: Queues,
        waiting: WaitingPods,
        cluster: Cluster,
        extenders: Sequence[ConfiguredExtender],
        changes: deque[Any],
    ) -> None:
        self._outbox = outbox
        self._observation = observation
        self._binders = tuple(one for one in extenders if one.binds)
        self._changes = changes
        self._cluster = cluster
        self._pods: dict[str, InFlight] = {}
        self._by_effect: dict[int, InFlight] = {}
        self._until: dict[str, WaitUntil] = {}
        self._deadlines = Deadlines()  # timeouts of pods that wait at permit, or for an answer
        # Set by the group scheduler: why a member must not be bound now, or an empty text.
        self.group_objection: Callable[[str], str] = lambda _uid: ""
        # Set by the group scheduler: whether a member whose pre-bind is done waits until `resume`,
        # and for which other members.
        self.member_ready: Callable[[str], bool] = lambda _uid: False
        self.awaited: Callable[[str], str] = lambda _uid: ""
        self._paused: set[str] = set()
        self.waiting = waiting
        self.pre_bind = PreBindPlaces(queues)

    def __len__(self) -> int:
        return len(self._pods)

    @property
    def busy(self) -> int:
        """Return how many pods are being bound, without those that wait at permit, for volumes or
        for their group.
        """
        return len(self._pods) - len(self.waiting) - len(self._until) - len(self._paused)

    def get(self, uid: str) -> InFlight | None:
        """Return a pod in flight, or None."""
        return self._pods.get(uid)

    def enter(self, pod: InFlight) -> None:
        """Record an assumed pod that will `begin` in a later turn."""
        self._pods[pod.uid] = pod
        pod.short = short_of(pod, self._cluster)

    def begin(self, pod: InFlight, now: float, hold: tuple[str, float] | None = None) -> None:
        """Reserve for an assumed pod and run permit.

        `hold` (plugin name, seconds) keeps the pod at permit until the plugin allows it.
        """
        if pod.uid not in self._pods:
            self.enter(pod)
        waits: dict[str, float] = {}
        try:
            status = pod.runner.reserve(pod.cycle, pod.node, pod.states)
            if status.is_success:
                status, waits = pod.runner.permit(pod.cycle, pod.node)
        except PluginError as error:
            status = self._failed(error)
        if status.code is Code.WAIT:
            self._write_nomination(pod)
        if hold is not None and (status.is_success or status.code is Code.WAIT):
            waits, status = {**waits, hold[0]: hold[1]}, Status(Code.WAIT)
        if status.code is Code.WAIT:
            self._deadlines.set(pod.uid, self.waiting.add(pod.queued, waits, now))
        elif status.is_success:
            self._proceed(pod, now)
        else:
            self._end(pod, status, now)

    def allow(self, uid: str, plugin: str, now: float) -> None:
        """Record that `plugin` permits a waiting pod."""
        if self.waiting.allow(uid, plugin):
            self._leave_permit(uid, Code.SUCCESS, now)
            self._proceed(self._pods[uid], now)
        elif uid in self.waiting:
            self._deadlines.set(uid, self.waiting[uid].ends_at)

    def reject(self, uid: str, plugin: str, reason: str, now: float) -> None:
        """Reject a waiting pod in the name of `plugin`."""
        if self._leave_permit(uid, Code.UNSCHEDULABLE, now):
            status = Status(Code.UNSCHEDULABLE, (reason,), plugin)
            self._end(self._pods[uid], status, now)

    def apply_permit(self, decision: PermitDecision, now: float) -> None:
        """Apply a plugin's decision about a pod at permit."""
        if decision.reason is None:
            self.allow(decision.uid, decision.plugin, now)
        else:
            self.reject(decision.uid, decision.plugin, decision.reason, now)

    def recall(self, uid: str, status: Status, now: float) -> None:
        """End a pod that is at permit or in pre-bind; one whose bind has begun goes on."""
        pod = self._pods.get(uid)
        if pod is not None and not pod.is_binding:
            pod.is_recalled = True
            self._end(pod, status, now)

    def resume(self, uid: str, now: float) -> None:
        """Bind a member that waited for its group."""
        pod = self._pods.get(uid)
        if pod is not None and isinstance(pod.step, PreBindDone):
            pod.is_binding = True
            self._advance(pod, CallResult(200), now)

    def _leave_permit(self, uid: str, code: Code, now: float) -> bool:
        waiting = self.waiting.drop(uid)
        if waiting is not None:
            self._observation.waited(code, now - waiting.since)
        return waiting is not None

    def preempt(self, uid: str, now: float) -> bool:
        """End the binding of a pod that is not being bound yet; return whether it ended."""
        pod = self._pods.get(uid)
        if pod is None or isinstance(pod.step, BindPod):
            return False
        self._end(pod, Status(Code.UNSCHEDULABLE, ("preempted",), PREEMPTED), now)
        return True

    def answer(self, answer: Answer, now: float) -> bool:
        """Process the answer to an effect; return whether a pod waited for it."""
        pod = self._by_effect.pop(answer.effect, None)
        if pod is None:
            return False
        pod.effect = 0
        result = CallResult(answer.code, answer.reason, answer.message, answer.body)
        if answer.reason == OUTDATED:
            pod.is_outdated = pod.is_outdated or bool(objection(pod, self._cluster))
            pod.is_unsent = not pod.is_outdated
        if pod.is_looking and isinstance(pod.step, BindPod):
            self._bind_seen(pod, result, now)
        elif result.ok or not isinstance(pod.step, BindPod):
            self._advance(pod, result, now)
        else:
            if is_doubtful(pod.step, result):
                pod.doubt_until = now + LATE_S
            is_open = result.code in (0, 404, 409) or result.code >= 500 or now < pod.doubt_until
            (self._look if is_open else self._advance)(pod, result, now)
        return True

    def objection(self, bind: Bind) -> str:
        """Return why a bind must not be sent any more, or an empty text."""
        pod = self._by_effect.get(bind.id)
        if pod is None:
            return "no binding waits for this request any more"
        return objection(pod, self._cluster) or self.group_objection(pod.uid)

    def confirmed(self, uid: str, now: float) -> None:
        """Record that the watch shows the pod bound to the chosen node."""
        pod = self._pods.get(uid)
        if pod is None:
            return
        if isinstance(pod.step, BindPod):
            self._forget_effect(pod)
            self._advance(pod, CallResult(200), now)
        else:
            # Another client bound it to the chosen node: nothing is left to do.
            self._end(pod, Status(), now)

    def abandon(self, uid: str, now: float) -> None:
        """Give up on a pod that was deleted, or bound elsewhere."""
        pod = self._pods.get(uid)
        if pod is not None:
            pod.is_lost = True
            self._end(pod, unschedulable("the pod was removed or bound elsewhere"), now)

    def changed(self, facts: Iterable[str], now: float) -> None:
        """Evaluate again the predicates that read one of these facts."""
        if not self._until:
            return
        touched = set(facts)
        for uid, until in list(self._until.items()):
            # The end of one binding may free capacity that has woken the next one already.
            if touched.intersection(until.reads) and self._until.get(uid) is until:
                self._evaluate_predicate(self._pods[uid], until, now)

    def expire(self, now: float) -> Iterator[None]:
        """End one overdue wait, or look up one bind without an answer; the caller repeats the
        call.
        """
        for uid in self._deadlines.take(now):
            pod = self._pods.get(uid)
            if pod is None or uid in self._deadlines:
                continue  # the end of an earlier one has ended this binding, or advanced it
            if uid in self.waiting:
                plugin, timeout_s = self.waiting[uid].first
                self.reject(uid, plugin, failure.waited_too_long(plugin, timeout_s), now)
            elif isinstance(pod.step, WaitUntil) and now < pod.ends_at:
                self._deadlines.set(uid, pod.ends_at)
                for effect in failure.waiting(pod.queued, pod.node, pod.step, now):
                    self._outbox.put(effect)
            elif isinstance(pod.step, PreBindDone):
                self._deadlines.set(uid, now + REPORT_AFTER_S)
                others = self.awaited(uid)
                for effect in failure.waiting_for_members(pod.queued, pod.node, others, now):
                    self._outbox.put(effect)
            elif not isinstance(pod.step, BindPod):
                self._forget_effect(pod)
                self._advance(pod, CallResult(0, "Timeout", "context deadline exceeded"), now)
            elif pod.effect or pod.is_looking:
                self._unanswered(pod, now)
            else:
                self._send_bind(pod, pod.step, now)
            yield

    def next_deadline(self) -> float | None:
        """Return the earliest deadline of a binding, or None."""
        return self._deadlines.next()

    def _proceed(self, pod: InFlight, now: float) -> None:
        pod.steps = pod.runner.bind(pod.cycle, pod.node, pod.states, pauses=pod.is_member)
        if self._binders:
            for binder in interested(self._binders, pod.queued.pod)[:1]:
                pod.steps = bound_through(binder, pod.steps)
        self._advance(pod, None, now)

    def _advance(self, pod: InFlight, result: CallResult | Exception | None, now: float) -> None:
        """Pass an answer to the plugins (none at first) and continue to their next request.

        An exception is raised inside the plugin, at its request.
        """
        self._until.pop(pod.uid, None)
        self._paused.discard(pod.uid)
        self._deadlines.drop(pod.uid)
        pod.step = None
        steps = pod.steps
        if steps is None:
            return
        try:
            if isinstance(result, Exception):
                step = steps.throw(result)
            else:
                step = next(steps) if result is None else steps.send(result)
        except StopIteration as stop:
            self._end(pod, stop.value, now)
        except PluginError as error:
            self._end(pod, self._failed(error), now)
        else:
            self._execute(pod, step, now)

    def _execute(self, pod: InFlight, step: Any, now: float) -> None:
        """Turn a plugin's request into an effect or a wait; reject values that are neither."""
        pod.step = step
        if isinstance(step, BindPod):
            pod.is_binding = True
            self._leave_pre_bind(pod, now)
            self._send_bind(pod, step, now)
            return
        if isinstance(step, PreBindDone):
            self._leave_pre_bind(pod, now)
            self._pause(pod, now)
            return
        namespace = pod.queued.pod.metadata.namespace
        if isinstance(step, WillWait | WaitUntil) and (
            full := self.pre_bind.enter(namespace, pod.uid, is_member=pod.is_member)
        ):
            self._end(pod, Status(Code.UNSCHEDULABLE, (full,), PRE_BIND), now)
            return
        pod.has_place = isinstance(step, WillWait | WaitUntil) or pod.has_place
        self._write_nomination(pod)
        if isinstance(step, ApiCall):
            effect = self._expect(pod, now)
            self._outbox.put(Call(effect, step.method, step.path, step.content_type, step.body))
        elif isinstance(step, WaitUntil):
            pod.ends_at = now + step.timeout_s
            self._deadlines.set(pod.uid, min(pod.ends_at, now + REPORT_AFTER_S))
            self._until[pod.uid] = step
            self._evaluate_predicate(pod, step, now)
        elif isinstance(step, PodEvent):
            self._outbox.put(failure.plain_event(pod.queued.pod, step, now))
            self._advance(pod, CallResult(200), now)
        elif isinstance(step, WillWait):
            self._advance(pod, CallResult(200), now)
        else:
            self._advance(pod, TypeError(f"yielded a {type(step).__name__}"), now)

    def _pause(self, pod: InFlight, now: float) -> None:
        """Keep a member on hold until its group may begin to bind."""
        if self.member_ready(pod.uid):
            self._paused.add(pod.uid)
            self._deadlines.set(pod.uid, now + REPORT_AFTER_S)
        else:
            self.resume(pod.uid, now)

    def _leave_pre_bind(self, pod: InFlight, now: float) -> None:
        if pod.has_place:
            pod.has_place = False
            self.pre_bind.leave(pod.queued.pod.metadata.namespace, pod.uid, now)

    def _send_bind(self, pod: InFlight, step: BindPod, now: float) -> None:
        """Send a bind, for the first time or again: it carries the uid, a second one does no
        harm.
        """
        pod.is_looking = False
        pod.binds += 1
        effect = self._expect(pod, now)
        meta = pod.queued.pod.metadata
        if step.extender is None:
            self._outbox.put(Bind(effect, meta.namespace, meta.name, meta.uid, step.node))
            return
        self._deadlines.set(pod.uid, now + max(ANSWER_DEADLINE_S, step.timeout_s + GRACE_S))
        whom = (meta.namespace, meta.name, meta.uid, (step.node,))
        self._outbox.put(AskExtender(effect, step.extender, "bind", *whom))

    def _unanswered(self, pod: InFlight, now: float) -> None:
        """Look up a bind without an answer, or repeat the look-up."""
        self._forget_effect(pod)
        if not pod.is_looking:
            pod.doubt_until = now + LATE_S
            pod.failure = CallResult(0, "Timeout", "the bind was not answered")
        self._look(pod, pod.failure, now)

    def _evaluate_predicate(self, pod: InFlight, until: WaitUntil, now: float) -> None:
        try:
            holds = until.predicate()
        except Exception as error:  # noqa: BLE001 - raised again inside the plugin
            self._advance(pod, error, now)
        else:
            if holds:
                self._advance(pod, CallResult(200), now)

    def _look(self, pod: InFlight, failure: CallResult, now: float) -> None:
        """Look up a bind that failed, apparently with `failure`."""
        pod.failure, pod.is_looking = failure, True
        meta = pod.queued.pod.metadata
        self._outbox.put(Look(self._expect(pod, now), meta.namespace, meta.name))

    def _bind_seen(self, pod: InFlight, result: CallResult, now: float) -> None:
        if not result.ok and result.code != 404:
            self._deadlines.set(pod.uid, now + LOOK_AGAIN_S)
            return
        # A pod that is not found is not abandoned: the watch reports whether it was deleted.
        seen = msgspec.convert(result.body or {}, Seen) if result.ok else Seen(pod.uid)
        if seen.uid == pod.uid and seen.node_name == pod.node:
            self._advance(pod, CallResult(200), now)
            return
        pod.is_lost = seen.uid != pod.uid or bool(seen.node_name)
        if not pod.is_lost and now < pod.doubt_until:
            self._settle(pod, now)
            return
        pod.seen_on = seen.node_name if seen.uid == pod.uid else ""
        self._advance(pod, pod.failure, now)

    def _settle(self, pod: InFlight, now: float) -> None:
        """Keep the reservation of a pod whose bind may still be executed, and send the bind again.

        The answer to a repeated bind is definite. After the last retry, wait until no bind can be
        executed any more, then read the pod once.
        """
        until = pod.doubt_until
        if pod.binds < MOST_BINDS and isinstance(pod.step, BindPod) and pod.step.extender is None:
            pod.is_looking = False
            until = min(until, now + LOOK_AGAIN_S * 2.0 ** (pod.binds - 1))
        self._deadlines.set(pod.uid, until)

    def _expect(self, pod: InFlight, now: float) -> int:
        pod.effect = self._outbox.new_id()
        self._deadlines.set(pod.uid, now + ANSWER_DEADLINE_S)
        self._by_effect[pod.effect] = pod
        return pod.effect

    def _forget_effect(self, pod: InFlight) -> None:
        self._by_effect.pop(pod.effect, None)
        pod.effect = 0

    def _write_nomination(self, pod: InFlight) -> None:
        """Write the nomination before slow steps of the binding begin."""
        if not pod.is_nomination_written:
            pod.is_nomination_written = True
            self._outbox.put(failure.nomination_patch(pod.queued, pod.node))

    def _end(self, pod: InFlight, status: Status, now: float) -> None:
        self._forget_effect(pod)
        self._until.pop(pod.uid, None)
        self._paused.discard(pod.uid)
        self._deadlines.drop(pod.uid)
        self._leave_permit(pod.uid, status.code, now)
        del self._pods[pod.uid]
        self._leave_pre_bind(pod, now)
        if pod.steps is not None:
            try:
                pod.steps.close()
            except PluginError as error:
                self._failed(error)
        self._changes.append(Ended(pod, status))

    def _failed(self, error: PluginError) -> Status:
        """Report a plugin's fault; return the status with which the pod ends."""
        self._observation.fault(error.plugin, error.point, error)
        return Status(Code.ERROR, (str(error),), error.plugin)
