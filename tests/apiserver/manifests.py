"""Short manifests for the API cases."""

from typing import Any

Json = dict[str, Any]
ZONE = "topology.kubernetes.io/zone"


def pod(name: str = "p", *, labels: Json | None = None, generate: str = "", **spec: Any) -> Json:
    """Return a pod with one container; `spec` fields override its own."""
    meta: Json = {"generateName": generate} if generate else {"name": name}
    if labels:
        meta["labels"] = labels
    # The service account is given because only the sandbox fills it in.
    base = {
        "containers": [{"name": "c", "image": "pause:3"}],
        "serviceAccountName": "default",
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {**base, **spec}}


def container(name: str = "c", **rest: Any) -> Json:
    return {"name": name, "image": "pause:3", **rest}


def config(name: str = "c", **data: str) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def node(name: str, **spec: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {ZONE: "z1"}},
        "spec": spec,
        "status": {"capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
    }


def binding(name: str, target: str, **meta: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, **meta},
        "target": {"kind": "Node", "name": target},
    }


def deployment(name: str = "web", **spec: Any) -> Json:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container()]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": labels}, "template": template, **spec},
    }


def lease(name: str = "l", **spec: Any) -> Json:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name},
        "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15, **spec},
    }


def budget(name: str = "b", **spec: Any) -> Json:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec},
    }


def widgets(plural: str, kind: str, schema: Json | None = None, **version: Any) -> Json:
    """A definition of a namespaced kind in example.com."""
    document = schema or {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "required": ["size"],
                "properties": {
                    "size": {"type": "integer", "minimum": 1, "maximum": 9},
                    "color": {"type": "string", "enum": ["red", "blue"], "default": "red"},
                    "name": {"type": "string", "maxLength": 5, "pattern": "^[a-z]*$"},
                    "parts": {
                        "type": "array",
                        "maxItems": 3,
                        "items": {
                            "type": "object",
                            "properties": {"id": {"type": "string"}, "n": {"type": "integer"}},
                            "required": ["id"],
                        },
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["id"],
                    },
                    "port": {"x-kubernetes-int-or-string": True},
                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                    "opt": {"type": "string", "nullable": True},
                },
            },
            "status": {"type": "object", "properties": {"ready": {"type": "integer"}}},
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": document},
                    "subresources": {"status": {}},
                    **version,
                }
            ],
        },
    }
