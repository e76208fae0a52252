"""Where the API server is and how to prove who we are: kubeconfig or in-cluster.

kubernetes-asyncio reads kubeconfigs, runs exec plugins and refreshes OIDC and GCP tokens; this module
keeps the result fresh at next to no cost per request. Loading and refreshing happen in a thread,
because they read files, import a large package and may run programs. No request is made here.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import urllib.request
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit

import structlog

from scheduler.base.clock import Clock
from scheduler.base.errors import ConfigError

CHECK_EVERY_S = 60.0
FORCED_EVERY_S = 5.0
SERVICE_TOKEN = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
_log = structlog.get_logger()


class Source(Protocol):
    """Who knows how to get the current credentials; called in a thread, may block."""

    def load(self, *, force: bool) -> Access:
        """Return the current access; `force` after the server refused the last one."""
        ...


class Access:
    """Everything a connection needs: address, TLS, and the value of the Authorization header."""

    __slots__ = ("authorization", "namespace", "proxy", "server", "server_hostname", "tls")

    def __init__(
        self,
        server: str,
        *,
        tls: ssl.SSLContext | None = None,
        authorization: str = "",
        server_hostname: str | None = None,
        proxy: str | None = None,
        namespace: str = "",
    ) -> None:
        self.server = server.rstrip("/")
        self.tls = tls
        self.authorization = authorization
        self.server_hostname = server_hostname
        self.proxy = proxy or _proxy_from_environment(self.server)
        self.namespace = namespace


class Credentials:
    """The current access, looked at anew every minute and when the server refuses it."""

    def __init__(self, source: Source, clock: Clock, access: Access) -> None:
        self._source = source
        self._clock = clock
        self._lock = asyncio.Lock()
        self._checked_at = clock.now()
        self._forced_at = float("-inf")
        self.access = access

    @classmethod
    async def load(cls, clock: Clock, kubeconfig: str = "", context: str = "") -> Credentials:
        """Read `kubeconfig` (a path, or several as in KUBECONFIG); raise ConfigError.

        Without one: KUBECONFIG, else ~/.kube/config, else the service account of the pod we run in.
        """
        source = await asyncio.to_thread(find_source, kubeconfig, context)
        return cls(source, clock, await asyncio.to_thread(_load, source, force=False))

    @property
    def is_due(self) -> bool:
        """Whether `refresh` has something to do."""
        return self._clock.now() - self._checked_at >= CHECK_EVERY_S

    async def refresh(self, *, force: bool = False) -> bool:
        """Look at the source again; return whether the access has changed.

        What cannot be read leaves the old access in place: it may well still be good.
        """
        before = self.access
        async with self._lock:
            if self.access is not before:
                return True
            now = self._clock.now()
            if force:
                if now - self._forced_at < FORCED_EVERY_S:
                    return False
                self._forced_at = now
            self._checked_at = now
            try:
                self.access = await asyncio.to_thread(_load, self._source, force=force)
            except ConfigError as error:
                _log.warning("credentials cannot be refreshed", error=str(error))
                return False
        return self.access.authorization != before.authorization or self.access.tls != before.tls


def find_source(kubeconfig: str, context: str) -> Source:
    """Return where credentials come from; raise ConfigError when there is nothing."""
    paths = kubeconfig or os.environ.get("KUBECONFIG", "")
    default = Path.home() / ".kube" / "config"
    if not paths and default.exists():
        paths = str(default)
    if paths:
        if not any(Path(path).expanduser().exists() for path in paths.split(os.pathsep) if path):
            raise ConfigError("this kubeconfig does not exist", where=paths)
        return _KubeconfigSource(paths, context)
    if "KUBERNETES_SERVICE_HOST" in os.environ and SERVICE_TOKEN.exists():
        return _InClusterSource()
    raise ConfigError("no cluster: pass --kubeconfig, set KUBECONFIG, or run inside a pod")


class _KubeconfigSource:
    """A kubeconfig, kept open in kubernetes-asyncio's loader, which runs plugins when needed."""

    def __init__(self, paths: str, context: str) -> None:
        self._paths = paths
        self._context = context
        self._loader: Any = None
        self._access: Access | None = None
        self._tls = _TlsCache()

    def load(self, *, force: bool) -> Access:
        from kubernetes_asyncio.client import Configuration
        from kubernetes_asyncio.config import kube_config

        # Plain tokens and certificates may have been written anew: begin from the files. A loader
        # with a plugin is kept, because it knows when its token expires.
        if self._access is not None and not force and _is_lasting(self._loader):
            return self._access
        if self._loader is None or force or not _has_plugin(self._loader):
            merger = kube_config.KubeConfigMerger(self._paths)
            self._loader = kube_config.KubeConfigLoader(
                config_dict=merger.config,
                config_base_path=None,
                active_context=self._context or None,
                config_persister=merger.save_changes,
            )
        found = Configuration()
        _complete(self._loader.load_and_set(found), needs_loop=_has_plugin(self._loader))
        self._access = _access(found, self._tls, self._namespace())
        return self._access

    def _namespace(self) -> str:
        current = self._loader.current_context or {}
        return str(current.get("context", {}).get("namespace", ""))


class _InClusterSource:
    """The service account of the pod we run in; the kubelet writes its token anew.

    Read here and not by kubernetes-asyncio: that package alone takes as much memory as a node agent.
    """

    def __init__(self) -> None:
        self._tls = _TlsCache()

    def load(self, *, force: bool) -> Access:
        del force
        host = os.environ["KUBERNETES_SERVICE_HOST"]
        port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
        token = SERVICE_TOKEN.read_text().strip()
        if not token:
            raise ConfigError("the token is empty", where=str(SERVICE_TOKEN))
        found = _ServiceAccount(
            host=f"https://{f'[{host}]' if ':' in host else host}:{port}",
            ssl_ca_cert=str(SERVICE_TOKEN.with_name("ca.crt")),
            api_key={"BearerToken": f"Bearer {token}"},
        )
        namespace = SERVICE_TOKEN.with_name("namespace")
        return _access(found, self._tls, namespace.read_text() if namespace.exists() else "")


class _ServiceAccount(NamedTuple):
    """What `_access` asks of kubernetes-asyncio's Configuration."""

    host: str
    ssl_ca_cert: str
    api_key: dict[str, str]
    cert_file: None = None
    key_file: None = None
    verify_ssl: bool = True
    tls_server_name: None = None
    proxy: None = None


class _TlsCache:
    """The last TLS context: the same files with the same times need no new one."""

    def __init__(self) -> None:
        self._key: tuple[object, ...] = ()
        self._context: ssl.SSLContext | None = None

    def get(self, key: tuple[object, ...], found: Any) -> ssl.SSLContext:
        if self._context is None or self._key != key:
            self._key, self._context = key, _tls(found)
        return self._context


def _load(source: Source, *, force: bool) -> Access:
    """Load, with whatever goes wrong told as one line."""
    try:
        return source.load(force=force)
    except ConfigError as error:
        raise ConfigError(str(error)) from error
    except Exception as error:
        text = str(error) or type(error).__name__
        if type(error).__name__ == "ConfigException":  # kubernetes-asyncio's own: it says it all
            raise ConfigError(text) from error
        raise ConfigError(f"the kubeconfig cannot be used: {text}") from error


def _complete(loading: Coroutine[Any, Any, None], *, needs_loop: bool) -> None:
    """Run the loader to its end; only plugins really wait for something."""
    if needs_loop:
        asyncio.run(loading)
        return
    try:
        loading.send(None)
    except StopIteration:
        return
    raise ConfigError("the kubeconfig asks for something that is not known here")


def _has_plugin(loader: Any) -> bool:
    user = getattr(loader, "_user", None)
    return user is not None and ("exec" in user or "auth-provider" in user)


def _is_lasting(loader: Any) -> bool:
    """Whether a plugin answered without saying until when: then its answer holds until refused."""
    return "exec" in (getattr(loader, "_user", None) or ()) and not hasattr(
        loader, "exec_plugin_expiry"
    )


def _access(found: Any, tls_cache: _TlsCache, namespace: str) -> Access:
    server = str(found.host)
    tls = None
    if server.startswith("https"):
        files = (found.ssl_ca_cert, found.cert_file, found.key_file)
        key = (*files, found.verify_ssl, *(_changed_at(path) for path in files))
        tls = tls_cache.get(key, found)
    return Access(
        server,
        tls=tls,
        # A token file usually ends in a line end, which must not reach the header.
        authorization=str(found.api_key.get("BearerToken", "")).strip(),
        server_hostname=found.tls_server_name,
        proxy=found.proxy,
        namespace=namespace,
    )


def _tls(found: Any) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=found.ssl_ca_cert)
    # Python 3.13 asks for extensions that many clusters' own authorities do not have.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if found.cert_file:
        context.load_cert_chain(found.cert_file, keyfile=found.key_file)
    if not found.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _changed_at(path: str | None) -> float:
    return Path(path).stat().st_mtime if path else 0.0


def _proxy_from_environment(server: str) -> str | None:
    parts = urlsplit(server)
    if not parts.hostname or urllib.request.proxy_bypass(parts.hostname):
        return None
    return urllib.request.getproxies().get(parts.scheme)
