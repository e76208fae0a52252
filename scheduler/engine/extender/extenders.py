"""The extenders as configured: which pods they apply to, their verbs, and how they are called.

Built from the configuration, in call order. `kube.extenders` sends the requests;
`engine.extender.cycle` applies their answers to a pod.
"""

from collections.abc import Generator, Iterable, Sequence
from typing import TypeAlias

import msgspec

from scheduler.config.model import Extender as Configured
from scheduler.framework.calls import BindPod, BindStep, CallResult
from scheduler.framework.duration import seconds
from scheduler.framework.status import Code, Status
from scheduler.objects.pod import Pod

BindSteps: TypeAlias = Generator[BindStep, CallResult, Status]


class ConfiguredExtender(msgspec.Struct, frozen=True):
    """One extender; `number` is its place in the call order, an empty `managed` applies to every
    pod.
    """

    number: int
    name: str
    filters: bool = False
    prioritizes: bool = False
    preempts: bool = False
    binds: bool = False
    weight: int = 1
    timeout_s: float = 5.0
    ignorable: bool = False
    managed: frozenset[str] = frozenset()

    def is_interested(self, pod: Pod) -> bool:
        """Return whether a container requests or limits a resource that the extender manages."""
        if not self.managed:
            return True
        containers = (*pod.spec.containers, *pod.spec.init_containers)
        return any(
            not self.managed.isdisjoint(amounts)
            for container in containers
            for amounts in (container.resources.requests, container.resources.limits)
        )


def in_order(configured: Sequence[Configured]) -> list[Configured]:
    """Return extenders in call order: ignorable ones are last."""
    return sorted(configured, key=lambda extender: extender.ignorable)


def extenders_of(configured: Sequence[Configured]) -> tuple[ConfiguredExtender, ...]:
    """Return the engine's records of the configured extenders."""
    return tuple(
        ConfiguredExtender(
            number,
            one.url_prefix,
            filters=bool(one.filter_verb),
            prioritizes=bool(one.prioritize_verb),
            preempts=bool(one.preempt_verb),
            binds=bool(one.bind_verb),
            weight=one.weight,
            timeout_s=seconds(one.http_timeout),
            ignorable=one.ignorable,
            managed=frozenset(resource.name for resource in one.managed_resources),
        )
        for number, one in enumerate(in_order(configured))
    )


def interested(extenders: Iterable[ConfiguredExtender], pod: Pod) -> tuple[ConfiguredExtender, ...]:
    """Return the extenders that are interested in a pod, in order."""
    return tuple(extender for extender in extenders if extender.is_interested(pod))


def bound_through(extender: ConfiguredExtender, steps: BindSteps) -> BindSteps:
    """Run `steps` (pre-bind, then the bind plugins) with the extender as the binder.

    Where the plugins would bind by the API server, the extender binds. If an ignorable extender
    fails, the plugins bind after all.
    """
    answer: CallResult | Exception | None = None
    while True:
        try:
            if isinstance(answer, Exception):
                step = steps.throw(answer)
            else:
                step = next(steps) if answer is None else steps.send(answer)
        except StopIteration as stop:
            status: Status = stop.value
            return status
        try:
            if isinstance(step, BindPod):
                bound = yield BindPod(step.pod, step.node, extender.number, extender.timeout_s)
                if not bound.ok and not extender.ignorable:
                    return Status(Code.ERROR, (bound.message or bound.reason,))
                answer = bound if bound.ok else (yield step)
            else:
                answer = yield step
        except GeneratorExit:
            steps.close()
            raise
        except Exception as error:  # noqa: BLE001 - raised again inside the plugin
            answer = error
