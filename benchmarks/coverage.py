"""Are the intervals right? Simulated corpora whose truth is known, with a fixed seed.

Rows of one turn are right or wrong together, as prefixes of one audio are. Prints how often nominal 95 %
intervals hold the truth, by units and by rows; how often the paired test rejects where nothing differs; and
how the replicates compare with SciPy's and with literal resampling. Takes about 30 s: ``python
benchmarks/coverage.py [seed]``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from mptb_metric.bootstrap import bootstrap
from mptb_metric.paired import paired_bootstrap
from mptb_metric.sums import Ratio

RATE = Ratio((0,), (0, 1))
N_CORPORA = 1000
N_RESAMPLES = 999

# Right with probability 0.7; a Beta with a small sum makes the rows of a turn alike (correlation 2/3).
EASE = (0.35, 0.15)
TRUTH = EASE[0] / sum(EASE)


def corpus(n_units: int, rng: np.random.Generator, *, n_systems: int = 1) -> list[NDArray[np.int64]]:
    """Counts (right, wrong) per turn, of systems that find the same turns hard."""
    n_rows = rng.integers(4, 13, n_units)
    ease = rng.beta(*EASE, n_units)
    right = [rng.binomial(n_rows, ease) for _ in range(n_systems)]
    return [np.column_stack([r, n_rows - r]) for r in right]


def as_rows(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The same observations with every row taken for a unit of its own."""
    right, wrong = counts.sum(axis=0)
    return np.array([[1, 0]] * right + [[0, 1]] * wrong)


def coverage(
    n_units: int,
    *,
    seed: int,
    method: str = "percentile",
    units: Callable[..., NDArray[np.int64]] | None = None,
) -> tuple[float, float]:
    """Share of corpora whose interval holds the truth, and the mean width of the intervals."""
    rng = np.random.default_rng(seed)
    held, width = 0, 0.0
    for index in range(N_CORPORA):
        (counts,) = corpus(n_units, rng)
        counts = counts if units is None else units(counts)
        found = bootstrap(counts, RATE, n_resamples=N_RESAMPLES, method=method, seed=index)
        held += found.low <= TRUTH <= found.high
        width += found.high - found.low
    return held / N_CORPORA, width / N_CORPORA


def type_one_error(n_units: int, *, seed: int) -> float:
    """Share of comparisons of two equally good systems with p <= 0.05."""
    rng = np.random.default_rng(seed)
    rejected = 0
    for index in range(N_CORPORA):
        a, b = corpus(n_units, rng, n_systems=2)
        rejected += paired_bootstrap(a, b, RATE, n_resamples=N_RESAMPLES, seed=index).p_value <= 0.05
    return rejected / N_CORPORA


def scipy_gap(*, seed: int) -> float:
    """Largest gap between our ends and SciPy's for a mean of unit sums, in Monte Carlo errors of an end."""
    rng = np.random.default_rng(seed)
    sums = rng.gamma(2.0, 1.0, 200)
    gaps = []
    for method in ("percentile", "basic", "bca"):
        n = 20_000
        theirs = stats.bootstrap((sums,), np.mean, n_resamples=n, method=method, rng=rng)
        counts = np.column_stack([sums, np.ones(200)])
        ours = bootstrap(counts, Ratio((0,), (1,)), n_resamples=n, method=method, seed=seed)
        # Standard error of the difference of two independent 2.5 % quantiles of a normal distribution.
        error = theirs.standard_error * np.sqrt(2 * 0.025 * 0.975 / n) / stats.norm.pdf(1.96)
        ends = theirs.confidence_interval
        gaps += [abs(ours.low - ends.low) / error, abs(ours.high - ends.high) / error]
    return float(max(gaps))


def literal_p_value(*, seed: int) -> float:
    """Two-sample Kolmogorov-Smirnov p-value of our replicates against drawn indices, taken and summed."""
    rng = np.random.default_rng(seed)
    (counts,) = corpus(2000, rng)
    theirs = [RATE(counts[rng.integers(0, 2000, 2000)].sum(axis=0)) for _ in range(10_000)]
    ours = bootstrap(counts, RATE, n_resamples=10_000, seed=seed).distribution
    return float(stats.ks_2samp(ours, theirs).pvalue)


def main(seed: int) -> None:
    print(f"coverage of nominal 95 % intervals, {N_CORPORA} corpora, seed {seed} (must be 0.93 to 0.97)")
    for n_units in (200, 500):
        by_unit, unit_width = coverage(n_units, seed=seed)
        by_row, row_width = coverage(n_units, seed=seed, units=as_rows)
        print(f"  {n_units} turns: by turns {by_unit:.3f}, by rows {by_row:.3f}", end="")
        print(f" (intervals by rows {unit_width / row_width:.1f}x too narrow)")
    for method in ("basic", "bca"):
        print(f"  200 turns, {method}: {coverage(200, seed=seed, method=method)[0]:.3f}")
    rejected = type_one_error(200, seed=seed)
    print(f"type I error of the paired test at 0.05 (must be 0.03 to 0.07): {rejected:.3f}")
    print(f"largest gap to SciPy's ends: {scipy_gap(seed=seed):.1f} Monte Carlo errors (six ends)")
    print(f"multinomial against literal resampling: KS p = {literal_p_value(seed=seed):.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
