"""PodMonitor, ServiceMonitor and PrometheusRule as far as the chart uses them: definitions with
strict schemas.

A cluster with kube-prometheus has the whole ones. These hold just the chart's fields, so that a
server that validates strictly refuses any other.
"""

from typing import Any

Json = dict[str, Any]
GROUP, VERSION = "monitoring.coreos.com", "v1"
TEXT, BOOLEAN = {"type": "string"}, {"type": "boolean"}
TEXTS = {"type": "object", "additionalProperties": TEXT}
DURATION = {"type": "string", "pattern": r"^([0-9]+(ms|s|m|h|d))+$"}
RELABELING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def an_object(required: tuple[str, ...] = (), **properties: Json) -> Json:
    """Return the schema of an object with these fields."""
    schema: Json = {"type": "object", "properties": properties}
    return schema | {"required": list(required)} if required else schema


def a_list(of: Json) -> Json:
    """Return the schema of a list."""
    return {"type": "array", "items": of}


ENDPOINT = an_object(
    port=TEXT,
    scheme={"type": "string", "enum": ["http", "https"]},
    interval=DURATION,
    scrapeTimeout=DURATION,
    honorLabels=BOOLEAN,
    bearerTokenFile=TEXT,
    tlsConfig=an_object(insecureSkipVerify=BOOLEAN),
    relabelings=a_list(RELABELING),
    metricRelabelings=a_list(RELABELING),
)
MONITOR = an_object(
    ("endpoints", "selector"),
    namespaceSelector=an_object(matchNames=a_list(TEXT)),
    selector=an_object(matchLabels=TEXTS),
    endpoints=a_list(ENDPOINT),
)
POD_ENDPOINT = an_object(
    port=TEXT,
    scheme={"type": "string", "enum": ["http", "https"]},
    interval=DURATION,
    authorization=an_object(credentials=an_object(("key",), name=TEXT, key=TEXT)),
    tlsConfig=an_object(insecureSkipVerify=BOOLEAN),
)
POD_MONITOR = an_object(
    ("podMetricsEndpoints", "selector"),
    namespaceSelector=an_object(matchNames=a_list(TEXT)),
    selector=an_object(matchLabels=TEXTS),
    podMetricsEndpoints=a_list(POD_ENDPOINT),
)
RULE = an_object(
    ("expr",),
    alert=TEXT,
    expr=TEXT,
    labels=TEXTS,
    annotations=TEXTS,
    **{"for": DURATION},
)
RULES = an_object(groups=a_list(an_object(("name",), name=TEXT, rules=a_list(RULE))))


def definitions() -> list[Json]:
    """Return all definitions."""
    return [
        _definition("PodMonitor", "podmonitors", POD_MONITOR),
        _definition("ServiceMonitor", "servicemonitors", MONITOR),
        _definition("PrometheusRule", "prometheusrules", RULES),
    ]


def _definition(kind: str, plural: str, spec: Json) -> Json:
    schema = an_object(("spec",), spec=spec)
    version = {"name": VERSION, "served": True, "storage": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [version | {"schema": {"openAPIV3Schema": schema}}],
        },
    }
