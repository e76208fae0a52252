"""A plain HTTP client for the API cases, the same for the sandbox and a real kube-apiserver.

Every answer is recorded in a transcript, with all values that must differ (uids, versions, times,
the test's own namespace) replaced. The answers of a real server are in tests/apiserver/recorded;
each run on either server must give the same transcript.
"""

import asyncio
import json
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import aiohttp
from multidict import CIMultiDict

from tests.apiserver.manifests import ZONE, pod
from tests.apiserver.patience import PATIENCE_S, asked

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"

CORE = "/api/v1"
GROUPS = {
    "deployments": "/apis/apps/v1",
    "replicasets": "/apis/apps/v1",
    "statefulsets": "/apis/apps/v1",
    "daemonsets": "/apis/apps/v1",
    "jobs": "/apis/batch/v1",
    "cronjobs": "/apis/batch/v1",
    "poddisruptionbudgets": "/apis/policy/v1",
    "storageclasses": "/apis/storage.k8s.io/v1",
    "csidrivers": "/apis/storage.k8s.io/v1",
    "csinodes": "/apis/storage.k8s.io/v1",
    "priorityclasses": "/apis/scheduling.k8s.io/v1",
    "leases": "/apis/coordination.k8s.io/v1",
    "roles": "/apis/rbac.authorization.k8s.io/v1",
    "rolebindings": "/apis/rbac.authorization.k8s.io/v1",
    "runtimeclasses": "/apis/node.k8s.io/v1",
    "networkpolicies": "/apis/networking.k8s.io/v1",
    "horizontalpodautoscalers": "/apis/autoscaling/v2",
    "customresourcedefinitions": "/apis/apiextensions.k8s.io/v1",
    "deviceclasses": "/apis/resource.k8s.io/v1",
    "resourceclaims": "/apis/resource.k8s.io/v1",
    "resourceclaimtemplates": "/apis/resource.k8s.io/v1",
    "resourceslices": "/apis/resource.k8s.io/v1",
    "podgroups": "/apis/scheduling.k8s.io/v1alpha2",
    "widgets": "/apis/example.com/v1",
}
CLUSTER = {
    "nodes",
    "namespaces",
    "persistentvolumes",
    "storageclasses",
    "csidrivers",
    "csinodes",
    "priorityclasses",
    "runtimeclasses",
    "customresourcedefinitions",
    "deviceclasses",
    "resourceslices",
}


@dataclass
class Reply:
    """An answer: HTTP status, decoded body, headers."""

    code: int
    body: Any
    headers: dict[str, str]
    raw: bytes

    @property
    def meta(self) -> Any:
        return self.body["metadata"]

    @property
    def names(self) -> list[str]:
        """The names in a list."""
        return [item["metadata"]["name"] for item in self.body["items"]]

    @property
    def message(self) -> str:
        return str(self.body["message"])


class Stream:
    """An open watch."""

    def __init__(self, api: "Api", response: aiohttp.ClientResponse) -> None:
        self._api = api
        self._response = response
        self.code = response.status

    async def next(self, *, skip_bookmarks: bool = False, record: bool = True) -> Any:
        """Return the next event, None at the end of the stream; fail at the time limit."""
        while True:
            async with asyncio.timeout(PATIENCE_S):
                line = await self._response.content.readline()
            if not line:
                return None
            event = json.loads(line)
            if skip_bookmarks and event["type"] == "BOOKMARK":
                continue
            if record:
                self._api.record({"event": event})
            return event

    async def types(self, count: int) -> list[tuple[str, str]]:
        """Type and name of the next events."""
        events = [await self.next() for _ in range(count)]
        return [(event["type"], event["object"]["metadata"]["name"]) for event in events]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        abandon(self._response)


@dataclass
class Api:
    """One server under test and one namespace in it; `kind` is sandbox or real."""

    kind: str
    url: str
    session: aiohttp.ClientSession
    ns: str
    mark: str
    transcript: list[Any] = field(default_factory=list)

    def name(self, text: str) -> str:
        """A name of its own for objects of the cluster."""
        return f"{text}-{self.mark}"

    def path(self, where: str) -> str:
        """Full path of `pods`, `pods/p`, `nodes/n`, `/apis/...`."""
        if where.startswith("/"):
            return where
        plural = where.partition("/")[0]
        root = GROUPS.get(plural, CORE)
        return f"{root}/{where}" if plural in CLUSTER else f"{root}/namespaces/{self.ns}/{where}"

    async def send(
        self,
        method: str,
        where: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        record: bool = True,
        headers: Mapping[str, str] | None = None,
        **query: Any,
    ) -> Reply:
        """Send a request; `body` is encoded as JSON unless it is bytes."""
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        sent = CIMultiDict({"Content-Type": content_type})
        sent.extend(headers or {})  # a name may occur several times
        async with self.session.request(
            method, self.url + self.path(where), data=data, headers=sent, params=query or None
        ) as response:
            raw = await response.read()
            try:
                answer = json.loads(raw)
            except ValueError:
                answer = raw.decode(errors="replace")
            reply = Reply(response.status, answer, dict(response.headers), raw)
        if record:
            line = f"{method} {self.path(where)}" + (f" {query}" if query else "")
            self.record({"request": line, "code": reply.code, "body": answer})
        return reply

    async def get(self, where: str, **rest: Any) -> Reply:
        return await self.send("GET", where, **rest)

    async def post(self, where: str, body: Any, **rest: Any) -> Reply:
        return await self.send("POST", where, body, **rest)

    async def post_node(self, body: Any, **rest: Any) -> Reply:
        """Create a node and wait until pods get its zone: a real server's admission observes the
        node slightly later.
        """
        reply = await self.post("nodes", body, **rest)
        probe = pod("probe", nodeName=body["metadata"]["name"])

        async def tried() -> Reply:
            return await self.post("pods", probe, dryRun="All", record=False)

        await asked(tried, lambda got: ZONE in (got.meta.get("labels") or {}), f"{ZONE} on pods")
        return reply

    async def put(self, where: str, body: Any, **rest: Any) -> Reply:
        return await self.send("PUT", where, body, **rest)

    async def delete(self, where: str, body: Any = None, **rest: Any) -> Reply:
        return await self.send("DELETE", where, body, **rest)

    async def patch(self, where: str, body: Any, kind: str = MERGE_PATCH, **rest: Any) -> Reply:
        return await self.send("PATCH", where, body, content_type=kind, **rest)

    async def watch(self, where: str, accept: str = "application/json", **query: Any) -> Stream:
        """Open a watch."""
        response = await self.session.get(
            self.url + self.path(where),
            params={"watch": "true", **query},
            headers={"Accept": accept},
        )
        if response.status != 200:
            body = await response.json()
            self.record({"watch": str(query), "code": response.status, "body": body})
        return Stream(self, response)

    async def until(self, where: str, holds: Any) -> Reply:
        """Read until `holds(reply)`, for changes that the server makes in the background."""
        return await asked(lambda: self.get(where, record=False), holds, where)

    async def until_watched(self, where: str) -> None:
        """Wait until watches can be opened: a real server first answers 429 for a kind that is new
        to it.
        """

        async def opened() -> int:
            query = {"watch": "true"}
            response = await self.session.get(self.url + self.path(where), params=query)
            abandon(response)
            return response.status

        await asked(opened, lambda code: code == 200, where)

    def record(self, entry: Any) -> None:
        """Add an entry to the transcript."""
        # Copied at once: a test may use the answer's dicts for its next request.
        self.transcript.append(json.loads(json.dumps(entry)))

    def normal(self) -> list[Any]:
        """Return the transcript without values that differ between runs."""
        return _Normal(self).transcript(self.transcript)


_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TOO_OLD = re.compile(r"(too old resource version: \d+) \(\d+\)")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_DROPPED = {"managedFields", "selfLink"}
# Descriptions that belong to the real server; the columns themselves are compared.
_PROSE = {"description"}
_VERSIONED = {"resourceVersion", "continue"}


class _Normal:
    """Replaces values that differ between runs: equal values become equal words."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._uids: dict[str, str] = {}

    def transcript(self, entries: list[Any]) -> list[Any]:
        return [self._value(_in_order(entry)) for entry in entries]

    def _value(self, value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {
                self._text(name): self._value(part, name)
                for name, part in value.items()
                if name not in _DROPPED and not (name in _PROSE and "priority" in value)
            }
        if isinstance(value, list):
            return [self._value(part, key) for part in value]
        if isinstance(value, str):
            if key in _VERSIONED and value:
                return f"<{key}>"
            return self._text(value)
        return value

    def _text(self, text: str) -> str:
        text = text.replace(self._api.ns, "<ns>").replace(f"-{self._api.mark}", "")
        text = text.replace(self._api.mark, "<mark>")
        text = _UID.sub(lambda found: self._uid(found.group()), text)
        text = _TOO_OLD.sub(r"\1 (<n>)", text)
        return _TIME.sub("<time>", text)

    def _uid(self, uid: str) -> str:
        return self._uids.setdefault(uid, f"<uid {len(self._uids) + 1}>")


def _in_order(entry: Any) -> Any:
    """Sort the causes about a custom resource: a server walks its schema in no fixed order."""
    body = entry.get("body")
    details = body.get("details") or {} if isinstance(body, dict) else {}
    causes = details.get("causes", ())
    if details.get("group") != "example.com" or len(causes) < 2:
        return entry
    found = sorted(causes, key=lambda cause: (cause["field"], cause["message"]))
    stated, sorted_said = (
        ", ".join(f"{cause['field']}: {cause['message']}" for cause in each)
        for each in (causes, found)
    )
    message = body["message"].replace(f"[{stated}]", f"[{sorted_said}]")
    return {**entry, "body": {**body, "message": message, "details": {**details, "causes": found}}}


def abandon(response: aiohttp.ClientResponse) -> None:
    """Break off an answer at once: a farewell by TLS may outlive the loop, and then leaks."""
    if response.connection is not None and response.connection.transport is not None:
        response.connection.transport.abort()
    response.close()


def trusting(authority: bytes) -> ssl.SSLContext:
    """Return a client context for one authority."""
    return ssl.create_default_context(cadata=authority.decode())
