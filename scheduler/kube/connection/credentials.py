"""Where the API server is and how to authenticate: kubeconfig or in-cluster.

Selects the source and refreshes its result, at next to no cost per request. Loading and refreshing
run in a thread, because they read files and may run programs, which may hang: requests wait for
them for a bounded time. No request is made here.
"""

import asyncio
import os
from pathlib import Path
from typing import Protocol

import structlog

from scheduler.base.clock import Clock
from scheduler.base.errors import ConfigError
from scheduler.kube.connection.access import Access, Accesses, AccessProof
from scheduler.kube.connection.kubeconfig import KubeconfigSource

CHECK_EVERY_S = 60.0
FORCED_EVERY_S = 5.0
# How long a request waits for new credentials; later ones serve the next request.
PATIENCE_S = 3.0
SERVICE_TOKEN = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
_log = structlog.get_logger()


class CredentialSource(Protocol):
    """A source of current credentials; called in a thread, may block."""

    def load(self, *, force: bool) -> Access:
        """Return the current access; `force` after the server refused the last one."""


class Credentials:
    """The current access, reloaded every minute and after each rejection by the server."""

    def __init__(self, source: CredentialSource, clock: Clock, access: Access) -> None:
        self._source = source
        self._clock = clock
        self._loading: asyncio.Task[None] | None = None
        self._is_forcing = False
        self._checked_at = clock.now()
        self._forced_at = float("-inf")
        self.access = access
        # Why new credentials could not be loaded after the server refused the old ones; None
        # without a problem.
        self.problem: str | None = None

    @classmethod
    async def load(cls, clock: Clock, kubeconfig: str = "", context: str = "") -> "Credentials":
        """Read `kubeconfig` (a path, or several as in KUBECONFIG); raise ConfigError.

        Without one: KUBECONFIG, else ~/.kube/config, else the service account of this pod.
        """
        source = await asyncio.to_thread(find_source, kubeconfig, context)
        return cls(source, clock, await asyncio.to_thread(_load, source, force=False))

    @property
    def is_due(self) -> bool:
        """Return whether `refresh` would renew the credentials now."""
        return self._clock.now() - self._checked_at >= CHECK_EVERY_S

    async def refresh(self, *, force: bool = False) -> bool:
        """Reload the source; return whether the access has changed.

        If the source cannot be read, the old access stays: it may still be valid. A slow source is
        read in the background, one at a time.
        """
        before = self.access
        if self._loading is not None and force and not self._is_forcing:
            await self._wait()
            if self.access is not before:
                return True
        if self._loading is None and not self._begin(force=force):
            return False
        if not await self._wait() and force:
            self.problem = "new credentials are asked for, and do not come"
        now = self.access
        return now.authorization != before.authorization or now.tls != before.tls

    async def close(self) -> None:
        """Stop waiting for a reload."""
        if self._loading is not None:
            self._loading.cancel()
            await asyncio.gather(self._loading, return_exceptions=True)

    def _begin(self, *, force: bool) -> bool:
        now = self._clock.now()
        if force:
            if now - self._forced_at < FORCED_EVERY_S:
                return False
            self._forced_at = now
        self._checked_at = now
        self._is_forcing = force
        self._loading = asyncio.create_task(self._load(force=force), name="credentials")
        return True

    async def _load(self, *, force: bool) -> None:
        try:
            self.access = await asyncio.to_thread(_load, self._source, force=force)
        except ConfigError as error:
            _log.warning("credentials cannot be refreshed", error=str(error))
            if force:
                self.problem = str(error)
        else:
            self.problem = None
        finally:
            self._loading = None

    async def _wait(self) -> bool:
        """Wait briefly for the load in progress; return whether it has ended."""
        loading = self._loading
        if loading is None:
            return True
        done, _ = await asyncio.wait({loading}, timeout=PATIENCE_S)
        return bool(done)


def find_source(kubeconfig: str, context: str) -> CredentialSource:
    """Return the source of the credentials; raise ConfigError if there is none."""
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
    """The service account of this pod; the kubelet renews its token."""

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
            AccessProof(
                f"https://{f'[{host}]' if ':' in host else host}:{port}",
                f"Bearer {token}",
                SERVICE_TOKEN.with_name("ca.crt").read_bytes(),
                namespace=namespace.read_text() if namespace.exists() else "",
                # A Service's address is not reachable for a proxy outside of the cluster.
                is_direct=True,
            )
        )


def _load(source: CredentialSource, *, force: bool) -> Access:
    """Load credentials; raise a `ConfigError` of one line for every failure."""
    try:
        return source.load(force=force)
    except ConfigError as error:
        raise ConfigError(str(error)) from error
    except Exception as error:  # errors of YAML, files, TLS and exec plugins: all become one line
        text = str(error) or type(error).__name__
        # kubernetes-asyncio's own message is complete
        if type(error).__name__ == "ConfigException":
            raise ConfigError(text) from error
        raise ConfigError(f"the kubeconfig cannot be used: {text}") from error
