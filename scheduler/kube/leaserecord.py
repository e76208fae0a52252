"""The last observed version of a Lease, and the next one to write. No I/O, no clock.

The election reads and writes the object. This module keeps the last version and the time since
which its content is unchanged, by the local clock: clocks of different machines are never compared.
Fields that the election does not use are preserved.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from scheduler.base.clock import rfc3339, rfc3339_micro
from scheduler.base.text import cut_bytes

MESSAGE_BYTES = 1024
# Annotations by which the command line finds the leader: its address, and the hash of its
# configuration.
ENDPOINT, CONFIGURATION = "trellis.dev/endpoint", "trellis.dev/configuration"
VERSION = "trellis.dev/version"
# The resources that the leader may not list, separated by commas.
DENIED = "trellis.dev/may-not-list"
# Why the configuration file, as it is now, is not the one in use.
CONFIGURATION_ERROR = "trellis.dev/configuration-error"
PUBLISHED = (ENDPOINT, CONFIGURATION, VERSION, DENIED, CONFIGURATION_ERROR)


class LeaseSettings(msgspec.Struct, frozen=True):
    """The lease, our identity (unique per process), and kube-scheduler's three durations in
    seconds.
    """

    namespace: str
    name: str
    identity: str
    component: str = "trellis"
    lease_s: float = 15.0
    renew_deadline_s: float = 10.0
    retry_s: float = 2.0


class LeaseRecord:
    """The Lease as last seen."""

    def __init__(self, settings: LeaseSettings) -> None:
        self._settings = settings
        self._lease: dict[str, Any] | None = None
        self._spec: dict[str, Any] = {}
        self._since = 0.0
        self.published: Callable[[], Mapping[str, str]] = dict

    @property
    def is_current(self) -> bool:
        """Return whether the last version seen may still be the one on the server."""
        return self._lease is not None

    @property
    def holder(self) -> str:
        """Return the holder of the lease, '' without one."""
        return str(self._spec.get("holderIdentity") or "")

    @property
    def is_ours(self) -> bool:
        """Return whether we hold the lease, valid or not."""
        return self.holder == self._settings.identity

    def see(self, lease: dict[str, Any], now: float) -> None:
        """Take note of a version; its time runs from when its content was new to us."""
        self._lease = lease
        spec = lease.get("spec") or {}
        if spec != self._spec:
            self._spec = spec
            self._since = now

    def doubt(self) -> None:
        """Record that the server's version differs from the one observed last."""
        self._lease = None

    def expires_in_s(self, now: float) -> float:
        """Return how long the holder's claim is valid, by our clock; not positive when it is
        over.
        """
        if not self.holder:
            return 0.0
        duration = float(self._spec.get("leaseDurationSeconds") or self._settings.lease_s)
        return self._since + duration - now

    def new(self, now: float) -> dict[str, Any]:
        """Return a first version of the Lease with this process as its holder."""
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": self._settings.name,
                "namespace": self._settings.namespace,
                **({"annotations": dict(notes)} if (notes := self.published()) else {}),
            },
            "spec": self._claim(now, acquired=None, transitions=0),
        }

    def claimed(self, now: float) -> dict[str, Any]:
        """Return the next version with this process as holder: renewed if it had the lease, else
        taken over.
        """
        transitions = int(self._spec.get("leaseTransitions") or 0)
        if self.is_ours:
            claim = self._claim(now, self._spec.get("acquireTime"), transitions)
        else:
            claim = self._claim(now, None, transitions + 1)
        lease = self._lease or self.new(now)
        return {**_annotated(lease, self.published()), "spec": {**self._spec, **claim}}

    def released(self, now: float) -> dict[str, Any]:
        """Return the next version, without a holder."""
        lease = _annotated(self.claimed(now), {})
        # One second, not zero: the API rejects a lease without a duration.
        lease["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
        return lease

    def event(
        self, reason: str, what: str, now: float, *, is_warning: bool = False
    ) -> dict[str, Any]:
        """Return an event about this process and the lease."""
        meta = (self._lease or {}).get("metadata") or {}
        namespace, name = self._settings.namespace, self._settings.name
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{name}.{int(now * 1e9):x}", "namespace": namespace},
            "involvedObject": {
                "kind": "Lease",
                "apiVersion": "coordination.k8s.io/v1",
                "namespace": namespace,
                "name": name,
                "uid": meta.get("uid", ""),
                "resourceVersion": meta.get("resourceVersion", ""),
            },
            "reason": reason,
            "message": cut_bytes(f"{self._settings.identity} {what}", MESSAGE_BYTES),
            "source": {"component": self._settings.component},
            "reportingComponent": self._settings.component,
            "firstTimestamp": rfc3339(now),
            "lastTimestamp": rfc3339(now),
            "count": 1,
            "type": "Warning" if is_warning else "Normal",
        }

    def _claim(self, now: float, acquired: str | None, transitions: int) -> dict[str, Any]:
        return {
            "holderIdentity": self._settings.identity,
            "leaseDurationSeconds": int(self._settings.lease_s),
            "acquireTime": acquired or rfc3339_micro(now),
            "renewTime": rfc3339_micro(now),
            "leaseTransitions": transitions,
        }


def _annotated(lease: Mapping[str, Any], published: Mapping[str, str]) -> dict[str, Any]:
    """Return a Lease with this process's annotations in place of an earlier leader's."""
    meta = lease.get("metadata") or {}
    given = meta.get("annotations") or {}
    notes = {key: value for key, value in given.items() if key not in PUBLISHED} | dict(published)
    if notes == given:
        return dict(lease)
    return {**lease, "metadata": {**meta, "annotations": notes}}
