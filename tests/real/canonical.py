"""Objects of two runs in a comparable form: values that must differ are replaced by placeholders.

Times, uids, versions and free choices among equal nodes become `<time>`, `<uid>`, ... if they have
the required form. Otherwise they stay unchanged, so that a wrong form is a difference too.
"""

import re
import socket
from typing import Any

from tests.real.population import KIND

Json = dict[str, Any]

TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
MICRO_TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$")
OWN_MANAGERS = ("trellis-tests",)
PROGRAMS = ("kube-scheduler", "trellis")


def pod_record(pod: Json, pools: dict[str, str]) -> Json:
    """Return the fields of a pod that a scheduler or the API server has set."""
    status = pod["status"]
    node = pod["spec"].get("nodeName", "")
    return {
        "pool": pools.get(node, node),
        "phase": status.get("phase"),
        "nominatedNodeName": status.get("nominatedNodeName"),
        "conditions": [_condition(pod, each) for each in status.get("conditions", [])],
        "managers": _managers(pod),
    }


def event_record(event: Json, pods: dict[str, Json]) -> Json:
    """Return an event with placeholders for the values of one run; the pod may be deleted."""
    record = dict(event)
    regarding = dict(record["regarding"])
    pod = pods.get(regarding["name"])
    controller = str(record.get("reportingController"))
    node = pod["spec"].get("nodeName", "") if pod else ""
    is_about_it = pod is None or regarding.get("uid") == pod["metadata"]["uid"]
    record["metadata"] = _event_metadata(event["metadata"], regarding["name"])
    record["regarding"] = regarding | {
        "name": "<pod>",
        "uid": "<uid>" if is_about_it else regarding.get("uid"),
        "resourceVersion": _if(r"^\d+$", regarding.get("resourceVersion"), "<version>"),
    }
    record["eventTime"] = _shaped(MICRO_TIME, event.get("eventTime"))
    record["reportingInstance"] = _instance(event.get("reportingInstance"), controller)
    note = str(record.get("note")).replace(f"/{regarding['name']} ", "/<pod> ")
    record["note"] = note.removesuffix(node) + "<node>" if node and note.endswith(node) else note
    if "series" in record:
        series = dict(record["series"])
        series["lastObservedTime"] = _shaped(MICRO_TIME, series.get("lastObservedTime"))
        record["series"] = series
    return record


def kind_of(pod: Json) -> str:
    """Return the kind of pod in the comparison that a name belongs to."""
    return str(pod["metadata"]["labels"][KIND])


def flat(value: Any, path: str = "") -> dict[str, Any]:
    """Return nested objects and lists as path -> plain value."""
    if isinstance(value, dict) and value:
        return {k: v for key in value for k, v in flat(value[key], f"{path}.{key}").items()}
    if isinstance(value, list) and value:
        parts = (flat(each, f"{path}[{index}]") for index, each in enumerate(value))
        return {k: v for part in parts for k, v in part.items()}
    return {path.removeprefix("."): value}


def _condition(pod: Json, condition: Json) -> Json:
    record = dict(condition)
    created = pod["metadata"]["creationTimestamp"]
    since = record.get("lastTransitionTime")
    if since is not None:
        is_sane = bool(TIME.match(since)) and since >= created
        record["lastTransitionTime"] = "<time>" if is_sane else since
    generation = record.get("observedGeneration")
    if generation is not None and generation == pod["metadata"].get("generation"):
        record["observedGeneration"] = "<generation>"
    return record


def _managers(pod: Json) -> list[Json]:
    """Return the field managers other than the test, with their fields."""
    found = [
        {
            "manager": _program(entry.get("manager")),
            "operation": entry["operation"],
            "subresource": entry.get("subresource"),
            "apiVersion": entry["apiVersion"],
            "fields": sorted(flat(entry["fieldsV1"])),
        }
        for entry in pod["metadata"].get("managedFields", [])
        if entry.get("manager") not in OWN_MANAGERS
    ]
    return sorted(found, key=str)


def _event_metadata(metadata: Json, pod: str) -> Json:
    shown = {"uid": "<uid>", "resourceVersion": "<version>", "creationTimestamp": "<time>"}
    record: Json = {key: shown.get(key, value) for key, value in metadata.items()}
    record["name"] = _if(rf"^{re.escape(pod)}\.[0-9a-f]{{16}}$", metadata["name"], "<pod>.<hex>")
    record["managedFields"] = [
        {
            "manager": _program(entry.get("manager")),
            "operation": entry["operation"],
            "apiVersion": entry["apiVersion"],
        }
        for entry in metadata.get("managedFields", [])
    ]
    return record


def _instance(instance: Any, controller: str) -> Any:
    return _if(
        rf"^{re.escape(f'{controller}-{socket.gethostname()}')}$",
        instance,
        "<reportingController>-<hostname>",
    )


def _program(manager: Any) -> Any:
    """Return the name of a field manager; for a scheduler, a common name in place of the program's
    own.
    """
    return "<program>" if manager in PROGRAMS else manager


def _shaped(shape: re.Pattern[str], value: Any) -> Any:
    return "<time>" if isinstance(value, str) and shape.match(value) else value


def _if(pattern: str, value: Any, word: str) -> Any:
    return word if isinstance(value, str) and re.match(pattern, value) else value
