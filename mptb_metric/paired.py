"""Two systems on the same units: the difference, its interval and its p-value.

Both systems are judged on the same draw of units, so what makes a unit hard for both cancels out. The draws
are made on the pairs of count vectors, in an order that does not depend on which system is called the first:
exchanging the two negates every number exactly and keeps the p-value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .bootstrap import BootstrapResult, Measure, result_fields, unwrap
from .intervals import Intervals, LeaveOneOut, Settings, intervals, p_values, warn_where_undefined
from .percentiles import LatencyUnits, WeightedPercentiles, check_percentiles, rank_units
from .resampling import DistinctUnits, distinct_units, resample
from .sums import Statistic, Sums, read_counts


@dataclass(frozen=True)
class PairedResult(BootstrapResult):
    """The difference of two systems on the same units; the inherited fields describe the difference.

    Attributes:
        estimate_a: the first system's statistic.
        estimate_b: the second system's statistic.
        p_value: two-sided p-value of no difference, NaN where there is no interval.
    """

    estimate_a: Any
    estimate_b: Any
    p_value: Any

    @property
    def difference(self) -> Any:
        """The first system's statistic minus the second's."""
        return self.estimate


def paired_bootstrap(
    counts_a: ArrayLike,
    counts_b: ArrayLike,
    statistic: Statistic,
    *,
    n_resamples: int = 9999,
    confidence_level: float = 0.95,
    method: str = "percentile",
    seed: int = 0,
    strata: Sequence[object] | None = None,
    columns: Sequence[int] | None = None,
) -> PairedResult:
    """Compare two systems on the same units.

    One replicate draws the same units for both. The p-value of the difference being 0 is
    ``min(1, 2 * min((1 + #{d* <= 0}) / (B + 1), (1 + #{d* >= 0}) / (B + 1)))`` over the ``B`` replicates in
    which both statistics are defined. Identical systems: difference 0, interval (0, 0), p-value 1. Undefined
    and degenerate cases are those of ``bootstrap``; the p-value is NaN whenever the interval is.

    Args:
        counts_a (array-like, shape (n_units, k)): the first system's counts per unit.
        counts_b (array-like, shape (n_units, k)): the second system's, of the same units in order.
        statistic: as in ``bootstrap``.
        n_resamples: replicates, >= 2.
        confidence_level: nominal coverage, strictly between 0 and 1.
        method: ``percentile``, ``basic`` or ``bca``.
        seed: of the random draws, >= 0.
        strata: a label per unit, as in ``bootstrap``.
        columns: as in ``bootstrap``.

    Returns:
        PairedResult: both estimates, the difference ``a - b``, its interval and p-value.

    Raises:
        ValueError: as ``bootstrap``, or the two matrices differ in shape.

    Examples:
        >>> from mptb_metric.sums import Ratio
        >>> same = paired_bootstrap([[3, 1], [4, 0]], [[3, 1], [4, 0]], Ratio((0,), (0, 1)))
        >>> same.difference, same.low, same.high, same.p_value
        (0.0, 0.0, 0.0, 1.0)

    References:
        The scoring protocol, section "Resampling".
    """
    settings = Settings(n_resamples, confidence_level, method, seed)
    result, found = paired_sums(
        counts_a, counts_b, statistic, settings=settings, strata=strata, columns=columns
    )
    warn_where_undefined(found, n_resamples, stacklevel=2)
    return result


def paired_bootstrap_percentiles(
    latencies_a_s: LatencyUnits,
    latencies_b_s: LatencyUnits,
    percentiles: ArrayLike = (10, 50, 90),
    *,
    n_resamples: int = 9999,
    confidence_level: float = 0.95,
    method: str = "percentile",
    seed: int = 0,
    strata: Sequence[object] | None = None,
) -> PairedResult:
    """Compare the latency percentiles of two systems on the same units.

    Each system's percentiles are over its own latencies: those of the events that it found.

    Args:
        latencies_a_s: per unit the first system's latencies in seconds; empty where it has none.
        latencies_b_s: the second system's, of the same units in the same order.
        percentiles: one percentile or several, in [0, 100].
        n_resamples: replicates, >= 2.
        confidence_level: nominal coverage, strictly between 0 and 1.
        method: ``percentile``, ``basic`` or ``bca``.
        seed: of the random draws, >= 0.
        strata: a label per unit, as in ``bootstrap``.

    Returns:
        PairedResult: plain numbers for one percentile, arrays [m] for several.

    Raises:
        ValueError: as ``bootstrap_percentiles``, or the systems differ in the number of units.
    """
    settings = Settings(n_resamples, confidence_level, method, seed)
    result, found = paired_percentiles(
        latencies_a_s, latencies_b_s, percentiles, settings=settings, strata=strata
    )
    warn_where_undefined(found, n_resamples, stacklevel=2)
    return result


def paired_sums(
    counts_a: ArrayLike,
    counts_b: ArrayLike,
    statistic: Statistic,
    *,
    settings: Settings,
    strata: Sequence[object] | None = None,
    columns: Sequence[int] | None = None,
) -> tuple[PairedResult, Intervals]:
    """Do the work of ``paired_bootstrap`` without its warnings."""
    shapes = np.shape(counts_a), np.shape(counts_b)
    if shapes[0] != shapes[1]:
        raise ValueError(f"counts: expected the same units and columns for both, got {shapes}")
    a, _, _ = read_counts(counts_a, statistic, columns, "counts_a")
    b, statistic, read = read_counts(counts_b, statistic, columns, "counts_b")
    units, sign = _unordered(distinct_units(np.hstack([a[:, read], b[:, read]]), strata), len(read))
    first, second = (
        Sums(_part(units, half, len(read)), statistic, n_columns=a.shape[1], columns=read) for half in (0, 1)
    )
    return _compare(units, sign, first, second, settings)


def paired_percentiles(
    latencies_a_s: LatencyUnits,
    latencies_b_s: LatencyUnits,
    percentiles: ArrayLike,
    *,
    settings: Settings,
    strata: Sequence[object] | None = None,
) -> tuple[PairedResult, Intervals]:
    """Do the work of ``paired_bootstrap_percentiles`` without its warnings."""
    fractions, scalar = check_percentiles(percentiles)
    (a, b), levels = rank_units(latencies_a_s, latencies_b_s)
    if len(a) != len(b):
        raise ValueError(f"latencies: expected the same units for both, got {len(a)} and {len(b)} units")
    units, sign = _unordered(distinct_units(np.column_stack([a, b]), strata), 1)
    first, second = (
        WeightedPercentiles(units, [levels[int(code)] for code in units.rows[:, half]], fractions)
        for half in (0, 1)
    )
    first.is_scalar = scalar
    return _compare(units, sign, first, second, settings)


def _part(units: DistinctUnits, half: int, width: int) -> DistinctUnits:
    rows = np.ascontiguousarray(units.rows[:, half * width : (half + 1) * width])
    return DistinctUnits(rows, units.multiplicity, units.strata)


def _unordered(units: DistinctUnits, width: int) -> tuple[DistinctUnits, int]:
    """Return pairs of rows in an order that is the same whichever system comes first.

    Of the two tables (first | second) and (second | first), each sorted, the smaller one is taken.

    Returns:
        The pairs, and 1 if the first system still comes first, -1 if they were exchanged, 0 if both tables
        are the same.
    """
    stratum = np.repeat(np.arange(len(units.strata)), [part.stop - part.start for part in units.strata])
    mirrored = np.hstack([units.rows[:, width:], units.rows[:, :width]])
    keys = np.column_stack([stratum, -units.multiplicity, mirrored])
    order = np.lexsort(keys.T[::-1])
    mirrored = mirrored[order]
    # The order is by stratum and multiplicity first, so these columns are the same in both tables.
    differs = np.flatnonzero(units.rows != mirrored)
    if not len(differs):
        return units, 0
    if units.rows.flat[differs[0]] < mirrored.flat[differs[0]]:
        return units, 1
    return DistinctUnits(mirrored, units.multiplicity, units.strata), -1


def _compare(
    units: DistinctUnits, sign: int, first: Measure, second: Measure, settings: Settings
) -> tuple[PairedResult, Intervals]:
    """Draw both measures on the same units; ``sign`` as returned by ``_unordered``."""

    def reduce(weights: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.hstack([first.reduce(weights), second.reduce(weights)])

    reduced = resample(units, reduce, n_resamples=settings.n_resamples, seed=settings.seed)
    width = reduced.shape[1] // 2
    direction = -1 if sign < 0 else 1
    replicates = direction * (first.finish(reduced[:, :width]) - second.finish(reduced[:, width:]))
    leave_one_out = None
    if settings.method == "bca":
        leave_one_out = [
            LeaveOneOut(
                direction * (first.without_one(part) - second.without_one(part)), units.multiplicity[part]
            )
            for part in units.strata
        ]
    a, b = (first.sample(), second.sample())[::direction]
    # Equal tables have equal statistics, though their float sums may be added up in different orders.
    difference = a - b if sign else np.where(np.isnan(a), np.nan, 0.0)
    found = intervals(
        difference, replicates, settings=settings, varies=units.varies, leave_one_out=leave_one_out
    )
    if sign == 0:
        found = _symmetric(found)
    scalar = first.is_scalar
    fields = result_fields(units, difference, replicates, found, settings=settings, scalar=scalar)
    result = PairedResult(
        **fields,
        estimate_a=unwrap(a, scalar),
        estimate_b=unwrap(b, scalar),
        p_value=unwrap(p_values(replicates, found), scalar),
    )
    return result, found


def _symmetric(found: Intervals) -> Intervals:
    """Make the interval of systems that mirror each other as symmetric as its distribution is."""
    half = (found.high - found.low) / 2
    return Intervals(
        0.0 - half, half, found.standard_error, found.n_undefined, found.degenerate, found.reasons
    )
