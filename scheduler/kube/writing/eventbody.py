"""The bodies of events (events.k8s.io/v1), field for field what kube-scheduler writes.

Pure functions from `Record` effects to JSON, for the recorder.
"""

import msgspec

from scheduler.base.clock import rfc3339
from scheduler.base.text import cut_bytes
from scheduler.engine.effects import Record

NOTE_BYTES = 1024
INSTANCE_BYTES = 128
_encode = msgspec.json.Encoder().encode


class _Body(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    pass


class _Meta(_Body, frozen=True):
    name: str
    namespace: str


class _Ref(_Body, frozen=True):
    kind: str
    namespace: str
    name: str
    uid: str
    api_version: str
    resource_version: str = ""


class _Series(_Body, frozen=True):
    count: int
    last_observed_time: str


class _Event(_Body, frozen=True):
    api_version: str
    kind: str
    metadata: _Meta
    event_time: str
    reporting_controller: str
    reporting_instance: str
    action: str
    reason: str
    regarding: _Ref
    note: str
    type: str
    related: _Ref | None = None
    series: _Series | None = None


class _SeriesPatch(_Body, frozen=True):
    series: _Series


def _regarding(record: Record) -> _Ref:
    # An event has a namespace even if the object it is about has none.
    namespace = "" if record.kind == "Node" else record.namespace
    uid, version = record.uid, record.resource_version
    return _Ref(record.kind, namespace, record.name, uid, record.api_version, version)


def event_path(namespace: str) -> str:
    """Return the URL path of a namespace's events."""
    return f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"


class EventBodies:
    """Writes bodies; `host` ends the name of the reporting instance."""

    def __init__(self, host: str) -> None:
        self._host = host
        # The text of a second is formatted once for all its events: formatting it is expensive.
        self._second = -1
        self._second_text = ""

    def event(self, record: Record, name: str, count: int, last_s: float) -> bytes:
        """Return the body of a new event; with `count` > 1 it begins as a series."""
        related = None
        if record.related is not None:
            namespace, other, uid = record.related
            related = _Ref("Pod", namespace, other, uid, "v1")
        return _encode(
            _Event(
                api_version="events.k8s.io/v1",
                kind="Event",
                metadata=_Meta(name, record.namespace),
                event_time=self._time(record.now),
                reporting_controller=record.scheduler_name,
                reporting_instance=f"{record.scheduler_name}-{self._host}"[:INSTANCE_BYTES],
                action=record.action,
                reason=record.reason,
                regarding=_regarding(record),
                note=cut_bytes(record.note, NOTE_BYTES),
                type=record.type,
                related=related,
                series=_Series(count, self._time(last_s)) if count > 1 else None,
            )
        )

    def series_patch(self, count: int, last_s: float) -> bytes:
        """Return the patch with the count and the last time of an event series."""
        return _encode(_SeriesPatch(_Series(count, self._time(last_s))))

    def _time(self, moment: float) -> str:
        """Write a `MicroTime`."""
        second, micros = divmod(round(moment * 1e6), 1_000_000)
        if second != self._second:
            self._second, self._second_text = second, rfc3339(second)[:-1]
        return f"{self._second_text}.{micros:06d}Z"
