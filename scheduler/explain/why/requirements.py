"""The requirements of a pod, one by one, each with the pod without it.

A requirement is a part of the spec that can exclude nodes; a missing toleration counts as well. The
requirements that plugins have for every pod are found by trials (`scheduler.explain.why.trials`).
Pure functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from scheduler.objects.node import Taint
from scheduler.objects.pod import (
    Affinity,
    Container,
    Pod,
    ResourceRequirements,
    Toleration,
)
from scheduler.objects.quantity import resource_text
from scheduler.plugins.nodeunschedulable import CORDON
from scheduler.state.resources import counted, pod_requests

Edit: TypeAlias = Callable[[Pod], Pod]
MOST_TAINTS = 8
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


class PodRequirement(msgspec.Struct, frozen=True):
    """One requirement, with `field` and `text` as in `UnmetRequirement`.

    `less` states its removal ("without …"). `without` is None for a plugin's requirement; then its
    filter is left out (and its pre-filter if that rejects), or only its `reasons` are ignored, if
    there are any. `resource` is the requested resource of a request.
    """

    field: str
    text: str
    less: str
    without: Edit | None = None
    resource: str = ""
    tolerates: tuple[Taint, ...] = ()
    plugin: str = ""
    is_pre_filter: bool = False
    reasons: frozenset[str] = frozenset()


def requirements_of(pod: Pod, taints: Sequence[Taint]) -> tuple[PodRequirement, ...]:
    """Return all requirements in the spec of `pod`.

    `taints` are the hard ones that it does not tolerate.
    """
    return (
        *_requests(pod),
        *_node_selection(pod),
        *_tolerations(taints),
        *_between_pods(pod),
        *_spreading(pod),
        *_ports(pod),
        *_volumes(pod),
        *_claims(pod),
    )


def without_all(pod: Pod, requirements: Iterable[PodRequirement]) -> Pod:
    """Return the pod without these requirements."""
    for requirement in requirements:
        if requirement.without is not None:
            pod = requirement.without(pod)
    return pod


def _satisfied(field: str, text: str, without: Edit) -> PodRequirement:
    return PodRequirement(field, f"satisfies its {text}", f"without its {text}", without)


def _requests(pod: Pod) -> Iterator[PodRequirement]:
    for name, amount in counted(pod_requests(pod)).items():
        if amount > 0:
            text = f"has {resource_text(name, amount)} {name} free"
            less = f"without its request of {name}"
            yield PodRequirement(
                f"requests[{name}]", text, less, _without_request(name), resource=name
            )


def _without_request(name: str) -> Edit:
    def edit(pod: Pod) -> Pod:
        bare = without_request(pod, name)
        overhead = {key: value for key, value in pod.spec.overhead.items() if key != name}
        return _with(bare, overhead=overhead)

    return edit


def without_request(pod: Pod, name: str) -> Pod:
    """Return `pod` without its requests and limits of a resource; its overhead remains."""

    def cut(resources: ResourceRequirements) -> ResourceRequirements:
        # The API server copies a limit without a request to the request.
        requests, limits = (
            {key: value for key, value in one.items() if key != name}
            for one in (resources.requests, resources.limits)
        )
        return replace(resources, requests=requests, limits=limits)

    def lighter(containers: tuple[Container, ...]) -> tuple[Container, ...]:
        return tuple(replace(one, resources=cut(one.resources)) for one in containers)

    spec = pod.spec
    return _with(
        pod,
        containers=lighter(spec.containers),
        init_containers=lighter(spec.init_containers),
        resources=None if spec.resources is None else cut(spec.resources),
    )


def _node_selection(pod: Pod) -> Iterator[PodRequirement]:
    for key, value in (pod.spec.node_selector or {}).items():
        yield _satisfied(
            f"spec.nodeSelector[{key}]", f"node selector {key}={value}", _without_selector(key)
        )
    affinity = pod.spec.affinity
    if affinity is not None and affinity.node_affinity is not None:
        required = affinity.node_affinity.required
        if required is not None:
            field = f"spec.affinity.nodeAffinity.{REQUIRED}"
            yield _satisfied(field, "required node affinity", _without_node_affinity)


def _without_selector(key: str) -> Edit:
    def edit(pod: Pod) -> Pod:
        left = {one: value for one, value in (pod.spec.node_selector or {}).items() if one != key}
        return _with(pod, node_selector=left or None)

    return edit


def _without_node_affinity(pod: Pod) -> Pod:
    affinity = pod.spec.affinity or Affinity()
    if affinity.node_affinity is None:
        return pod
    own = replace(affinity.node_affinity, required=None)
    return _with(pod, affinity=replace(affinity, node_affinity=own))


def _tolerations(taints: Sequence[Taint]) -> Iterator[PodRequirement]:
    """Yield one requirement per taint, and one for the rest where there are many."""
    for taint in taints[:MOST_TAINTS]:
        text = taint_text(taint)
        says, less = f"is free of the taint {text}", f"with a toleration of {text}"
        if taint == CORDON:
            says, less = "is not cordoned", "if the node were not cordoned"
        yield PodRequirement(
            f"spec.tolerations[{text}]", says, less, _tolerating((taint,)), tolerates=(taint,)
        )
    rest = tuple(taints[MOST_TAINTS:])
    if rest:
        text = ", ".join(map(taint_text, rest[:MOST_TAINTS]))
        text += f" and {len(rest) - MOST_TAINTS} more" if len(rest) > MOST_TAINTS else ""
        yield PodRequirement(
            "spec.tolerations[*]",
            f"is free of the {len(rest)} taints {text}",
            f"with tolerations of {text}",
            _tolerating(rest),
            tolerates=rest,
        )


def taint_text(taint: Taint) -> str:
    """Return a taint in kubectl's format."""
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"


def _tolerating(taints: Sequence[Taint]) -> Edit:
    added = tuple(
        Toleration(key=taint.key, operator="Equal", value=taint.value, effect=taint.effect)
        for taint in taints
    )
    return lambda pod: _with(pod, tolerations=(*pod.spec.tolerations, *added))


def _between_pods(pod: Pod) -> Iterator[PodRequirement]:
    affinity = pod.spec.affinity
    if affinity is None:
        return
    for kind, name, words in (
        ("pod_affinity", "podAffinity", "affinity to pods"),
        ("pod_anti_affinity", "podAntiAffinity", "anti-affinity to pods"),
    ):
        own = getattr(affinity, kind)
        for number, term in enumerate(own.required if own is not None else ()):
            which = f" ({number + 1} of {len(own.required)})" if len(own.required) > 1 else ""
            text = f"{words} by {term.topology_key}{which}"
            field = f"spec.affinity.{name}.{REQUIRED}[{number}]"
            yield _satisfied(field, text, _without_term(kind, term))


def _without_term(kind: str, term: object) -> Edit:
    def edit(pod: Pod) -> Pod:
        affinity = pod.spec.affinity or Affinity()
        own = getattr(affinity, kind)
        if own is None:
            return pod
        left = replace(own, required=_all_but(term, own.required))
        return _with(pod, affinity=replace(affinity, **{kind: left}))

    return edit


def _spreading(pod: Pod) -> Iterator[PodRequirement]:
    for number, one in enumerate(pod.spec.topology_spread_constraints):
        if one.when_unsatisfiable == "DoNotSchedule":
            field = f"spec.topologySpreadConstraints[{number}]"
            text = f"spread over {one.topology_key} (skew of {one.max_skew} at most)"
            yield _satisfied(field, text, _without("topology_spread_constraints", one))


def _without(field: str, entry: object) -> Edit:
    """Return an edit that removes one entry from a list of the spec."""

    def edit(pod: Pod) -> Pod:
        return _with(pod, **{field: _all_but(entry, getattr(pod.spec, field))})

    return edit


def _all_but(entry: object, entries: Iterable[object]) -> tuple[object, ...]:
    return tuple(one for one in entries if one is not entry)


def _ports(pod: Pod) -> Iterator[PodRequirement]:
    spec = pod.spec
    ports = {
        (port.host_port, port.protocol): None
        for one in (*spec.containers, *spec.init_containers)
        for port in one.ports
        if port.host_port
    }
    for number, protocol in ports:
        field = f"spec.containers[*].ports[hostPort={number}/{protocol}]"
        yield _satisfied(field, f"host port {number}/{protocol}", _without_port(number, protocol))


def _without_port(number: int, protocol: str) -> Edit:
    def closed(containers: tuple[Container, ...]) -> tuple[Container, ...]:
        return tuple(
            replace(
                one,
                ports=tuple(
                    p for p in one.ports if (p.host_port, p.protocol) != (number, protocol)
                ),
            )
            for one in containers
        )

    def edit(pod: Pod) -> Pod:
        spec = pod.spec
        return _with(
            pod, containers=closed(spec.containers), init_containers=closed(spec.init_containers)
        )

    return edit


def _volumes(pod: Pod) -> Iterator[PodRequirement]:
    for volume in pod.spec.volumes:
        claim = volume.persistent_volume_claim
        text = f"volume {volume.name}"
        text += f" (claim {claim.claim_name})" if claim is not None else ""
        yield _satisfied(f"spec.volumes[{volume.name}]", text, _without("volumes", volume))


def _claims(pod: Pod) -> Iterator[PodRequirement]:
    for claim in pod.spec.resource_claims:
        field = f"spec.resourceClaims[{claim.name}]"
        edit = _without("resource_claims", claim)
        yield _satisfied(field, f"resource claim {claim.name}", edit)


def _with(pod: Pod, **fields: object) -> Pod:
    return replace(pod, spec=replace(pod.spec, **fields))
