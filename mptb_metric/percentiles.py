"""Latency percentiles over resampled units, without building a single resampled list.

The latencies of all units are sorted once. A replicate then is a weight per latency: how often its unit was
drawn. The order statistics of the replicate's list are found by counting along the sorted latencies, so the
percentiles are those that NumPy gives for the list itself, to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .bootstrap import BootstrapResult, summarise
from .intervals import Intervals, Settings, warn_where_undefined
from .resampling import DistinctUnits, distinct_units

LatencyUnits = Sequence[Sequence[float]]

# Latencies that are counted together before the right one is looked for among them.
_RUN = 64

# Cells of weights that leaving out one unit at a time may take at once.
_JACKKNIFE_CELLS = 4_000_000


class WeightedPercentiles:
    """Percentiles of the latencies of drawn units, from weights over distinct units."""

    def __init__(
        self, units: DistinctUnits, latencies_s: list[tuple[float, ...]], fractions: NDArray[np.float64]
    ) -> None:
        """Sort the latencies.

        Args:
            units: what is drawn.
            latencies_s: latencies of each distinct row, in seconds.
            fractions: percentiles divided by 100, float64 [m].
        """
        self._multiplicity = units.multiplicity
        values = np.array([value for unit in latencies_s for value in unit], dtype=np.float64)
        owners = np.repeat(np.arange(len(latencies_s)), [len(unit) for unit in latencies_s])
        order = np.argsort(values, kind="stable")
        self._values = values[order]
        self._owners = np.pad(owners[order], (0, -len(order) % _RUN))
        self._fractions = fractions
        self.is_scalar = False

    def reduce(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Map weights, [n, n_distinct], to percentiles, float64 [n, m], NaN where no latency was drawn."""
        n = len(weights)
        out = np.full((n, len(self._fractions)), np.nan)
        if not len(self._values):
            return out
        repeats = np.take(weights, self._owners, axis=1)
        repeats[:, len(self._values) :] = 0
        runs = repeats.reshape(n, -1, _RUN)
        ends = np.cumsum(runs.sum(axis=2), axis=1)
        n_drawn = ends[:, -1]
        for column, fraction in enumerate(self._fractions):
            position = np.maximum(n_drawn - 1, 0) * fraction
            below = np.floor(position)
            low = self._order_statistic(below, runs, ends)
            high = self._order_statistic(np.minimum(below + 1, np.maximum(n_drawn - 1, 0)), runs, ends)
            out[:, column] = np.where(n_drawn > 0, _between(low, high, position - below), np.nan)
        return out

    def finish(self, percentiles: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the percentiles as they are."""
        return percentiles

    def sample(self) -> NDArray[np.float64]:
        """Return the percentiles of the sample itself, float64 [m]."""
        return self.reduce(self._multiplicity[None].astype(np.float64))[0]

    def without_one(self, part: slice) -> NDArray[np.float64]:
        """Return the percentiles without one unit of each distinct row in ``part``, float64 [n_rows, m]."""
        rows = np.arange(part.start, part.stop)
        n_batch = max(1, _JACKKNIFE_CELLS // (len(self._multiplicity) + len(self._owners)))
        found = []
        for start in range(0, len(rows), n_batch):
            batch = rows[start : start + n_batch]
            weights = np.tile(self._multiplicity.astype(np.float64), (len(batch), 1))
            weights[np.arange(len(batch)), batch] -= 1
            found.append(self.reduce(weights))
        return np.concatenate(found)

    def _order_statistic(
        self, index: NDArray[np.float64], runs: NDArray[np.float64], ends: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the latency at a 0-based index of each replicate's sorted list, float64 [n]."""
        replicates = np.arange(len(index))
        # Where nothing was drawn there is no such run; the caller discards what the last one gives.
        run = np.minimum((ends <= index[:, None]).sum(axis=1), ends.shape[1] - 1)
        before = np.where(run > 0, ends[replicates, run - 1], 0)
        within = before[:, None] + np.cumsum(runs[replicates, run], axis=1)
        place = run * _RUN + (within <= index[:, None]).sum(axis=1)
        return self._values[np.minimum(place, len(self._values) - 1)]


def bootstrap_percentiles(
    latencies_s: LatencyUnits,
    percentiles: ArrayLike = (10, 50, 90),
    *,
    n_resamples: int = 9999,
    confidence_level: float = 0.95,
    method: str = "percentile",
    seed: int = 0,
    strata: Sequence[object] | None = None,
) -> BootstrapResult:
    """Give latency percentiles intervals, by resampling the units that the latencies come from.

    A replicate draws as many units as there are, with replacement, pools their latencies and takes the
    percentiles with linear interpolation between order statistics. What is undefined or degenerate is
    treated as by ``bootstrap``; a replicate without any latency is undefined.

    Args:
        latencies_s: per unit its latencies in seconds (signed, any order); units without any are given as
            empty sequences and are drawn like the others.
        percentiles: one percentile or several, in [0, 100].
        n_resamples: replicates, >= 2.
        confidence_level: nominal coverage, strictly between 0 and 1.
        method: ``percentile``, ``basic`` or ``bca``.
        seed: of the random draws, >= 0.
        strata: a label per unit, as in ``bootstrap``.

    Returns:
        BootstrapResult: plain numbers for one percentile, arrays [m] for several.

    Raises:
        ValueError: no units; a latency that is not a finite number (named by unit); an option out of range.

    Examples:
        >>> found = bootstrap_percentiles([[0.2, 0.4], [0.3], [0.9]], 50)
        >>> found.estimate
        0.35

    References:
        The scoring protocol, "Counts, rates, latencies" and "Resampling".
    """
    settings = Settings(n_resamples, confidence_level, method, seed)
    result, found = resample_percentiles(latencies_s, percentiles, settings=settings, strata=strata)
    warn_where_undefined(found, n_resamples, stacklevel=2)
    return result


def resample_percentiles(
    latencies_s: LatencyUnits,
    percentiles: ArrayLike,
    *,
    settings: Settings,
    strata: Sequence[object] | None = None,
) -> tuple[BootstrapResult, Intervals]:
    """Do the work of ``bootstrap_percentiles`` without its warnings."""
    fractions, scalar = check_percentiles(percentiles)
    (codes,), levels = rank_units(latencies_s)
    units = distinct_units(codes[:, None], strata)
    measure = WeightedPercentiles(units, [levels[int(code)] for code in units.rows[:, 0]], fractions)
    measure.is_scalar = scalar
    return summarise(units, measure, settings)


def percentiles_of(latencies_s: LatencyUnits, percentiles: Sequence[float]) -> list[float]:
    """Return the percentiles of all units' latencies, NaN where there is none."""
    pooled = [value for unit in latencies_s for value in unit]
    return np.percentile(pooled, percentiles).tolist() if pooled else [math.nan] * len(percentiles)


def rank_units(*systems: LatencyUnits) -> tuple[list[NDArray[np.int64]], list[tuple[float, ...]]]:
    """Replace each unit's latencies by a number that only units with the same latencies share.

    Args:
        systems: per system, per unit, its latencies in seconds.

    Returns:
        Per system an int64 [n_units] of indices, and the sorted latencies that each index stands for.
    """
    keys = [_sorted_units(latencies, f"latencies_s of system {i}") for i, latencies in enumerate(systems)]
    levels = sorted({key for system in keys for key in system})
    rank = {level: index for index, level in enumerate(levels)}
    return [np.array([rank[key] for key in system], dtype=np.int64) for system in keys], levels


def check_percentiles(percentiles: ArrayLike) -> tuple[NDArray[np.float64], bool]:
    """Return percentiles as fractions, float64 [m], and whether a single one was asked for."""
    values: NDArray[Any] = np.asarray(percentiles)
    wrong_kind = values.dtype.kind not in "iuf" or values.ndim > 1 or values.size == 0
    if wrong_kind or not np.all((values >= 0) & (values <= 100)):
        raise ValueError(f"percentiles: expected one or several numbers in [0, 100], got {percentiles!r}")
    return np.atleast_1d(values) / 100, values.ndim == 0


def _sorted_units(latencies_s: LatencyUnits, name: str) -> list[tuple[float, ...]]:
    units = [list(unit) for unit in latencies_s]
    if not units:
        raise ValueError(f"{name}: expected at least one unit")
    flat = np.asarray([value for unit in units for value in unit])
    if flat.size and (flat.ndim != 1 or flat.dtype.kind not in "iuf" or not np.isfinite(flat).all()):
        for index, unit in enumerate(units):
            for value in unit:
                if isinstance(value, (bool, str)) or not np.all(np.isfinite(np.asarray(value, np.float64))):
                    raise ValueError(f"{name}: unit {index}: expected finite seconds, got {value!r}")
        raise ValueError(f"{name}: expected a sequence of numbers per unit")
    edges = np.concatenate([[0], np.cumsum([len(unit) for unit in units])])
    values = flat.astype(np.float64).tolist()
    return [tuple(sorted(values[a:b])) for a, b in pairwise(edges)]


def _between(low: NDArray[np.float64], high: NDArray[np.float64], t: NDArray[np.float64]) -> NDArray[Any]:
    """Interpolate as NumPy does, from the nearer of the two, so that results agree to the last bit."""
    step = high - low
    return np.where(t >= 0.5, high - step * (1 - t), low + step * t)
