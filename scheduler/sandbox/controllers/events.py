"""Events of controllers for `kubectl describe` and `kubectl get events`.

Repetitions of the same event on the same object count up in one Event object, as in client-go. A
failed write of an event does not stop its controller: in a terminating namespace the event is
dropped.
"""

from scheduler.sandbox.api.status import Object, StatusError
from scheduler.sandbox.kinds.kinds import EVENTS
from scheduler.sandbox.store.store import ObjectStore

NORMAL = "Normal"
WARNING = "Warning"


def record(
    store: ObjectStore,
    regarding: Object,
    component: str,
    reason: str,
    message: str,
    kind: str = NORMAL,
) -> None:
    """Write an event about an object that has its apiVersion and kind."""
    meta = regarding["metadata"]
    namespace = meta.get("namespace") or "default"
    # The name is a hash of the event, so that a repetition finds its predecessor.
    tag = _tag(f"{meta['uid']}/{component}/{reason}/{message}")
    name = f"{meta['name'][:230]}.{tag:016x}"
    current = store.find(EVENTS, namespace, name)
    now = store.now()
    try:
        if current is not None:
            count = current.obj.get("count", 1) + 1
            store.update(EVENTS, {**current.obj, "count": count, "lastTimestamp": now})
            return
        store.create(
            EVENTS,
            {
                "metadata": {"name": name},
                "involvedObject": {
                    "apiVersion": regarding["apiVersion"],
                    "kind": regarding["kind"],
                    "name": meta["name"],
                    "namespace": meta.get("namespace", ""),
                    "uid": meta["uid"],
                    "resourceVersion": meta["resourceVersion"],
                },
                "reason": reason,
                "message": message[:1024],
                "type": kind,
                "count": 1,
                "firstTimestamp": now,
                "lastTimestamp": now,
                "source": {"component": component},
                "reportingComponent": component,
                "reportingInstance": "",
            },
            namespace,
        )
    except StatusError:
        return


def _tag(text: str) -> int:
    """Return the FNV-1a hash, 64 bit: the same in every process, unlike `hash`."""
    found = 0xCBF29CE484222325
    for byte in text.encode():
        found = (found ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return found
