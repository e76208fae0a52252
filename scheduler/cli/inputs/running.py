"""The configuration of the running daemon, for verbs that calculate its decisions.

The daemon's Lease has a hash of its configuration. If that equals the hash of the defaults, nothing
is fetched; else the configuration is read from the daemon's endpoint. If it is unavailable, the
defaults are used and a notice on stderr states so.
"""

import asyncio

import msgspec
import yaml

from scheduler.base.errors import ApiError, ConfigError, InputError, TrellisError
from scheduler.cli.flags import DaemonFlags
from scheduler.cli.inputs.access import ClusterOptions
from scheduler.cli.inputs.leader import Leader, leader
from scheduler.cli.inputs.live import connect
from scheduler.cli.inputs.past import fetch
from scheduler.config import Loaded, default_config, load
from scheduler.config.fingerprint import fingerprint
from scheduler.framework.registry import Registry
from scheduler.groups.sources.registry import KINDS as GROUP_KINDS
from scheduler.intree import registry
from scheduler.objects.kinds import BY_KIND
from scheduler.simulate.stage import Setup

REMEDY = "--config names its file"


class _Answer(msgspec.Struct, frozen=True):
    componentconfig: dict[str, object]
    trellisconfig: dict[str, object]


_answer = msgspec.json.Decoder(_Answer)


def running_setup(access: ClusterOptions, known: Registry | None = None) -> tuple[Setup, str]:
    """Return the configuration to answer with, and a notice where it may not be the daemon's.

    ConfigError for a kubeconfig that cannot be used.
    """
    known = known or registry()
    defaults = Setup(default_config(known), known)
    try:
        found = asyncio.run(_leader(access))
    except ConfigError:
        # Without credentials the cluster cannot be read either.
        raise
    except TrellisError as error:
        return defaults, f"answered with the default configuration: {error}"
    if not found.configuration:
        text = "does not publish a hash of its configuration; answered with the defaults"
        return defaults, f"the daemon on {found.host} {text} ({REMEDY})"
    notice = denied_text(found)
    if found.configuration == fingerprint(defaults.loaded):
        return defaults, notice
    try:
        return Setup(_configuration(access, known), known), notice
    except TrellisError as error:
        text = "has a configuration of its own, which cannot be read; answered with the defaults"
        return defaults, f"the daemon on {found.host} {text} ({REMEDY}): {error}"


def denied_text(found: Leader) -> str:
    """Return the notice that the leader may not list objects that describe groups; '' if it may."""
    kinds = {BY_KIND[kind].resource for kind in GROUP_KINDS if kind in BY_KIND}
    denied = [name for name in found.denied if name in kinds]
    if not denied:
        return ""
    text = f"the daemon on {found.host} may not list {', '.join(denied)}"
    return f"{text}: groups that these describe wait, whatever this answer says"


async def _leader(access: ClusterOptions) -> Leader:
    client = await connect(access)
    try:
        return await leader(client, "", access.timeout_s)
    finally:
        await client.close()


def _configuration(access: ClusterOptions, known: Registry) -> Loaded:
    """Return the configuration that the daemon serves; TrellisError when it cannot be read."""
    ((url, answer),) = fetch(DaemonFlags(), access, ("/configz",))
    if not answer.ok:
        text = answer.message or answer.reason or f"code {answer.code}"
        raise ApiError(f"the daemon at {url} answers: {text}", code=answer.code)
    try:
        found = _answer.decode(answer.body)
    except msgspec.MsgspecError as error:
        raise InputError(f"the daemon at {url} answers something else: {error}") from error
    text = yaml.safe_dump_all([found.componentconfig, found.trellisconfig], sort_keys=False)
    return load(text, file="the daemon's configuration", registry=known)
