"""Where the API server is and how to prove who we are: kubeconfig or in-cluster.

This module finds the source and keeps what it gives fresh, at next to no cost per request. Loading and
refreshing happen in a thread, because they read files and may run programs. No request is made here.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Protocol

import structlog

from scheduler.base.clock import Clock
from scheduler.base.errors import ConfigError
from scheduler.kube.access import Access, Accesses, Proof
from scheduler.kube.kubeconfig import KubeconfigSource

CHECK_EVERY_S = 60.0
FORCED_EVERY_S = 5.0
SERVICE_TOKEN = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
_log = structlog.get_logger()


class Source(Protocol):
    """Who knows how to get the current credentials; called in a thread, may block."""

    def load(self, *, force: bool) -> Access:
        """Return the current access; `force` after the server refused the last one."""
        ...


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
        return KubeconfigSource(paths, context)
    if "KUBERNETES_SERVICE_HOST" in os.environ and SERVICE_TOKEN.exists():
        return _InClusterSource()
    raise ConfigError("no cluster: pass --kubeconfig, set KUBECONFIG, or run inside a pod")


class _InClusterSource:
    """The service account of the pod we run in; the kubelet writes its token anew."""

    def __init__(self) -> None:
        self._accesses = Accesses()

    def load(self, *, force: bool) -> Access:
        del force
        host = os.environ["KUBERNETES_SERVICE_HOST"]
        port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
        token = SERVICE_TOKEN.read_text().strip()
        if not token:
            raise ConfigError("the token is empty", where=str(SERVICE_TOKEN))
        namespace = SERVICE_TOKEN.with_name("namespace")
        return self._accesses.make(
            Proof(
                f"https://{f'[{host}]' if ':' in host else host}:{port}",
                f"Bearer {token}",
                SERVICE_TOKEN.with_name("ca.crt").read_bytes(),
                namespace=namespace.read_text() if namespace.exists() else "",
            )
        )


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
