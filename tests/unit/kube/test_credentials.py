"""The daemon finds its API server and authenticates by every method of kubectl."""

import asyncio
import base64
import os
import ssl
import threading
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler.base.clock import ManualClock, RealClock
from scheduler.base.errors import ConfigError
from scheduler.kube.connection import authplugins, credentials
from scheduler.kube.connection.access import Access, Accesses
from scheduler.kube.connection.authplugins import AuthPlugin
from scheduler.kube.connection.credentials import CHECK_EVERY_S, Credentials
from scheduler.kube.connection.kubeconfig import KubeconfigSource
from scheduler.sandbox.access.certificates import make_certificates
from tests.unit.kube.waiting import wait_until

PLUGIN = """#!/bin/sh
echo x >> {folder}/runs
printf '{{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",'
printf '"status": {{"token": "%s"{expiry}}}}}' "$(cat {folder}/token)"
"""


def kubeconfig(folder: Path, user: dict[str, Any], **cluster: Any) -> Path:
    """Write a kubeconfig with two contexts, `one` being the current one."""
    path = folder / "kubeconfig"
    server = {"server": "https://one.example:6443", **cluster}
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [
                    {"name": "one", "cluster": server},
                    {"name": "two", "cluster": {"server": "http://two.example/below/"}},
                ],
                "users": [{"name": "u", "user": user}, {"name": "v", "user": {"token": "v-token"}}],
                "contexts": [
                    {"name": "one", "context": {"cluster": "one", "user": "u"}},
                    {
                        "name": "two",
                        "context": {"cluster": "two", "user": "v", "namespace": "there"},
                    },
                ],
                "current-context": "one",
            }
        )
    )
    return path


async def load(path: Path | str, context: str = "") -> Credentials:
    return await Credentials.load(RealClock(), str(path), context)


@pytest.fixture
def nothing_around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Hide this machine's kubeconfigs and proxies."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "HTTPS_PROXY", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return monkeypatch


async def test_a_token_of_the_current_context(tmp_path: Path):
    """Without a choice the current context counts: its server, its user."""
    access = (await load(kubeconfig(tmp_path, {"token": "secret"}))).access

    assert ("https://one.example:6443", "Bearer secret") == (access.server, access.authorization)
    assert access.tls is not None
    assert ssl.CERT_REQUIRED == access.tls.verify_mode


async def test_another_context(tmp_path: Path):
    """A context by name: another server, another user, a namespace."""
    access = (await load(kubeconfig(tmp_path, {}), "two")).access

    assert ("http://two.example/below", "Bearer v-token", "there", None) == (
        access.server,
        access.authorization,
        access.namespace,
        access.tls,
    )


async def test_name_and_password(tmp_path: Path):
    """Basic authentication is supported."""
    access = (await load(kubeconfig(tmp_path, {"username": "a", "password": "b"}))).access

    assert "Basic YTpi" == access.authorization


async def test_certificates(tmp_path: Path):
    """A client certificate and an authority go into the TLS context; a name may be overridden."""
    made = await asyncio.to_thread(make_certificates, RealClock().now(), ["localhost"])
    (tmp_path / "ca.crt").write_bytes(made.authority)
    (tmp_path / "client.crt").write_bytes(made.certificate)
    (tmp_path / "client.key").write_bytes(made.key)
    user = {"client-certificate": "client.crt", "client-key": "client.key"}
    path = kubeconfig(
        tmp_path, user, **{"certificate-authority": "ca.crt", "tls-server-name": "other"}
    )

    access = (await load(path)).access

    assert access.tls is not None
    assert 1 == access.tls.cert_store_stats()["x509_ca"]
    assert "other" == access.server_hostname


async def test_no_verification_when_asked_for(tmp_path: Path):
    """`insecure-skip-tls-verify` is obeyed."""
    path = kubeconfig(tmp_path, {}, **{"insecure-skip-tls-verify": True})

    access = (await load(path)).access

    assert access.tls is not None
    assert ssl.CERT_NONE == access.tls.verify_mode


async def test_a_token_file_is_read_again(tmp_path: Path):
    """A rotated token is used within a minute, without its line end."""
    token = tmp_path / "token"
    token.write_text("old\n")
    clock = ManualClock()
    found = await Credentials.load(clock, str(kubeconfig(tmp_path, {"tokenFile": str(token)})), "")
    before = found.access
    token.write_text("new\n")
    due = [found.is_due]
    clock.advance(CHECK_EVERY_S)
    due.append(found.is_due)
    changed = await found.refresh()

    assert "Bearer old" == before.authorization
    assert ([False, True], True) == (due, changed)
    assert "Bearer new" == found.access.authorization
    assert before.tls is found.access.tls


async def test_a_refused_token_is_read_again_at_once(tmp_path: Path):
    """After a 401 the source is looked at before the minute is over, but not at every 401."""
    token = tmp_path / "token"
    token.write_text("old")
    clock = ManualClock()
    found = await Credentials.load(clock, str(kubeconfig(tmp_path, {"tokenFile": str(token)})), "")
    token.write_text("new")

    assert await found.refresh(force=True)
    token.write_text("newer")
    assert not await found.refresh(force=True)
    clock.advance(10)
    assert await found.refresh(force=True)
    assert "Bearer newer" == found.access.authorization


async def test_a_source_that_breaks_leaves_the_old_access(tmp_path: Path):
    """A kubeconfig that is unreadable for a short time has no effect."""
    path = kubeconfig(tmp_path, {"token": "secret"})
    found = await load(path)
    path.write_text("{")

    assert not await found.refresh()
    assert "Bearer secret" == found.access.authorization


class Slow:
    """A source whose loads end when the test allows it, each with the next token."""

    def __init__(self) -> None:
        self.forced: list[bool] = []
        self.may_end = threading.Semaphore(0)

    def load(self, *, force: bool) -> Access:
        self.forced.append(force)
        self.may_end.acquire(timeout=60)
        return Access("http://h", authorization=f"Bearer {len(self.forced)}")


@pytest.mark.parametrize("is_forced_first", [False, True])
async def test_a_refused_token_waits_for_a_load_in_progress(is_forced_first: bool):
    """The load's result is newer than the refused token, so the source is not read again for it."""
    source = Slow()
    found = Credentials(source, ManualClock(100.0), Access("http://h", authorization="Bearer 0"))
    first = asyncio.create_task(found.refresh(force=is_forced_first))
    await wait_until(lambda: source.forced != [])
    second = asyncio.create_task(found.refresh(force=True))
    await asyncio.sleep(0)
    source.may_end.release()

    assert (True, True) == tuple(await asyncio.gather(first, second))
    assert [is_forced_first] == source.forced
    assert "Bearer 1" == found.access.authorization


HANGING = """#!/bin/sh
if [ -e {folder}/hangs ]; then echo $$ > {folder}/pid; exec sleep 1000; fi
echo '{{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
"status": {{"token": "good"}}}}'
"""


@pytest.mark.allow_blocking("a thread of its own, with a loop of its own, runs the plugin")
async def test_a_plugin_that_hangs_is_waited_for_a_little_and_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The wait is bounded, readiness reports it, and the plugin is stopped."""
    monkeypatch.setattr(credentials, "PATIENCE_S", 0.05)
    monkeypatch.setattr(authplugins, "PLUGIN_LIMIT_S", 1.5)
    plugin = tmp_path / "plugin"
    plugin.write_text(HANGING.format(folder=tmp_path))
    plugin.chmod(0o700)
    program = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin)}
    user = {"exec": {**program, "interactiveMode": "Never"}}
    clock = ManualClock()
    found = await Credentials.load(clock, str(kubeconfig(tmp_path, user)), "")
    (tmp_path / "hangs").touch()

    changed = await found.refresh(force=True)
    early = found.problem
    await wait_until(lambda: found.problem != early)
    pid = int((tmp_path / "pid").read_text())
    (tmp_path / "hangs").unlink()
    clock.advance(10)
    await found.refresh(force=True)
    await wait_until(lambda: found.problem is None)

    assert not changed
    assert "new credentials are asked for, and do not come" == early
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert "Bearer good" == found.access.authorization


@pytest.mark.allow_blocking("a thread of its own, with a loop of its own, runs the plugin")
@pytest.mark.parametrize(
    ("expiry", "runs"),
    [
        ("", 1),
        (',"expirationTimestamp": "2099-01-01T00:00:00Z"', 1),
        (',"expirationTimestamp": "2001-01-01T00:00:00Z"', 2),
    ],
)
async def test_a_plugin_is_run_when_its_token_ends(tmp_path: Path, expiry: str, runs: int):
    """An exec plugin runs again when its token has expired, and after a 401; not before."""
    (tmp_path / "token").write_text("first")
    plugin = tmp_path / "plugin"
    plugin.write_text(PLUGIN.format(folder=tmp_path, expiry=expiry))
    plugin.chmod(0o700)
    user = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": str(plugin),
            "interactiveMode": "Never",
        }
    }
    clock = ManualClock()
    found = await Credentials.load(clock, str(kubeconfig(tmp_path, user)), "")
    first = found.access.authorization
    await found.refresh()
    runs_before = len((tmp_path / "runs").read_text().split())
    (tmp_path / "token").write_text("second")
    await found.refresh(force=True)

    assert "Bearer first" == first
    assert runs == runs_before
    assert "Bearer second" == found.access.authorization


@pytest.mark.parametrize(
    ("user", "cluster", "context", "reported"),
    [
        ({}, {}, "three", r'no context "three" \(there are: one, two\)'),
        ({"client-certificate": "gone.crt", "client-key": "gone.key"}, {}, "", r"gone\.crt"),
        ({"client-certificate": "token"}, {}, "", "a client key is missing"),
        ({}, {"certificate-authority-data": "bm8gY2VydGlmaWNhdGU="}, "", "certificate"),
        ({}, {"certificate-authority-data": "?"}, "", "cannot be used"),
        ({}, {"server": ""}, "", 'cluster "one" names no server'),
        ({"token": 3}, {}, "", r"Expected `str`, got `int` - at `\$\.users\[0\]\.user\.token`"),
        ({"token": "t", "as": "jane"}, {}, "", 'user "u" impersonates another'),
        ({"token": "t", "as-groups": ["viewers"]}, {}, "", 'user "u" impersonates another'),
    ],
)
async def test_mistakes_are_reported(
    tmp_path: Path, user: dict[str, Any], cluster: dict[str, Any], context: str, reported: str
):
    """A missing context, file or certificate ends with one line, not a traceback."""
    (tmp_path / "token").write_text("secret")
    with pytest.raises(ConfigError, match=reported) as failed:
        await load(kubeconfig(tmp_path, user, **cluster), context)

    assert 1 == len(str(failed.value).splitlines())


async def test_of_several_files_the_first_to_say_something_wins(tmp_path: Path):
    """The first file that sets a value wins, as in kubectl, also for the current context; paths are
    relative to the file that names them.
    """
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "token").write_text("from-a")
    first = kubeconfig(tmp_path / "a", {"tokenFile": "token"})
    second = tmp_path / "second"
    stated = yaml.safe_load(first.read_text()) | {"current-context": "two"}
    stated["users"][0]["user"] = {"token": "from-b"}
    stated["contexts"].append({"name": "three", "context": {"cluster": "two", "user": "w"}})
    stated["users"].append({"name": "w", "user": {"token": "w-token"}})
    second.write_text(yaml.safe_dump(stated))
    paths = os.pathsep.join((str(first), "/missing", str(second)))

    assert "Bearer from-a" == (await load(paths)).access.authorization
    assert "Bearer w-token" == (await load(paths, "three")).access.authorization


async def test_the_file_of_a_token_is_newer_than_the_token(tmp_path: Path):
    """The file counts if both are given, unless it cannot be read."""
    path = kubeconfig(tmp_path, {"token": "old", "tokenFile": "token"})
    without = await load(path)
    (tmp_path / "token").write_text("new")

    assert "Bearer old" == without.access.authorization
    assert "Bearer new" == (await load(path)).access.authorization


async def test_what_is_written_out_counts_before_what_is_in_files(tmp_path: Path):
    """Certificates in base64, also with line breaks; the files named beside them may be missing."""
    made = await asyncio.to_thread(make_certificates, RealClock().now(), ["localhost"])
    in_lines = base64.encodebytes
    user = {
        "client-certificate": "missing",
        "client-certificate-data": in_lines(made.certificate).decode(),
        "client-key-data": in_lines(made.key).decode(),
    }
    authorities = "Prüfstelle\n".encode() + made.authority
    path = kubeconfig(
        tmp_path, user, **{"certificate-authority-data": in_lines(authorities).decode()}
    )

    tls = (await load(path)).access.tls

    assert tls is not None
    assert 1 == tls.cert_store_stats()["x509_ca"]


@pytest.mark.parametrize(
    ("user", "cluster", "context"),
    [
        ({"token": "secret"}, {}, "one"),
        ({"tokenFile": "token"}, {"tls-server-name": "other"}, "one"),
        ({"username": "a", "password": "b"}, {"insecure-skip-tls-verify": True}, "one"),
        ({"token": "secret", "username": "a", "password": "b"}, {"proxy-url": "http://p:1"}, "one"),
        ({}, {"server": "https://one.example/below/"}, "one"),
        ({}, {}, "two"),
    ],
)
def test_it_reads_as_kubernetes_asyncio_does(
    tmp_path: Path, user: dict[str, Any], cluster: dict[str, Any], context: str
):
    """Without a plugin, our result equals that library's."""
    (tmp_path / "token").write_text("from-file\n")
    path = kubeconfig(tmp_path, user, **cluster)

    ours = KubeconfigSource(str(path), context).load(force=False)
    namespace, accesses = ours.namespace, Accesses()
    theirs = AuthPlugin(str(path), context, is_program=False).load(namespace, accesses, force=False)

    assert _seen(theirs) == _seen(ours)


def _seen(access: Access) -> tuple[object, ...]:
    tls = access.tls and (access.tls.verify_mode, access.tls.check_hostname)
    return access.server, access.authorization, access.server_hostname, access.proxy, tls


@pytest.mark.parametrize("text", ["{", "", "[]", "just text", "clusters: 3\n"])
async def test_a_file_that_is_no_kubeconfig_is_reported(tmp_path: Path, text: str):
    """Any file content ends with one line, not a traceback."""
    path = tmp_path / "kubeconfig"
    path.write_text(text)

    with pytest.raises(ConfigError):
        await load(path)


async def test_where_a_kubeconfig_is_looked_for(tmp_path: Path, nothing_around: pytest.MonkeyPatch):
    """The given path is used, else KUBECONFIG (several files), else the one at home, else the pod's
    service account.
    """
    with pytest.raises(ConfigError, match="no cluster"):
        await load("")
    with pytest.raises(ConfigError, match="does not exist"):
        await load(tmp_path / "missing")
    (tmp_path / ".kube").mkdir()
    kubeconfig(tmp_path, {"token": "home"}).rename(tmp_path / ".kube" / "config")
    at_home = await load("")
    other = kubeconfig(tmp_path, {"token": "other"})
    nothing_around.setenv("KUBECONFIG", os.pathsep.join(("/missing", str(other))))
    by_variable = await load("")

    assert "Bearer home" == at_home.access.authorization
    assert "Bearer other" == by_variable.access.authorization


async def test_inside_a_pod(tmp_path: Path, nothing_around: pytest.MonkeyPatch):
    """The service account's token, authority and namespace are used; the kubelet rotates the
    token.
    """
    made = await asyncio.to_thread(make_certificates, RealClock().now(), ["localhost"])
    (tmp_path / "token").write_text("pod-token")
    (tmp_path / "ca.crt").write_bytes(made.authority)
    (tmp_path / "namespace").write_text("trellis-system")
    nothing_around.setattr(credentials, "SERVICE_TOKEN", tmp_path / "token")
    nothing_around.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    nothing_around.setenv("KUBERNETES_SERVICE_PORT", "443")

    found = await load("")
    before = found.access
    (tmp_path / "token").write_text("rotated")
    await found.refresh()

    assert ("https://10.0.0.1:443", "Bearer pod-token", "trellis-system") == (
        before.server,
        before.authorization,
        before.namespace,
    )
    assert "Bearer rotated" == found.access.authorization


async def test_a_proxy_from_the_environment(tmp_path: Path, nothing_around: pytest.MonkeyPatch):
    """HTTPS_PROXY counts, NO_PROXY too, and the kubeconfig's proxy has precedence."""
    nothing_around.setenv("HTTPS_PROXY", "http://proxy:3128")
    by_variable = (await load(kubeconfig(tmp_path, {}))).access.proxy
    by_file = (await load(kubeconfig(tmp_path, {}, **{"proxy-url": "http://p:1"}))).access.proxy
    nothing_around.setenv("NO_PROXY", "one.example")
    without = (await load(kubeconfig(tmp_path, {}))).access.proxy

    assert ("http://proxy:3128", "http://p:1", None) == (by_variable, by_file, without)
