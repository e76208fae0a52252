"""The roles of a group whose members differ: members of equal requests that fit the same nodes.

Such members are one role, whatever else differs in their specs; the filters decide which nodes fit.
Reads, changes nothing.
"""

from collections.abc import Hashable, Mapping, Sequence

import msgspec
import numpy as np

from scheduler.base.arrays import IntColumn, IntMatrix
from scheduler.framework.groups import AssignmentRejection, Fits, PlanningContext
from scheduler.framework.nodes import Nodes
from scheduler.groups.description.classes import ClassesSpec
from scheduler.groups.description.spec import GroupSpec
from scheduler.groups.planning.between import port_name
from scheduler.groups.planning.roles.rolespread import (
    kinds,
    selected_by,
    spreads_like,
    without_spread,
)
from scheduler.objects.devices import DeviceClass
from scheduler.objects.pod import Pod
from scheduler.plugins.deviceclasses import class_backed
from scheduler.state.resources import PODS, Amounts
from scheduler.state.shapes import host_ports


class RoleMembers(msgspec.Struct):
    """Members of one role; `slots` is how many of them each row takes, and may be lowered.

    `kind`, `shared_domain` and `costs` are those of `Fits`, `of` is the name of their class,
    `selected` whether each rule of members towards others selects them.
    """

    pods: tuple[Pod, ...]
    request: Amounts
    slots: IntColumn
    evictable: IntColumn
    message: str
    kind: Hashable = ()
    shared_domain: IntColumn | None = None
    of: str = ""
    costs: IntMatrix | None = None
    selected: tuple[bool, ...] = ()


def members(
    context: PlanningContext,
    spec: GroupSpec,
    requests: Mapping[str, Amounts],
    device_classes: Mapping[str, DeviceClass],
) -> list[RoleMembers]:
    """Return the members by role; an empty list if all have one.

    Without classes, members differ by their claims, or by the rules that count them. A device class
    turns the requests of each container into a claim, so equal sums may be unequal claims.
    """
    named = dict.fromkeys(name for amounts in requests.values() for name in amounts)
    claiming = bool(class_backed(device_classes, named)) or any(
        pod.spec.resource_claims for pod in context.members
    )
    first = context.members[0].spec
    if not claiming and all(pod.spec == first for pod in context.members):
        if spec.classes is None and len(kinds(context.members, context.members)) == 1:
            # Class by class: with equal specs, filters may treat the pods of two workloads
            # differently.
            return []
    elif not (spec.has_classes or claiming):
        return []
    if spec.classes is None:
        return by_role(fits_each(context, context.members), requests)
    # Class by class: of equal specs, filters may say this of one workload's pods and that of
    # another's.
    parts = _by_class(context.members, spec.classes).values()
    each = [found for pods in parts for found in fits_each(context, pods)]
    return by_role(each, requests, spec.classes)


def fits_each(context: PlanningContext, pods: Sequence[Pod]) -> list[tuple[tuple[Pod, ...], Fits]]:
    """Run the filters for each kind of some of the members; return each kind with its pods.

    Without the spread constraints that count members: they are put before the solver.
    """
    found = []
    for equal in kinds(pods, context.members):
        relaxed = [without_spread(pod, context.members) for pod in equal]
        found.append((equal, context.fits(relaxed)))
    return found


def _by_class(pods: Sequence[Pod], classes: ClassesSpec) -> dict[str, list[Pod]]:
    found: dict[str, list[Pod]] = {}
    for pod in pods:
        found.setdefault(classes.of(pod), []).append(pod)
    return found


def by_role(
    each: Sequence[tuple[Sequence[Pod], Fits]],
    requests: Mapping[str, Amounts],
    classes: ClassesSpec | None = None,
) -> list[RoleMembers]:
    """Return the members by role, in the order of the first of each."""
    found: list[RoleMembers] = []
    firsts = [pods[0] for pods, _ in each]
    for pods, fits in each:
        of = "" if classes is None else classes.of(pods[0])
        request = request_of(pods[0], requests)
        evictable = np.where(fits.evictable, len(pods), 0)
        selected = selected_by(pods[0], firsts)
        equal = (one for one in found if one.of == of and one.selected == selected)
        same = next((one for one in equal if _is_same(one, request, pods[0], fits)), None)
        if same is None:
            message = fits.message
            found.append(
                RoleMembers(
                    tuple(pods),
                    request,
                    fits.slots,
                    evictable,
                    message,
                    fits.kind,
                    fits.shared_domain,
                    of,
                    fits.costs,
                    selected,
                )
            )
        else:
            same.pods += tuple(pods)
            same.evictable = np.where(fits.evictable, len(same.pods), 0)
    return found


def request_of(pod: Pod, requests: Mapping[str, Amounts]) -> Amounts:
    """Return a member's request, including one pod slot and its host ports."""
    ports = dict.fromkeys(map(port_name, host_ports(pod)), 1)
    return {**requests[pod.metadata.uid], PODS: 1, **ports}


def _is_same(one: RoleMembers, request: Amounts, pod: Pod, fits: Fits) -> bool:
    return (
        one.request == request
        and one.kind == fits.kind
        and np.array_equal(one.slots, fits.slots)
        and np.array_equal(one.evictable > 0, fits.evictable)
        and not _terms(pod)
        and not _terms(one.pods[0])
        and spreads_like(pod, one.pods[0])
    )


def learn(
    members: Sequence[RoleMembers],
    nodes: Mapping[str, str],
    live: Nodes,
    rejection: AssignmentRejection,
) -> None:
    """Lower the row's capacity for the role of the rejected member."""
    uid = rejection.pod.metadata.uid  # the pod itself may have changed while the solver worked
    wrong = next(one for one in members if any(pod.metadata.uid == uid for pod in one.pods))
    row = live.row(rejection.node)
    if row is None or row >= len(wrong.slots):
        return
    there = sum(nodes.get(pod.metadata.uid) == rejection.node for pod in wrong.pods)
    most = np.full(len(wrong.slots), len(wrong.pods))
    most[row] = max(0, there - 1)
    wrong.slots = np.minimum(wrong.slots, most)
    wrong.evictable = np.minimum(wrong.evictable, most)


def _terms(pod: Pod) -> bool:
    affinity = pod.spec.affinity
    return affinity is not None and affinity.pod_anti_affinity is not None
