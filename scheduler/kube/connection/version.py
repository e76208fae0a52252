"""The version of the API server, as `/version` reports it."""

import msgspec

from scheduler.base.errors import InputError
from scheduler.base.release import Release, read_release
from scheduler.kube.connection.client import ApiClient

_PATH = "/version"


class _Version(msgspec.Struct, frozen=True, rename="camel"):
    git_version: str = ""


async def server_version(client: ApiClient, timeout_s: float) -> str:
    """Return a version such as `v1.37.2`, '' if the API server reports none."""
    response = await client.request("GET", _PATH, timeout_s=timeout_s)
    if not response.ok:
        return ""
    try:
        return msgspec.json.decode(response.body, type=_Version).git_version
    except msgspec.DecodeError:
        return ""


async def server_release(client: ApiClient, timeout_s: float) -> Release | None:
    """Return the minor release of the API server, None if it is unavailable."""
    try:
        return read_release(await server_version(client, timeout_s))
    except InputError:
        return None
