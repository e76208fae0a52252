"""Kubeconfig users whose token comes from a program or a provider, by kubernetes-asyncio.

That package runs exec plugins and refreshes tokens of OIDC and GCP. It is imported only for a
kubeconfig with such a user: its import takes half as long as the rest of a start.
"""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from scheduler.base.errors import ConfigError
from scheduler.kube.connection.access import Access, Accesses, AccessProof

# The time limit of a program or a provider, which is stopped after it.
PLUGIN_LIMIT_S = 15.0


class AuthPlugin:
    """kubernetes-asyncio's loader for one context, kept because it stores the token's expiry."""

    def __init__(self, paths: str, context: str, *, is_program: bool) -> None:
        self._paths = paths
        self._context = context
        self._is_program = is_program
        self._loader: Any = None
        self._access: Access | None = None

    def load(self, namespace: str, accesses: Accesses, *, force: bool) -> Access:
        """Return the access of this moment; runs the plugin again when it is time, or with
        `force`.
        """
        from kubernetes_asyncio.client import Configuration
        from kubernetes_asyncio.config import kube_config

        if self._access is not None and not force and self._is_lasting():
            return self._access
        if self._loader is None or force:
            merger = kube_config.KubeConfigMerger(self._paths)
            self._loader = kube_config.KubeConfigLoader(
                config_dict=merger.config,
                config_base_path=None,
                active_context=self._context,
                config_persister=merger.save_changes,
            )
        found = Configuration()
        loop = _EndingLoop()
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(_bounded(loop, self._loader.load_and_set(found)))
        self._access = accesses.make(_proof(found, namespace))
        return self._access

    def _is_lasting(self) -> bool:
        """Return whether the program's token has no expiry: it is used until the server refuses
        it.
        """
        return self._is_program and not hasattr(self._loader, "exec_plugin_expiry")


class _EndingLoop(asyncio.SelectorEventLoop):
    """A loop that leaves no program running: a plugin that hangs is killed when its time is up."""

    def __init__(self) -> None:
        super().__init__()
        self._programs: list[asyncio.SubprocessTransport] = []

    async def subprocess_exec(self, *args: Any, **options: Any) -> Any:
        """Start a program and record it."""
        transport, protocol = await super().subprocess_exec(*args, **options)
        self._programs.append(transport)
        return transport, protocol

    async def end_programs(self) -> None:
        """Kill the running programs and wait for their end."""
        for transport in self._programs:
            if transport.get_returncode() is None:
                transport.kill()
            while transport.get_returncode() is None:  # noqa: ASYNC110 - must be polled
                await asyncio.sleep(0.01)
            transport.close()
        await asyncio.sleep(0)  # in which the loop closes their pipes


async def _bounded(loop: _EndingLoop, work: Coroutine[Any, Any, Any]) -> None:
    try:
        async with asyncio.timeout(PLUGIN_LIMIT_S):
            await work
    except TimeoutError as error:
        text = f"the credential plugin has not answered within {PLUGIN_LIMIT_S:g} s"
        raise ConfigError(text) from error
    finally:
        await loop.end_programs()


def _proof(found: Any, namespace: str) -> AccessProof:
    return AccessProof(
        str(found.host),
        str(found.api_key.get("BearerToken", "")),
        _read(found.ssl_ca_cert),
        _read(found.cert_file),
        _read(found.key_file),
        not found.verify_ssl,
        found.tls_server_name,
        found.proxy,
        namespace,
    )


def _read(path: str | None) -> bytes:
    return Path(path).read_bytes() if path else b""
