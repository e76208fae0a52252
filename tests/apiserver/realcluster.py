"""A real control plane for tests: etcd and kube-apiserver, and kube-scheduler beside them.

`make tools` builds the programs; KUBEBUILDER_ASSETS names their folder. Without it the fixtures
skip with that reason. There are no kubelets and no controllers: nodes are plain objects, and only
the test changes objects. All programs are stopped at the end; if a test failed, the logs stay in
build/test-logs.
"""

import base64
import json
import os
import re
import shutil
import ssl
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import pytest
import yaml

from scheduler.base.release import V1_37, Release, read_release
from tests.apiserver.certificates import write_certificates
from tests.apiserver.processes import Program, ProgramFailedError, free_ports, running

ADMIN_TOKEN = "admin-token"
SCHEDULER_TOKEN = "scheduler-token"
POWERLESS_TOKEN = "powerless-token"
READY_S = 180.0
KEPT_LOGS = Path(__file__).parents[2] / "build" / "test-logs"

Json = dict[str, Any]

GROUP_GATES = (
    "GenericWorkload",
    "GangScheduling",
    "TopologyAwareWorkloadScheduling",
    "WorkloadAwarePreemption",
    "DRAWorkloadResourceClaims",
)
# The tools of 1.37 for this; its programs come from `make tools KUBERNETES=1.37.2`.
LATER = "1.37"
LATER_GATES = (
    "GenericWorkload",
    "TopologyAwareWorkloadScheduling",
    "CompositePodGroup",
    "PodGroupPreemptionPolicy",
    "WorkloadWithJob",
    "DRAWorkloadResourceClaims",
)
EARLIER_VERSIONS = ("v1alpha2",)
LATER_VERSIONS = ("v1beta1", "v1alpha3")


class Reachable(Protocol):
    """A server that clients reach by its kubeconfigs; a sandbox is one, too."""

    @property
    def url(self) -> str: ...
    @property
    def folder(self) -> Path: ...
    @property
    def ca_file(self) -> Path: ...
    @property
    def kubeconfig(self) -> Path: ...
    @property
    def scheduler_kubeconfig(self) -> Path: ...


@dataclass(frozen=True)
class RealCluster:
    """A running API server. Kubeconfigs have address, authority and token only."""

    release: Release
    url: str
    folder: Path
    ca_file: Path
    kubeconfig: Path
    scheduler_kubeconfig: Path
    powerless_kubeconfig: Path
    etcd: Program
    apiserver: Program

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str = ADMIN_TOKEN,
        content_type: str = "application/json",
    ) -> tuple[int, Any]:
        """Send one blocking request; return the status code and the decoded (or plain) answer."""
        return _request(self, method, path, body, token, content_type)

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl as admin and return its output; raise CalledProcessError when it fails."""
        own = assets() / "kubectl"
        command = [str(own) if own.exists() else "kubectl", "--kubeconfig", str(self.kubeconfig)]
        done = subprocess.run(
            [*command, *arguments], input=stdin, text=True, capture_output=True, check=True
        )
        return done.stdout


@dataclass(frozen=True)
class KubeScheduler:
    """A running kube-scheduler; `url` serves /metrics and the health endpoints openly."""

    url: str
    program: Program
    config: Path

    def get(self, path: str) -> str:
        """Return the answer of an endpoint, for example "/metrics"."""
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE  # its serving certificate is self-signed
        with urllib.request.urlopen(self.url + path, context=context, timeout=30) as answer:
            return str(answer.read().decode())


def assets() -> Path:
    """Return the folder of the real programs, or skip the test with the reason."""
    folder = os.environ.get("KUBEBUILDER_ASSETS")
    if not folder:
        pytest.skip("needs a real kube-apiserver: run `make tools` and set KUBEBUILDER_ASSETS")
    missing = [n for n in ("etcd", "kube-apiserver") if not (Path(folder) / n).exists()]
    if missing:
        pytest.skip(f"KUBEBUILDER_ASSETS has no {' and no '.join(missing)}: run `make tools`")
    return Path(folder)


def later_assets() -> Path:
    """Return the folder of the later release's programs, or skip the test with the reason."""
    own = assets()
    if release_of(own) >= V1_37:
        return own
    found = sorted(own.parent.glob(f"{LATER}.*/bin/kube-apiserver"))
    if not found:
        pytest.skip(f"needs kube-apiserver {LATER}: run `make tools KUBERNETES=1.37.2`")
    return found[-1].parent


@cache
def release_of(binaries: Path) -> Release:
    """Return the release of a folder's kube-apiserver."""
    command = [str(binaries / "kube-apiserver"), "--version"]
    text = subprocess.run(command, text=True, capture_output=True, check=True).stdout
    return read_release(text.removeprefix("Kubernetes "))


@contextmanager
def start_cluster(
    apiserver_flags: Sequence[str] = (), name: str = "real", *, is_later: bool = False
) -> Iterator[RealCluster]:
    """Run etcd and kube-apiserver until the block ends; logs are kept if the block raises.

    `apiserver_flags` come last and so override the flags set here. `is_later` uses the later
    release; otherwise the release is that of the programs in KUBEBUILDER_ASSETS.
    """
    binaries = later_assets() if is_later else assets()
    apiserver_flags = [*groups_served(release_of(binaries)), *apiserver_flags]
    folder = Path(tempfile.mkdtemp(prefix=f"trellis-{name}-"))
    try:
        with ExitStack() as stack:
            yield _start(stack, binaries, folder, apiserver_flags)
    except BaseException as error:
        error.add_note(f"logs of the real cluster: {keep_logs(folder, name)}")
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def start_kube_scheduler(
    cluster: RealCluster,
    config: Mapping[str, Any] | None = None,
    *,
    qps: float = 5000,
    burst: int = 5000,
    wait: bool = True,
    flags: Sequence[str] = (),
) -> Iterator[KubeScheduler]:
    """Run the real kube-scheduler on the cluster until the block ends.

    `config` has fields of KubeSchedulerConfiguration (profiles, ...) that override the defaults;
    qps and burst limit its requests per second. With `wait` false the function returns before it is
    ready, for tests of its first moments. `flags` come last on its command line.
    """
    program_file = assets() / "kube-scheduler"
    if not program_file.exists():
        pytest.skip("KUBEBUILDER_ASSETS has no kube-scheduler: run `make tools`")
    folder = Path(tempfile.mkdtemp(prefix="kube-scheduler-", dir=cluster.folder))
    (port,) = free_ports(1)
    whole = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {
            "kubeconfig": str(cluster.scheduler_kubeconfig),
            "qps": qps,
            "burst": burst,
        },
        "leaderElection": {"leaderElect": False},
        **(config or {}),
    }
    config_file = folder / "config.yaml"
    config_file.write_text(yaml.safe_dump(whole))
    command = [
        str(program_file),
        f"--config={config_file}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={folder}",
        "--authorization-always-allow-paths=/healthz,/livez,/readyz,/metrics",
        f"--authentication-kubeconfig={cluster.scheduler_kubeconfig}",
        f"--authorization-kubeconfig={cluster.scheduler_kubeconfig}",
        *flags,
    ]
    with running("kube-scheduler", command, cluster.folder / f"{folder.name}.log") as program:
        scheduler = KubeScheduler(f"https://127.0.0.1:{port}", program, config_file)
        if wait:
            program.wait_ready(lambda: _answers(scheduler), READY_S)
        yield scheduler


# The controllers that make pods and claims. Others would taint the nodes, which have no kubelets.
_CONTROLLERS = (
    "deployment-controller",
    "replicaset-controller",
    "statefulset-controller",
    "daemonset-controller",
    "job-controller",
    "cronjob-controller",
    "ephemeral-volume-controller",
    "resourceclaim-controller",
)


@contextmanager
def start_kube_controller_manager(cluster: RealCluster) -> Iterator[None]:
    """Run the real controllers of workloads beside a cluster until the block ends."""
    binary = assets() / "kube-controller-manager"
    if not binary.exists():
        pytest.skip(f"{binary} is not there: run `make tools`")
    command = [
        str(binary),
        f"--kubeconfig={cluster.kubeconfig}",
        f"--controllers={','.join(_CONTROLLERS)}",
        "--leader-elect=false",
        "--secure-port=0",
        "--kube-api-qps=500",
        "--kube-api-burst=500",
    ]
    log = cluster.folder / "kube-controller-manager.log"
    with running("kube-controller-manager", command, log):
        yield


def keep_logs(folder: Path, name: str) -> Path:
    """Copy the logs out of a cluster's folder and return where they are now."""
    kept = KEPT_LOGS / f"{name}-{os.getpid()}"
    kept.mkdir(parents=True, exist_ok=True)
    for log in folder.glob("*.log"):
        shutil.copy(log, kept)
    return kept


def _start(
    stack: ExitStack, binaries: Path, folder: Path, apiserver_flags: Sequence[str]
) -> RealCluster:
    client_port, peer_port, secure_port = free_ports(3)
    write_certificates(folder)
    (folder / "tokens.csv").write_text(
        f'{ADMIN_TOKEN},admin,1,"system:masters"\n'
        f"{SCHEDULER_TOKEN},system:kube-scheduler,2\n"
        f"{POWERLESS_TOKEN},powerless,3\n"
    )
    url = f"https://127.0.0.1:{secure_port}"
    etcd = stack.enter_context(
        running(
            "etcd", _etcd_command(binaries, folder, client_port, peer_port), folder / "etcd.log"
        )
    )
    command = _apiserver_command(binaries, folder, client_port, secure_port)
    apiserver = stack.enter_context(
        running("kube-apiserver", [*command, *apiserver_flags], folder / "kube-apiserver.log")
    )
    cluster = RealCluster(
        release=release_of(binaries),
        url=url,
        folder=folder,
        ca_file=folder / "ca.crt",
        kubeconfig=_write_kubeconfig(folder, url, "admin", ADMIN_TOKEN),
        scheduler_kubeconfig=_write_kubeconfig(folder, url, "kube-scheduler", SCHEDULER_TOKEN),
        powerless_kubeconfig=_write_kubeconfig(folder, url, "powerless", POWERLESS_TOKEN),
        etcd=etcd,
        apiserver=apiserver,
    )
    try:
        apiserver.wait_ready(lambda: _serves(cluster), READY_S)
    except ProgramFailedError as error:
        error.add_note(f"end of etcd's log:\n{etcd.tail(10)}")
        raise
    return cluster


def _etcd_command(binaries: Path, folder: Path, client_port: int, peer_port: int) -> list[str]:
    client, peer = f"http://127.0.0.1:{client_port}", f"http://127.0.0.1:{peer_port}"
    return [
        str(binaries / "etcd"),
        "--name=default",
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",  # no data has to survive a crash
        f"--quota-backend-bytes={8 << 30}",
    ]


def _apiserver_command(binaries: Path, folder: Path, etcd_port: int, secure_port: int) -> list[str]:
    return [
        str(binaries / "kube-apiserver"),
        f"--etcd-servers=http://127.0.0.1:{etcd_port}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none",  # it would reject a loopback address as endpoint
        f"--secure-port={secure_port}",
        f"--cert-dir={folder}",
        f"--tls-cert-file={folder / 'server.crt'}",
        f"--tls-private-key-file={folder / 'server.key'}",
        "--service-cluster-ip-range=10.0.0.0/16",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={folder / 'sa.pub'}",
        f"--service-account-signing-key-file={folder / 'sa.key'}",
        f"--token-auth-file={folder / 'tokens.csv'}",
        "--authorization-mode=RBAC",
        "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
        "--allow-privileged=true",
        "--max-requests-inflight=3000",
        "--max-mutating-requests-inflight=1500",
    ]


def groups_served(release: Release) -> list[str]:
    """Return the flags that serve Kubernetes' own groups of pods, which are off by default.

    kube-apiserver ends at a gate or a version of another release.
    """
    is_later = release >= V1_37
    versions = LATER_VERSIONS if is_later else EARLIER_VERSIONS
    gates = LATER_GATES if is_later else GROUP_GATES
    served = ",".join(f"scheduling.k8s.io/{version}=true" for version in versions)
    return [
        f"--runtime-config={served}",
        f"--feature-gates={','.join(f'{gate}=true' for gate in gates)}",
    ]


def _write_kubeconfig(folder: Path, url: str, user: str, token: str) -> Path:
    authority = base64.b64encode((folder / "ca.crt").read_bytes()).decode()
    path = folder / f"{user}.kubeconfig"
    path.touch(mode=0o600)
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [
                    {
                        "name": "real",
                        "cluster": {"server": url, "certificate-authority-data": authority},
                    }
                ],
                "users": [{"name": user, "user": {"token": token}}],
                "contexts": [{"name": "real", "context": {"cluster": "real", "user": user}}],
                "current-context": "real",
            }
        )
    )
    return path


def _request(
    cluster: RealCluster, method: str, path: str, body: Any, token: str, content_type: str
) -> tuple[int, Any]:
    request = urllib.request.Request(
        cluster.url + path,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {token}", "Content-Type": content_type},
    )
    context = ssl.create_default_context(cafile=str(cluster.ca_file))
    try:
        with urllib.request.urlopen(request, context=context, timeout=30) as answer:
            return answer.status, _decoded(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, _decoded(error.read())


def _decoded(answer: bytes) -> Any:
    try:
        return json.loads(answer)
    except ValueError:
        return answer.decode(errors="replace")


def _serves(cluster: RealCluster) -> bool:
    """Return whether the server is ready and has created the usual namespaces."""
    try:
        return all(
            cluster.request("GET", path)[0] == 200
            for path in ("/readyz", "/api/v1/namespaces/default", "/api/v1/namespaces/kube-system")
        )
    except OSError:
        return False


def _answers(scheduler: KubeScheduler) -> bool:
    try:
        return scheduler.get("/readyz") == "ok"
    except OSError:
        return False


@pytest.fixture(scope="session")
def real_cluster(request: pytest.FixtureRequest) -> Iterator[RealCluster]:
    """Return one control plane for all tests of the session; tests use their own namespaces and
    names in it.
    """
    with start_cluster() as cluster:
        yield from _keeping_logs(request, cluster, "real")


@pytest.fixture
def own_real_cluster(request: pytest.FixtureRequest) -> Iterator[RealCluster]:
    """Return an empty control plane for one test alone (takes about five seconds)."""
    name = re.sub(r"\W+", "-", request.node.name)[:60].strip("-")
    with start_cluster(name=name) as cluster:
        yield from _keeping_logs(request, cluster, name)


def _keeping_logs(
    request: pytest.FixtureRequest, cluster: RealCluster, name: str
) -> Iterator[RealCluster]:
    failed_before = request.session.testsfailed
    yield cluster
    if request.session.testsfailed > failed_before:
        keep_logs(cluster.folder, name)
