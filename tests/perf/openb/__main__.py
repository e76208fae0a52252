"""`python -m tests.perf.openb --data DIR`: the openb benchmark beside its published figures.

`DIR` holds nodes.csv, pods_TRACE.csv.gz, orders/, published_runs.csv.gz and measured.csv.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import numpy as np

from scheduler.engine.attempt.cycle import Ties
from scheduler.plugins.fragmentation.args import FragmentationAwareArgs
from scheduler.plugins.fragmentation.loss import Weights
from tests.perf.openb import data, table
from tests.perf.openb.bound import allocation_bound
from tests.perf.openb.data import Order, TraceNode, TracePod
from tests.perf.openb.inengine import run_engine
from tests.perf.openb.policies import (
    BestFit,
    DotProd,
    Fgd,
    FragmentationAware,
    LearnedFragmentationAware,
    NodeFragmentation,
    TotalFragmentation,
    typical,
    worth_of,
)
from tests.perf.openb.replay import Policy, run_arrivals

_OWN = "FragmentationAware"
_RANDOM_TIES, _LEARNED = "+random-ties", "+learned"
# The daemon breaks ties by a hash of the pod's uid.
_ENGINE_TIES = {"rank": Ties.NAME, "random": Ties.UID}
PolicyMaker = Callable[[NodeFragmentation], Policy]


def main(argv: Sequence[str] | None = None) -> None:
    """Run the requested traces and print the tables."""
    options = _options(argv)
    nodes = data.nodes(options.data)
    published, measured = data.published(options.data), data.measured(options.data)
    runs: list[table.Figures] = []
    if options.recorded:
        decode = msgspec.json.Decoder(table.Figures).decode
        lines = options.recorded.read_text(encoding="utf-8").splitlines()
        runs = [decode(line) for line in lines if line.startswith("{")]
        options.traces = ""
    for trace in filter(None, options.traces.split(",")):
        pods = data.pods(options.data, trace)
        orders = data.orders(options.data, trace)
        makers = _makers(nodes, pods, options.policies.split(","))
        # The values follow from node states, which seeds and policies share.
        values = NodeFragmentation(typical(pods))
        for seed in map(int, options.seeds.split(",")):
            bound = 0.0
            if options.bound:
                bound = allocation_bound(nodes, [pods[row] for row in orders[seed].pods.tolist()])
            if options.engine:
                runs.append(_in_engine(options, nodes, pods, orders[seed], trace, seed, bound))
            for policy, make in makers.items():
                started = time.perf_counter()
                is_random = options.ties == "random" or policy.endswith(_RANDOM_TIES)
                rng = np.random.default_rng(seed) if is_random else None
                total = TotalFragmentation(values)
                run = run_arrivals(nodes, pods, orders[seed], make(values), total, rng)
                spent = time.perf_counter() - started
                runs.append(table.figures(trace, policy, seed, run, bound, spent))
                print(msgspec.json.encode(runs[-1]).decode(), flush=True)
    print("\n".join(table.lines(runs, published, measured)))
    print(table.equal_to_published(runs, published))


def _in_engine(
    options: argparse.Namespace,
    nodes: Sequence[TraceNode],
    pods: Sequence[TracePod],
    order: Order,
    trace: str,
    seed: int,
    bound: float,
) -> table.Figures:
    """Return the figures of a run through the engine; `seconds` are of the processor."""
    started = time.process_time()
    ties = _ENGINE_TIES[options.ties]
    run = run_engine(nodes, pods, order, learns=options.learned, ties=ties)
    spent = time.process_time() - started
    name = f"{_OWN}, engine{', learned' if options.learned else ''}"
    if ties is not Ties.NAME:
        name += f", ties by {ties.name.lower()}"
    found = table.figures(trace, name, seed, run, bound, spent)
    print(msgspec.json.encode(found).decode(), flush=True)
    return found


def _makers(
    nodes: Sequence[TraceNode], pods: Sequence[TracePod], names: Sequence[str]
) -> dict[str, PolicyMaker]:
    known: dict[str, PolicyMaker] = {
        "BestFit": lambda _: BestFit(),
        "DotProd": lambda _: DotProd(),
        "FGD": Fgd,
    }
    weights = Weights()
    if any(name.startswith(_OWN) for name in names):
        worth = worth_of(pods, nodes)
        known[_OWN] = known[_OWN + _RANDOM_TIES] = lambda _: FragmentationAware(worth, weights)
        drift = FragmentationAwareArgs().max_drift
        known[_OWN + _LEARNED] = lambda _: LearnedFragmentationAware(nodes, weights, drift)
    names = [name for name in names if name]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SystemExit(
            f"unknown policies {unknown}; "
            f"known are {[*known, _OWN, _OWN + _LEARNED, _OWN + _RANDOM_TIES]}"
        )
    return {name: known[name] for name in names}


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.perf.openb", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder with the trace")
    parser.add_argument("--traces", default=",".join(data.TRACES))
    parser.add_argument("--seeds", default=",".join(map(str, data.SEEDS)))
    parser.add_argument("--policies", default=f"BestFit,FGD,{_OWN}")
    parser.add_argument("--ties", choices=("rank", "random"), default="rank")
    parser.add_argument(
        "--engine", action="store_true", help="run FragmentationAware through the real engine, too"
    )
    parser.add_argument(
        "--learned", action="store_true", help="give the engine no shapes: it learns the mix"
    )
    parser.add_argument("--bound", action="store_true", help="recompute the bound of each run")
    parser.add_argument(
        "--recorded", type=Path, help="print the tables of earlier runs from a file of their lines"
    )
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
