"""Compare the answers of a server without history: a real one and the simulation's.

`answers.json` beside this file has the answers of a real kube-apiserver; see
tests/real/test_answers.py.
"""

import re
from collections.abc import Awaitable, Callable
from typing import Any

from tests.apiserver.manifests import lease

LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
NUMBER = re.compile(r"\d+")
# Sends a request; returns code and body.
Ask = Callable[[str, str, Any], Awaitable[tuple[int, Any]]]
# Opens a watch; returns its code, and its first event if one arrives at once.
Watch = Callable[[str], Awaitable[tuple[int, Any]]]


async def before(ask: Ask) -> dict[str, str]:
    """Create some history; return the requests about it, by name."""
    for name in ("a", "b", "c"):
        await ask("POST", LEASES, lease(name))
    _, page = await ask("GET", f"{LEASES}?limit=1", None)
    _, made = await ask("POST", LEASES, lease("d"))
    await ask("POST", LEASES, lease("e"))
    version, token = made["metadata"]["resourceVersion"], page["metadata"]["continue"]
    exactly = f"?resourceVersion={version}&resourceVersionMatch=Exact"
    return {
        "the next page of a list": f"{LEASES}?limit=1&continue={token}",
        "a list of exactly a version": f"{LEASES}{exactly}",
        "a watch from a "
        "version": f"{LEASES}?watch=true&timeoutSeconds=60&resourceVersion={version}",
        "a watch from the first "
        "version": f"{LEASES}?watch=true&timeoutSeconds=60&resourceVersion=1",
        "a list of a version that is not there yet": f"{LEASES}?resourceVersion=1000000000000",
        "a watch from a version that is not there yet": (
            f"{LEASES}?watch=true&timeoutSeconds=60&resourceVersion=1000000000000"
        ),
    }


async def after(asked: dict[str, str], ask: Ask, watch: Watch) -> dict[str, Any]:
    """Send the requests after the history was dropped.

    Return the answers, and the page of a token.
    """
    reported: dict[str, Any] = {}
    for what, path in asked.items():
        code, body = await (watch(path) if "watch=true" in path else ask("GET", path, None))
        token = (body or {}).get("metadata", {}).get("continue", "")
        reported[what] = {"code": code, "body": normal(body)}
        if token:
            _, rest = await ask("GET", f"{LEASES}?continue={token}", None)
            reported[what]["goes on with"] = [one["metadata"]["name"] for one in rest["items"]]
    return reported


def normal(body: Any) -> Any:
    """Return an answer without version numbers and token."""
    if isinstance(body, dict):
        return {
            name: "<token>" if name == "continue" else normal(part) for name, part in body.items()
        }
    if isinstance(body, list):
        return [normal(part) for part in body]
    return NUMBER.sub("<n>", body) if isinstance(body, str) else body
