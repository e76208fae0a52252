"""Pre-bind of DynamicResources: write reservations, wait for devices, and undo both.

A reservation counts until the API server reports it as written. A write with an unknown result
stays reserved, and the pod retries it: the claim's version distinguishes the cases.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

from scheduler.base.clock import rfc3339
from scheduler.base.reasons import BINDING_CONDITIONS_PENDING
from scheduler.framework.calls import ApiCall, BindStep, CallResult, PodEvent, WaitUntil, WillWait
from scheduler.framework.cycle import Cycle
from scheduler.framework.handle import Handle
from scheduler.framework.status import SUCCESS, Code, Status
from scheduler.objects.claims import ResourceClaim
from scheduler.objects.pod import Pod
from scheduler.plugins.dynamicresources import binding, writing
from scheduler.plugins.dynamicresources.allocation.results import stamped
from scheduler.plugins.dynamicresources.catalog import DeviceCatalog
from scheduler.plugins.dynamicresources.podclaims import (
    CLAIM,
    PODGROUPS,
    ClaimLookup,
    identity,
    is_reserved_for,
)
from scheduler.plugins.dynamicresources.state import Allocated, PodDevices
from scheduler.plugins.dynamicresources.writing import WriteError

# Kubernetes' alphabet for generated names, and their length.
SUFFIX: Final = "bcdfghjklmnpqrstvwxz2456789"
SUFFIX_LENGTH: Final = 5


class PreBinding:
    """Carry out, and undo, the decisions about claims."""

    def __init__(
        self, catalog: DeviceCatalog, claims: ClaimLookup, handle: Handle, binding_timeout_s: float
    ) -> None:
        self._catalog = catalog
        self._claims = claims
        self._handle = handle
        self._timeout_s = binding_timeout_s

    def steps(
        self, cycle: Cycle, node: str, devices: PodDevices
    ) -> Generator[BindStep, CallResult, Status]:
        """Write all claims in order, then wait for devices that must be prepared."""
        pod = cycle.pod
        found = {identity(one.claim): one for one in devices.allocated}
        chosen = (one.allocation for one in devices.allocated)
        kept = (claim.status.allocation for claim in devices.claims)
        if any(map(binding.has_conditions, (*chosen, *kept))):
            yield WillWait()
        try:
            for claim in (*devices.claims, *(o.claim for o in devices.allocated if o.extended)):
                if not is_reserved_for(self._claims.user(pod, claim), claim):
                    allocated = found.get(identity(claim))
                    yield from self._write(cycle, claim, allocated, devices)
        except WriteError as fault:
            return Status(Code.ERROR, (str(fault),))
        waiting = [
            claim
            for claim in (*devices.claims, *devices.written.values())
            if binding.awaits_devices(devices.written.get(identity(claim), claim))
        ]
        if not waiting:
            return SUCCESS
        text = f"waiting for binding conditions for device on node {node}"
        yield PodEvent(BINDING_CONDITIONS_PENDING, "Scheduling", text)
        since = self._handle.now()
        keys = {devices.written.get(identity(one), one).key for one in waiting}
        status, word = yield from self._wait(keys)
        self._count_waited(cycle.profile, keys, word, self._handle.now() - since)
        return status

    def undo(self, pod: Pod, devices: PodDevices) -> tuple[ApiCall, ...]:
        """Release the reservations; return the calls that undo writes."""
        calls: list[ApiCall] = []
        for one in devices.allocated:
            uid = identity(one.claim)
            written = devices.written.get(uid)
            if one.extended is not None:
                self._catalog.release(uid)
                if written is not None:
                    self._catalog.release(identity(written))
                    calls += writing.delete_calls(written)
            elif written is None and uid not in devices.doubtful:
                self._catalog.release(uid, pod.metadata.uid)
            # A written allocation counts before and after the watch reports it.
        for claim in devices.claims:
            written = devices.written.get(identity(claim), claim)
            user = self._claims.user(pod, claim)
            if user.resource == PODGROUPS:
                continue  # other members of the group may be using it
            if written.status.allocation is not None and is_reserved_for(user, written):
                calls.append(writing.unreserve_call(written, user))
        devices.allocated, devices.written = [], {}
        return tuple(calls)

    def _write(
        self, cycle: Cycle, claim: ResourceClaim, allocated: Allocated | None, devices: PodDevices
    ) -> Generator[BindStep, CallResult, None]:
        pod, uid = cycle.pod, identity(claim)
        extended = allocated.extended if allocated is not None else None
        if extended is not None:
            try:
                claim = yield from writing.make(pod, extended, lambda: _suffix(cycle))
            except WriteError:
                self._count_made("failure")
                raise
            self._count_made("success")
            devices.written[uid] = claim
            self._catalog.move(uid, claim)
        allocation = None
        if allocated is not None:
            allocation = stamped(allocated.allocation, rfc3339(self._handle.now()))
        try:
            user = self._claims.user(pod, claim)
            written = yield from writing.write(claim, allocation, user)
        except WriteError as fault:
            if fault.is_doubtful:
                devices.doubtful.add(uid)
                self._catalog.settle(identity(claim), pod.metadata.uid, fault.settled_by)
            raise
        devices.written[uid] = written
        self._catalog.settle(identity(claim), pod.metadata.uid, written.metadata.resource_version)
        if extended is not None:
            yield from writing.write_pod_status(pod, written, extended)

    def _wait(self, keys: set[str]) -> Generator[BindStep, CallResult, tuple[Status, str]]:
        """Wait until all devices of these claims are ready.

        Return the status, and a one-word result.
        """

        def are_ready() -> bool:
            for key in sorted(keys):
                claim = self._catalog.claim(key)
                if claim is None:
                    raise binding.DeviceBindingError(f'could not find ResourceClaim "{key}"')
                if not binding.is_ready(claim):
                    if binding.has_timed_out(claim, self._handle.now(), self._timeout_s):
                        raise binding.BindingTimeoutError(_timed_out(claim.metadata.name))
                    return False
            return True

        try:
            answer = yield WaitUntil(are_ready, (CLAIM,), self._timeout_s)
        except binding.BindingTimeoutError as fault:
            return Status(Code.ERROR, (str(fault),)), "timeout"
        except binding.DeviceBindingError as fault:
            return Status(Code.ERROR, (str(fault),)), "failed"
        if answer.ok:
            return SUCCESS, "success"
        first = min(keys).partition("/")[2]
        return Status(Code.ERROR, (_timed_out(first),)), "timeout"

    def _count_made(self, status: str) -> None:
        meters = self._catalog.meters
        if meters is not None:
            meters.resourceclaim_creates.labels(status).inc()

    def _count_waited(self, profile: str, keys: set[str], word: str, waited_s: float) -> None:
        """Count the awaited devices and their waiting time, by driver."""
        meters = self._catalog.meters
        claims = [self._catalog.claim(key) for key in keys] if meters is not None else []
        for claim in claims:
            allocation = claim.status.allocation if claim is not None else None
            if meters is None or allocation is None:
                continue
            for one in allocation.devices.results:
                meters.binding_conditions_wait.labels(profile, one.driver, word).observe(waited_s)
                if one.binding_conditions:
                    meters.binding_conditions_allocations.labels(profile, one.driver, word).inc()


def _timed_out(claim: str) -> str:
    return f"device binding timeout: claim={claim}"


def _suffix(cycle: Cycle) -> str:
    return "".join(cycle.random.choice(SUFFIX) for _ in range(SUFFIX_LENGTH))
