"""kubeconfig files, read and merged as kubectl does: of several files, the first value wins.

Tokens, certificates and passwords, inline or by file name, are read here. Users with an exec plugin
or an auth provider are passed to `authplugins`. Called in a thread by `credentials`; every call
reads the files again, as they may have been rotated.
"""

import base64
import os
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
import yaml

from scheduler.base.errors import ConfigError
from scheduler.kube.connection.access import Access, Accesses, AccessProof
from scheduler.kube.connection.authplugins import AuthPlugin

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class KubeconfigCluster(msgspec.Struct, rename="kebab"):
    """The address of an API server and the certificates that identify it."""

    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str | None = None
    proxy_url: str | None = None


class KubeconfigUser(msgspec.Struct, rename="kebab"):
    """The user of a kubeconfig: a name and its credentials."""

    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    username: str = ""
    password: str = ""
    exec: Any = None
    auth_provider: Any = None
    as_name: str = msgspec.field(default="", name="as")
    as_uid: str = ""
    as_groups: list[str] | None = None
    as_user_extra: dict[str, list[str]] | None = None

    @property
    def is_impersonating(self) -> bool:
        """Return whether requests are to be made in another's name (impersonation)."""
        return bool(self.as_name or self.as_uid or self.as_groups or self.as_user_extra)


class Context(msgspec.Struct):
    """The names of a cluster and a user, and the default namespace."""

    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _NamedCluster(msgspec.Struct):
    name: str
    cluster: KubeconfigCluster | None = None


class _NamedUser(msgspec.Struct):
    name: str
    user: KubeconfigUser | None = None


class _NamedContext(msgspec.Struct):
    name: str
    context: Context | None = None


class _File(msgspec.Struct, rename="kebab"):
    clusters: list[_NamedCluster] | None = None
    users: list[_NamedUser] | None = None
    contexts: list[_NamedContext] | None = None
    current_context: str | None = None


_Found = TypeVar("_Found")


class _Merged(NamedTuple):
    """Merged entries by name: the first file with an entry wins; each has its file's folder."""

    clusters: dict[str, tuple[KubeconfigCluster, Path]]
    users: dict[str, tuple[KubeconfigUser, Path]]
    contexts: dict[str, tuple[Context, Path]]


class KubeconfigSource:
    """The kubeconfig files in `paths` (separated as in PATH), read for one context."""

    def __init__(self, paths: str, context: str) -> None:
        self._paths = paths
        self._context = context
        self._accesses = Accesses()
        self._plugin: AuthPlugin | None = None

    def load(self, *, force: bool) -> Access:
        """Return the current access; `force` makes a plugin issue a new token."""
        merged, current = _read(self._paths)
        name = self._context or current
        if not name:
            raise ConfigError("no current-context; choose one with --context", where=self._paths)
        context, _ = self._pick(merged.contexts, "context", name)
        cluster = self._pick(merged.clusters, "cluster", context.cluster)
        user = (KubeconfigUser(), Path())
        if context.user:
            user = self._pick(merged.users, "user", context.user)
        who, _ = user
        if who.is_impersonating:
            # Sent as our own user, the requests might have more rights than intended.
            text = f'user "{context.user}" impersonates another (as, as-groups): unsupported'
            raise ConfigError(f"{text}: name the credentials of that user", where=self._paths)
        if who.exec is None and who.auth_provider is None:
            return self._accesses.make(_proof(context, cluster, user))
        if self._plugin is None:
            self._plugin = AuthPlugin(self._paths, name, is_program=who.exec is not None)
        return self._plugin.load(context.namespace, self._accesses, force=force)

    def _pick(
        self, listed: dict[str, tuple[_Found, Path]], kind: str, name: str
    ) -> tuple[_Found, Path]:
        found = listed.get(name)
        if found is None:
            known = ", ".join(listed) or "none"
            raise ConfigError(f'no {kind} "{name}" (there are: {known})', where=self._paths)
        return found


def _read(paths: str) -> tuple[_Merged, str]:
    """Return the merged content of the files, and the current context."""
    merged, current = _Merged({}, {}, {}), ""
    for path in map(Path, filter(None, paths.split(os.pathsep))):
        file = path.expanduser()
        if not file.exists():
            continue
        config, folder = _decode(file), file.absolute().parent
        current = current or config.current_context or ""
        for cluster in config.clusters or ():
            merged.clusters.setdefault(
                cluster.name, (cluster.cluster or KubeconfigCluster(), folder)
            )
        for user in config.users or ():
            merged.users.setdefault(user.name, (user.user or KubeconfigUser(), folder))
        for context in config.contexts or ():
            merged.contexts.setdefault(context.name, (context.context or Context(), folder))
    return merged, current


def _decode(file: Path) -> _File:
    try:
        return msgspec.convert(yaml.load(file.read_bytes(), Loader=_LOADER), _File)  # noqa: S506
    except (msgspec.ValidationError, yaml.YAMLError, UnicodeDecodeError) as error:
        text = " ".join(str(error).split())
        raise ConfigError(f"no kubeconfig: {text}", where=str(file)) from error


def _proof(
    context: Context, cluster: tuple[KubeconfigCluster, Path], user: tuple[KubeconfigUser, Path]
) -> AccessProof:
    (at, its), (who, ours) = cluster, user
    if not at.server:
        raise ConfigError(f'cluster "{context.cluster}" names no server')
    return AccessProof(
        at.server,
        _authorization(who, ours),
        _content(at.certificate_authority_data, at.certificate_authority, its),
        _content(who.client_certificate_data, who.client_certificate, ours),
        _content(who.client_key_data, who.client_key, ours),
        at.insecure_skip_tls_verify,
        at.tls_server_name,
        at.proxy_url,
        context.namespace,
    )


def _authorization(who: KubeconfigUser, folder: Path) -> str:
    if who.token_file:
        # If both are given, the file is newer and is used, if it is readable.
        path = folder / who.token_file
        if not who.token or os.access(path, os.R_OK):
            return f"Bearer {path.read_text()}"
    if who.token:
        return f"Bearer {who.token}"
    if who.username:
        pair = f"{who.username}:{who.password}".encode()
        return f"Basic {base64.b64encode(pair).decode()}"
    return ""


def _content(data: str, file: str, folder: Path) -> bytes:
    """Return the base64 data if given, else the content of the file; b'' without either."""
    if data:
        return base64.b64decode("".join(data.split()), validate=True)
    return (folder / file).read_bytes() if file else b""
