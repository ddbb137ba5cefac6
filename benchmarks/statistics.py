"""How fast are the intervals? Ratios against what one would write by hand, side by side in one run.

At the size of turn-end-detection (53,140 turns, 100,348 observations) and of MPTB's test split (2,716
positives in 192 conversations), 9,999 replicates each. The slow sides are timed on some replicates and
extrapolated. Takes about 30 s: ``python benchmarks/statistics.py``.
"""

from __future__ import annotations

import sys

if __name__ == "statistics":
    # Python finds this file where a library asks for the standard module of this name, if the script that
    # runs lies next to it.
    import importlib.util
    import sysconfig
    from pathlib import Path

    path = Path(sysconfig.get_path("stdlib")) / "statistics.py"
    spec = importlib.util.spec_from_file_location("statistics", path)
    sys.modules["statistics"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules["statistics"])

import time
import tracemalloc
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from mptb_metric.bootstrap import bootstrap
from mptb_metric.percentiles import bootstrap_percentiles
from mptb_metric.resampling import distinct_units
from mptb_metric.sums import Ratio

N_RESAMPLES = 9999
N_TURNS, N_OBSERVATIONS = 53_140, 100_348

# How many observations of each kind a turn has on average, and how often they are decided right. The dataset
# card says 1.89 observations per turn and 0.14 % mid_thought_cut; the rest is a guess.
KINDS = {
    "payload_cut": (0.26, 0.72),
    "trailing_frag": (0.16, 0.8),
    "mid_thought_cut": (0.0027, 0.75),
    "word_cut": (0.34, 0.95),
    "chunk_cut": (0.26, 0.85),
    "complete": (0.93, 0.9),
}

# Columns: right and wrong of each kind. The first four kinds are unfinished, the last two finished.
RATES = {
    "recall": Ratio((8, 10), (8, 9, 10, 11)),
    "fpr": Ratio((1, 3, 5, 7), (0, 1, 2, 3, 4, 5, 6, 7)),
} | {kind: Ratio((2 * i + 1,), (2 * i, 2 * i + 1)) for i, kind in enumerate(KINDS)}


def all_rates(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Recall, FPR and the six error rates at once, [..., 12] to [..., 8]."""
    return np.stack([ratio(sums) for ratio in RATES.values()], axis=-1)


def turn_counts(seed: int = 0) -> NDArray[np.int64]:
    """Right and wrong decisions per turn and kind, int64 [n_turns, 12]; turns differ in how easy they are."""
    rng = np.random.default_rng(seed)
    n_kind = np.column_stack([rng.random(N_TURNS) < share for share, _ in KINDS.values()]).astype(int)
    # A turn may pause at two finished sentences.
    n_kind[:, 4] = rng.binomial(2, KINDS["chunk_cut"][0] / 2, N_TURNS)
    n_kind[n_kind.sum(axis=1) == 0, 5] = 1
    turns, kinds = np.divmod(np.repeat(np.arange(N_TURNS * 6), n_kind.ravel()), 6)
    kept = rng.permutation(len(turns))[:N_OBSERVATIONS]
    turns, kinds = turns[kept], kinds[kept]
    skill = np.array([skill for _, skill in KINDS.values()])[kinds]
    ease = rng.normal(0, 1.2, N_TURNS)[turns]
    wrong = rng.random(len(turns)) > 1 / (1 + np.exp(-(np.log(skill / (1 - skill)) + ease)))
    counts = np.zeros((N_TURNS, 12), dtype=np.int64)
    np.add.at(counts, (turns, 2 * kinds + wrong), 1)
    return counts


def seconds(run: Callable[[], object], *, repeats: int) -> float:
    """Best of some runs, which other work on the machine disturbs least."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best


def extrapolated_s(replicate: Callable[[], None], *, n_timed: int = 100) -> float:
    """Seconds for all replicates, from some in a row: long enough to meet what else the machine does."""
    some = seconds(lambda: [replicate() for _ in range(n_timed)], repeats=5)
    return some / n_timed * N_RESAMPLES


def literal_s(counts: NDArray[np.int64], statistic: Callable[..., object]) -> float:
    """Seconds for all replicates by drawn indices, taken and summed."""
    rng = np.random.default_rng(0)
    n = len(counts)

    def replicate() -> None:
        statistic(np.take(counts, rng.integers(0, n, n), axis=0).sum(axis=0).astype(float))

    return extrapolated_s(replicate)


def scipy_s(counts: NDArray[np.int64], *, n_resamples: int = 60) -> float:
    """Seconds for all replicates by ``scipy.stats.bootstrap`` on the columns, extrapolated."""
    from scipy import stats

    def statistic(*columns: NDArray[np.int64], axis: int = -1) -> NDArray[np.float64]:
        sums = np.stack([column.sum(axis=axis) for column in columns], axis=-1).astype(float)
        return np.moveaxis(all_rates(sums), -1, 0)

    def run() -> None:
        stats.bootstrap(
            tuple(counts.T.copy()),
            statistic,
            paired=True,
            vectorized=True,
            n_resamples=n_resamples,
            batch=20,
            method="percentile",
            rng=np.random.default_rng(0),
        )

    return seconds(run, repeats=2) / n_resamples * N_RESAMPLES


def peak_mb(run: Callable[[], object]) -> float:
    """Peak of what NumPy and Python allocate meanwhile, in MB."""
    tracemalloc.start()
    run()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak / 1e6


def report_rates() -> None:
    counts = turn_counts()
    n_distinct = len(distinct_units(counts).rows)
    print(f"recall, FPR and six error rates of {counts.sum()} observations in {N_TURNS} turns:")
    literal, by_scipy = literal_s(counts, all_rates), scipy_s(counts)
    runs: dict[str, Callable[[], object]] = {
        f"one function of all sums ({n_distinct} distinct vectors)": lambda: bootstrap(counts, all_rates),
        "one rate after the other, as in the metric's tables": lambda: [
            bootstrap(counts, ratio) for ratio in RATES.values()
        ],
    }
    for name, run in runs.items():
        ours = seconds(run, repeats=7)
        print(f"  {name}:")
        print(f"    {ours:.3f} s (at most 1), {peak_mb(run):.0f} MB (at most 500)")
        print(f"    {literal / ours:.0f}x faster than literal (at least 100; {literal:.1f} s, extrapolated)")
        print(f"    {by_scipy / ours:.0f}x faster than scipy (at least 30; {by_scipy:.1f} s, extrapolated)")


def report_single_rate() -> None:
    counts = turn_counts()
    columns = ((8, 10), (9, 11), (1, 3, 5, 7), (0, 2, 4, 6))
    per_turn = np.column_stack([counts[:, list(some)].sum(axis=1) for some in columns])
    recall = Ratio((0,), (0, 1))
    ours = seconds(lambda: bootstrap(per_turn, recall), repeats=20)
    literal = literal_s(np.ascontiguousarray(per_turn[:, :2]), recall)
    print("recall alone, which names its two of the four columns TP, FN, FP, TN:")
    print(f"  {ours * 1e3:.1f} ms")
    print(f"  {literal / ours:.0f}x faster than literal (at least 1000; {literal:.1f} s, extrapolated)")


def report_percentiles() -> None:
    rng = np.random.default_rng(0)
    sizes = rng.multinomial(2716, np.full(192, 1 / 192))
    latencies_s = [(rng.gamma(2.0, 0.4, size) - 0.25).round(3) for size in sizes]

    def replicate() -> None:
        drawn = rng.integers(0, 192, 192)
        np.percentile(np.concatenate([latencies_s[unit] for unit in drawn]), [10, 50, 90])

    ours = seconds(lambda: bootstrap_percentiles(latencies_s), repeats=5)
    literal = extrapolated_s(replicate)
    print("latency p10, p50 and p90 of 2,716 positives in 192 conversations:")
    print(f"  {ours:.3f} s")
    print(f"  {literal / ours:.1f}x faster than literal (at least 5; {literal:.1f} s, extrapolated)")


if __name__ == "__main__":
    report_rates()
    report_single_rate()
    report_percentiles()
