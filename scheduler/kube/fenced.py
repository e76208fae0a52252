"""`FencedApi`: an API server for those who may write only while this process leads.

The operators get it in place of the client: a process that was stopped past its deadline finds their
writes shut as well as its own effects. Reading is free.
"""

from scheduler.kube.api import JSON, REQUEST_TIMEOUT_S, Api, Response
from scheduler.kube.fence import Fence, FencedError


class FencedApi:
    """Requests through `api`; what would change anything leaves only while `fence` is open."""

    def __init__(self, api: Api, fence: Fence) -> None:
        self._api = api
        self._fence = fence

    async def request(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        content_type: str = JSON,
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> Response:
        """Send one request and return its outcome; of one that may not leave it is NotSent."""
        guard = None if method == "GET" else self._fence.check
        try:
            return await self._api.request(
                method, path, body, content_type=content_type, timeout_s=timeout_s, guard=guard
            )
        except FencedError:
            said = "this process does not lead any more"
            return Response(0, reason="NotSent", message=said, was_sent=False)
