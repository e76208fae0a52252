"""The outcome of a write, as a label of the metrics and as an answer for the engine."""

from scheduler.engine.effects import Answer
from scheduler.kube.api import Response

_ETCD = ("rpc error: ", "etcdserver: ", "context deadline exceeded")


def result_of(response: Response) -> str:
    """Return ok, conflict, gone, rejected or error."""
    if response.ok:
        return "ok"
    if response.code == 404 or was_replaced(response):
        return "gone"
    if response.code == 409:
        return "conflict"
    return "error" if response.is_transient else "rejected"


def was_replaced(response: Response) -> bool:
    """Return whether a write with a uid met another object of the same name."""
    if response.code == 409:
        return "uid" in response.message.lower()
    return response.code == 422 and "metadata.uid" in response.message


def answer(effect: int, response: Response, body: object = None) -> Answer:
    """Return the answer for the engine; code 0 if the outcome is unknown.

    A request that was never sent is answered 503: it was certainly not executed.
    """
    if not response.was_sent:
        return Answer(effect, 503, response.reason, response.message, body)
    code = 0 if is_unsettled(response) else response.code
    return Answer(effect, code, response.reason, response.message, body)


def is_unsettled(response: Response) -> bool:
    """Return whether a write that has this response may have been executed, or may still be."""
    if not response.was_sent:
        return False
    if response.code >= 500:
        return not _is_barred(response)
    return response.code in (0, 408) or _is_cut_short(response)


def _is_barred(response: Response) -> bool:
    """Return whether a failing webhook ended a request: admission precedes every write."""
    return response.code == 500 and "webhook" in response.message


def _is_cut_short(response: Response) -> bool:
    """Return whether etcd failed during a binding, which kube-apiserver reports as a conflict."""
    return response.code == 409 and any(sign in response.message for sign in _ETCD)
