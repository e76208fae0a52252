"""The API server's audit log: every write of the schedulers, with user, time and outcome."""

import json
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from tests.real.api import Api

SCHEDULER_USER = "system:kube-scheduler"
POWERLESS_USER = "powerless"
WRITES = ["create", "update", "patch", "delete", "deletecollection"]

Json = dict[str, Any]


class Audit:
    """Make it before the cluster, pass `flags` to the API server, read the log at any time.

    `of` are the fields of the policy's rule; without it the writes of the schedulers' users are
    kept.
    """

    def __init__(self, folder: Path, of: Json | None = None) -> None:
        self._log = folder / "audit.log"
        policy = folder / "audit-policy.yaml"
        rule = {"level": "Metadata"} | (
            of or {"users": [SCHEDULER_USER, POWERLESS_USER], "verbs": WRITES}
        )
        policy.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "audit.k8s.io/v1",
                    "kind": "Policy",
                    "omitStages": ["RequestReceived"],
                    "rules": [rule, {"level": "None"}],
                }
            )
        )
        self.flags = [
            f"--audit-policy-file={policy}",
            f"--audit-log-path={self._log}",
            "--audit-log-mode=blocking",
        ]

    def entries(self) -> list[Json]:
        """Return all entries so far, in order.

        A watch is logged when it starts and ends.
        """
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        return [json.loads(line) for line in lines]

    def writes(self, user: str | None = None) -> list[Json]:
        """Return all finished writes in order of their end, of one user or of all schedulers."""
        return [e for e in self.entries() if user is None or e["user"]["username"] == user]

    def bindings(self, user: str | None = None) -> list[Json]:
        """Return the writes that bind a pod, whatever their result."""
        return [
            entry
            for entry in self.writes(user)
            if entry["objectRef"].get("subresource") == "binding"
        ]


def code_of(entry: Json) -> int:
    """Return the status code of an answer; 0 without one."""
    return int(entry.get("responseStatus", {}).get("code", 0))


def received_at(entry: Json) -> float:
    """Return when the API server got a request, in seconds since the epoch."""
    return datetime.fromisoformat(entry["requestReceivedTimestamp"]).timestamp()


def named(entry: Json) -> str:
    """Return the subject of a write, for messages: verb, resource, namespace/name, code."""
    ref = entry["objectRef"]
    resource = "/".join(filter(None, (ref["resource"], ref.get("subresource"))))
    name = f"{ref.get('namespace', '')}/{ref.get('name', '')}"
    return f"{entry['verb']} {resource} {name} {code_of(entry)}"


def binds_per_pod(bindings: list[Json]) -> Counter[str]:
    """Return how often each pod was bound, by its name."""
    return Counter(entry["objectRef"]["name"] for entry in bindings if 200 <= code_of(entry) < 300)


async def let_schedule(api: Api, user: str) -> None:
    """Give a user every right of the API server's own scheduler user."""
    subject = {"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    bindings = [
        (f"{rbac}/clusterrolebindings", "ClusterRole", "system:kube-scheduler"),
        (f"{rbac}/clusterrolebindings", "ClusterRole", "system:volume-scheduler"),
        (
            f"{rbac}/namespaces/kube-system/rolebindings",
            "Role",
            "extension-apiserver-authentication-reader",
        ),
        (
            f"{rbac}/namespaces/kube-system/rolebindings",
            "Role",
            "system::leader-locking-kube-scheduler",
        ),
    ]
    for path, kind, name in bindings:
        role = {"kind": kind, "name": name, "apiGroup": "rbac.authorization.k8s.io"}
        body = {"metadata": {"name": f"{user}-{name}"}, "roleRef": role, "subjects": [subject]}
        await api.expect("POST", path, body)
