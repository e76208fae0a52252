"""The results of a set of runs: the table beside the published figures, pairwise differences,
rejections.
"""

from collections.abc import Mapping, Sequence
from statistics import mean

import msgspec

from tests.perf.openb.replay import Run

SIZES = ("cpu only", "shared", "1 GPU", "2 GPU", "4 GPU", "8 GPU")
_HEADER = (
    "| trace | policy | runs | allocated at 100 / 130 % | fragmented at 100 % | of the bound "
    "| ahead of published FGD, least / mean | first refusal |"
)
_MEASURED = {
    "cpu only": "refused_cpu_only",
    "shared": "refused_shared",
    "1 GPU": "refused_1gpu",
    "2 GPU": "refused_2gpu",
    "4 GPU": "refused_4gpu",
    "8 GPU": "refused_8gpu",
}


class Figures(msgspec.Struct, frozen=True):
    """One run in figures, in percent."""

    trace: str
    policy: str
    seed: int
    alloc_100: float
    alloc_130: float
    frag_100: float
    first_refusal: float
    refused: dict[str, float]
    bound_100: float = 0.0
    seconds: float = 0.0


def figures(trace: str, policy: str, seed: int, run: Run, bound: float, seconds: float) -> Figures:
    """Return the figures of a run; rejections are those until the requests equal all devices."""
    refused = {
        size: round(100 * run.refused[size] / run.arrived[size], 2)
        for size in SIZES
        if run.arrived[size]
    }
    first = 130.0 if run.first_refusal is None else round(run.first_refusal, 1)
    return Figures(
        trace,
        policy,
        seed,
        run.allocation(100),
        run.allocation(130),
        run.fragmentation(100),
        first,
        refused,
        bound,
        round(seconds, 1),
    )


def lines(
    runs: Sequence[Figures],
    published: Mapping[tuple[str, str, int], Mapping[str, float]],
    measured: Mapping[tuple[str, str], Mapping[str, float]],
) -> list[str]:
    """Return the table: a row per trace and policy, means over the seeds that were run."""
    out = [
        _HEADER,
        "|---|---|---|---|---|---|---|---|",
    ]
    for trace, policy in dict.fromkeys((run.trace, run.policy) for run in runs):
        chosen = [run for run in runs if (run.trace, run.policy) == (trace, policy)]
        leads = [run.alloc_100 - published[trace, "FGD", run.seed]["alloc_100"] for run in chosen]
        bounds = [100 * run.alloc_100 / run.bound_100 for run in chosen if run.bound_100]
        out.append(
            f"| {trace} | {policy} | {len(chosen)} | {_mean(chosen, 'alloc_100'):.2f} / "
            f"{_mean(chosen, 'alloc_130'):.2f} | {_mean(chosen, 'frag_100'):.2f} | "
            f"{f'{mean(bounds):.2f} %' if bounds else '-'} | "
            f"{min(leads):+.2f} / {mean(leads):+.2f} | {_mean(chosen, 'first_refusal'):.1f} |"
        )
    out += ["", "Refused until 100 % of arrivals, in % of the pods of a size:", ""]
    out += [f"| trace | policy | {' | '.join(SIZES)} |", "|---" * (2 + len(SIZES)) + "|"]
    for trace, policy in dict.fromkeys((run.trace, run.policy) for run in runs):
        chosen = [run for run in runs if (run.trace, run.policy) == (trace, policy)]
        cells = [_refused([run.refused for run in chosen], size) for size in SIZES]
        out.append(f"| {trace} | {policy} | {' | '.join(cells)} |")
        fgd = measured.get((trace, "FGD"))
        if fgd is not None and policy != "FGD":
            cells = [_shown(fgd.get(_MEASURED[size])) for size in SIZES]
            out.append(f"| {trace} | FGD, study | {' | '.join(cells)} |")
    return out


def equal_to_published(
    runs: Sequence[Figures], published: Mapping[tuple[str, str, int], Mapping[str, float]]
) -> str:
    """Return how many runs of published policies have both published figures."""
    found = []
    for policy in dict.fromkeys(run.policy for run in runs):
        known = [run for run in runs if (run.trace, policy, run.seed) in published]
        chosen = [run for run in known if run.policy == policy]
        same = sum(
            (run.alloc_100, run.alloc_130)
            == (
                published[run.trace, policy, run.seed]["alloc_100"],
                published[run.trace, policy, run.seed]["alloc_130"],
            )
            for run in chosen
        )
        if chosen:
            found.append(f"{policy}: {same} of {len(chosen)} runs equal the published ones")
    return "\n".join(found)


def _mean(runs: Sequence[Figures], name: str) -> float:
    return float(mean(getattr(run, name) for run in runs))


def _refused(shares: Sequence[Mapping[str, float]], size: str) -> str:
    found = [share[size] for share in shares if size in share]
    return _shown(mean(found) if found else None)


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
