"""`make differential`: random cases on a real API server, decided by kube-scheduler and by ours.

    python -m tests.differential.run --cases 1000 --seed 1 --out build/differential

Writes summary.json and summary.md, and each difference as a file of its own that repeats without
the real scheduler (see README.md). Exit code 1 if a difference is unexplained.
"""

import argparse
import asyncio
import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from time import monotonic

from scheduler.config import read_gates
from tests.apiserver.realcluster import (
    RealCluster,
    assets,
    release_of,
    start_cluster,
    start_kube_scheduler,
)
from tests.differential.again import repeated
from tests.differential.case import Case, Decision
from tests.differential.kinds import Manifest, collection
from tests.differential.klog import VERBOSITY
from tests.differential.known import explained
from tests.differential.making.cluster import FAMILIES, make_case
from tests.differential.making.profiles import configuration
from tests.differential.making.words import NAMESPACES, Dice
from tests.differential.ours import Ours
from tests.differential.peerserver import PeerServer
from tests.differential.report import Report
from tests.differential.shrink import shrunk
from tests.differential.sight import CaseError
from tests.real.api import Api, ApiError

# Admission that would change or reject generated objects; it is no part of scheduling.
ADMISSION = (
    "ServiceAccount",
    "TaintNodesByCondition",
    "Priority",
    "RuntimeClass",
    "StorageObjectInUseProtection",
)
BLOCK, PROFILES = 50, 6
SLOW_S = 0.4


class Run:
    """All cases of one run; `report` collects the results."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.report = Report(Path(options.out), options.seed)
        chosen = options.families.split(",") if options.families else []
        self.release = release_of(assets())
        self.gates = read_gates(options.feature_gates)
        self.families = dict.fromkeys(chosen, 0.7) if chosen else FAMILIES

    async def everything(self, cluster: RealCluster) -> None:
        """Run all cases, block by block, each block under a configuration of its own."""
        async with Api(cluster, connections=8) as api:
            for name, labels in NAMESPACES.items():
                meta = {"name": name, "labels": labels}
                await api.expect("POST", collection("Namespace"), {"metadata": meta})
            namespaces, _ = await api.list(collection("Namespace"))
            for meta in (one["metadata"] for one in namespaces):
                meta.pop("managedFields", None)
            started = monotonic()
            for block, numbers in self._blocks():
                if monotonic() - started > self.options.minutes * 60:
                    break
                await self._block(
                    cluster, api, [_namespace(one) for one in namespaces], block, numbers
                )

    def _blocks(self) -> Iterator[tuple[int, list[int]]]:
        first, count = self.options.first, self.options.cases
        numbers = range(first, first + count)
        for block in range(first // BLOCK, (first + count - 1) // BLOCK + 1):
            yield block, [number for number in numbers if number // BLOCK == block]

    async def _block(
        self,
        cluster: RealCluster,
        api: Api,
        namespaces: list[Manifest],
        block: int,
        numbers: list[int],
    ) -> None:
        count = 1 if self.options.default_profile else PROFILES
        config = configuration(Dice(f"{self.options.seed}/configuration/{block}"), count)
        whole = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            **config,
        }
        names = [profile["schedulerName"] for profile in config["profiles"]]
        ours = Ours(whole, str(self.release), self.gates)
        name = self.report.configuration(block, whole)
        with (
            start_kube_scheduler(cluster, config, flags=self._flags()) as scheduler,
            closing(PeerServer(api, scheduler, namespaces)) as peer_server,
        ):
            for number in numbers:
                seed = f"{self.options.seed}/{number}"
                case = make_case(seed, self.families, names, self.release)
                if self.options.shrink:
                    case = await self._shrunk(peer_server, ours, case, name)
                if not await self._case(peer_server, ours, case, name):
                    # The scheduler may not have seen all objects: only a repeated difference
                    # counts.
                    peer_server.sight.settle_s = SLOW_S
                    await self._case(peer_server, ours, case, name, is_last=True)
                    peer_server.sight.settle_s = self.options.settle
        print(self.report.progress(), file=sys.stderr, flush=True)

    def _flags(self) -> list[str]:
        gates = self.options.feature_gates
        return [VERBOSITY, f"--feature-gates={gates}"] if gates else [VERBOSITY]

    async def _shrunk(self, peer_server: PeerServer, ours: Ours, case: Case, config: str) -> Case:
        """Return the least of a case that still differs, and write it down."""

        async def differs(smaller: Case) -> bool:
            return not await self._case(peer_server, ours, smaller, config)

        peer_server.sight.settle_s = SLOW_S / 4
        case = await shrunk(case, differs)
        self.report.keep(case)
        return case

    async def _case(
        self, peer_server: PeerServer, ours: Ours, case: Case, config: str, *, is_last: bool = False
    ) -> bool:
        """Run one case and report it; return false if it has to be repeated."""
        decisions: list[Decision] = []
        notes: Counter[str] = Counter()
        try:
            await peer_server.build(case.objects)
            notes["refused objects"] += len(peer_server.refused)
            for text in peer_server.refused:
                self.report.complain(case, ApiError(text))
            await self._pods(peer_server, ours, case, config, decisions, notes)
        except CaseError as error:
            if not is_last:
                await self._clear(peer_server, case, notes)
                return False
            notes["stage failed"] += 1
            self.report.complain(case, error)
        await self._clear(peer_server, case, notes)
        if not is_last and any(one.differences and not one.known for one in decisions):
            return False
        self.report.add(case, decisions, notes)
        return True

    async def _clear(self, peer_server: PeerServer, case: Case, notes: Counter[str]) -> None:
        """Remove the objects of a case; retry if the log does not show that all are deleted."""
        try:
            await peer_server.clear()
        except CaseError as error:
            notes["cleared twice"] += 1
            self.report.complain(case, error)
            await peer_server.clear()

    async def _pods(
        self,
        peer_server: PeerServer,
        ours: Ours,
        case: Case,
        config: str,
        decisions: list[Decision],
        notes: Counter[str],
    ) -> None:
        for number, pod in enumerate(case.pods):
            objects = await peer_server.snapshot()
            try:
                stored, peer = await peer_server.decide(pod)
            except ApiError as error:
                notes["refused pods"] += 1
                self.report.complain(case, error)
                continue
            if peer_server.is_disturbed:
                notes["disturbed"] += 1
                return
            objects += peer_server.made
            one = Decision(
                f"{case.id}/{number}", config, objects, stored, peer, kubernetes=str(self.release)
            )
            one.feature_gates = self.gates
            repeated(one, ours)
            one.known = explained(one) if one.differences else ""
            decisions.append(one)
            if peer.result != "Scheduled" and not peer.nominated:
                await peer_server.remove(stored)


def _namespace(obj: Manifest) -> Manifest:
    return {**obj, "apiVersion": "v1", "kind": "Namespace"}


def main() -> int:
    """Run with the options of the command line; return the exit code."""
    parser = argparse.ArgumentParser(prog="differential", description=__doc__)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--families", default="", help="only these, comma-separated")
    parser.add_argument("--feature-gates", default="", help="of both sides: A=true,B=false")
    parser.add_argument("--default-profile", action="store_true", help="no other profiles")
    parser.add_argument("--settle", type=float, default=0.02, help="seconds per case to settle")
    parser.add_argument("--minutes", type=float, default=240, help="begin no block after that")
    parser.add_argument("--out", default="build/differential")
    parser.add_argument("--shrink", action="store_true", help="make each case smaller first")
    parser.add_argument("--record", default="", help="a folder for decisions worth keeping")
    options = parser.parse_args()
    run = Run(options)
    started = monotonic()
    with start_cluster(
        [f"--disable-admission-plugins={','.join(ADMISSION)}"], name="differential"
    ) as cluster:
        asyncio.run(run.everything(cluster))
    if options.record:
        run.report.recorder.write(Path(options.record), Path(options.out))
    return run.report.write(monotonic() - started)


if __name__ == "__main__":
    os.environ.setdefault("KUBEBUILDER_ASSETS", str(Path(__file__).parents[2] / ".tools" / "bin"))
    sys.exit(main())
