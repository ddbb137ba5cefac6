"""Intervals of statistics of sums over units: the bootstrap of pooled rates.

A unit is what was sampled independently: a conversation, a turn. Never a row: the rows of one unit share a
speaker, a voice and most of their words, so resampling rows gives intervals that are far too narrow.

One replicate draws as many units as there are, with replacement, and recomputes the statistic from the drawn
units' summed counts. ``resampling`` says how that is drawn, ``intervals`` what the degenerate cases give.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .intervals import Intervals, LeaveOneOut, Settings, intervals, warn_where_undefined
from .resampling import DistinctUnits, distinct_units, resample
from .sums import Statistic, Sums, read_counts


@dataclass(frozen=True)
class BootstrapResult:
    """Estimates with their intervals.

    For a statistic that gives one number the fields are plain numbers; for one that gives ``m`` at once they
    are arrays of shape [m] (``reason``: a tuple of that length).

    Attributes:
        estimate: the statistic of the sample itself.
        low: lower end of the interval, NaN where there is none.
        high: upper end of the interval, NaN where there is none.
        standard_error: standard deviation over the defined replicates, NaN where there is no interval.
        n_undefined: replicates that were left out because the statistic was not finite.
        degenerate: whether all replicates are equal, so that the interval is a point.
        reason: why there is no interval, or None.
        distribution: the defined replicates, float64 [n_resamples - n_undefined]; for ``m`` statistics
            float64 [n_resamples, m], NaN where undefined.
        n_units: units that were resampled.
        n_resamples: replicates that were drawn.
        confidence_level: nominal coverage of the interval.
        method: ``percentile``, ``basic`` or ``bca``.
    """

    estimate: Any
    low: Any
    high: Any
    standard_error: Any
    n_undefined: Any
    degenerate: Any
    reason: Any
    distribution: NDArray[np.float64]
    n_units: int
    n_resamples: int
    confidence_level: float
    method: str


class Measure(Protocol):
    """Something computed from how often each distinct unit was drawn; ``m`` numbers per replicate."""

    is_scalar: bool

    def reduce(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Map weights, float64 [n, n_distinct], to a few numbers each; called from several threads."""

    def finish(self, reduced: NDArray[np.float64]) -> NDArray[np.float64]:
        """Map these to the result, float64 [n, m], NaN where undefined; called once."""

    def sample(self) -> NDArray[np.float64]:
        """Return the result for the sample itself, float64 [m]."""

    def without_one(self, part: slice) -> NDArray[np.float64]:
        """Return the results without one unit of each distinct row in ``part``, float64 [n_rows, m]."""


def bootstrap(
    counts: ArrayLike,
    statistic: Statistic,
    *,
    n_resamples: int = 9999,
    confidence_level: float = 0.95,
    method: str = "percentile",
    seed: int = 0,
    strata: Sequence[object] | None = None,
    columns: Sequence[int] | None = None,
) -> BootstrapResult:
    """Give a statistic of summed counts an interval, by resampling units.

    The result depends on the seed and on which count vectors there are, not on their order. Replicates whose
    statistic is not finite are left out and counted, with a warning; where more than half are, or the
    statistic of the sample is undefined, or there is one unit only, both ends are NaN, ``reason`` says why,
    and a warning is given. Where all replicates are equal both ends are that value and ``degenerate`` is set.

    Args:
        counts (array-like, shape (n_units, k)): one row per unit. Integers are counts and must not be
            negative; floats may be any finite sums (of signed latencies, say).
        statistic: maps sums, float64 [..., k], to [...], or to [..., m] for several statistics at once. 0/0
            may give NaN. An attribute ``columns`` (as ``Ratio`` has) stands for the argument of that name.
        n_resamples: replicates, >= 2.
        confidence_level: nominal coverage, strictly between 0 and 1.
        method: ``percentile``, ``basic`` (the percentile interval mirrored at the estimate) or ``bca``
            (bias-corrected and accelerated, by the jackknife over units).
        seed: of the random draws, >= 0. NumPy's global generator is neither read nor changed.
        strata: a label per unit: units are drawn within each label, as many as it has. A stratum of one unit
            adds no spread.
        columns: the columns that the statistic reads; it is given NaN in the others. The fewer, the fewer
            distinct vectors there are, and the faster the draws. Default: all.

    Returns:
        BootstrapResult: estimate, interval and replicates.

    Raises:
        ValueError: no units; a count that is NaN, infinite, negative or not a number; an option out of its
            range; a statistic whose result has another shape.

    Examples:
        >>> from mptb_metric.sums import Ratio
        >>> found = bootstrap([[3, 1], [4, 0], [2, 2], [4, 0]], Ratio((0,), (0, 1)))
        >>> found.estimate
        0.8125
        >>> found.low, found.high
        (0.625, 1.0)

    References:
        The scoring protocol, section "Resampling": 9,999 replicates, 95 % percentile interval, seed 0.
    """
    settings = Settings(n_resamples, confidence_level, method, seed)
    result, found = bootstrap_sums(counts, statistic, settings=settings, strata=strata, columns=columns)
    warn_where_undefined(found, n_resamples, stacklevel=2)
    return result


def bootstrap_sums(
    counts: ArrayLike,
    statistic: Statistic,
    *,
    settings: Settings,
    strata: Sequence[object] | None = None,
    columns: Sequence[int] | None = None,
) -> tuple[BootstrapResult, Intervals]:
    """Do the work of ``bootstrap`` without its warnings, for tables that report the reasons themselves."""
    matrix, statistic, read = read_counts(counts, statistic, columns)
    units = distinct_units(matrix[:, read], strata)
    measure = Sums(units, statistic, n_columns=matrix.shape[1], columns=read)
    return summarise(units, measure, settings)


def summarise(
    units: DistinctUnits, measure: Measure, settings: Settings
) -> tuple[BootstrapResult, Intervals]:
    """Draw the replicates of a measure and wrap them up.

    Args:
        units: what is drawn.
        measure: what is computed from the drawn units.
        settings: how to draw, and the interval.
    """
    estimates = measure.sample()
    reduced = resample(units, measure.reduce, n_resamples=settings.n_resamples, seed=settings.seed)
    replicates = measure.finish(reduced)
    leave_one_out = None
    if settings.method == "bca":
        leave_one_out = [
            LeaveOneOut(measure.without_one(part), units.multiplicity[part]) for part in units.strata
        ]
    found = intervals(
        estimates, replicates, settings=settings, varies=units.varies, leave_one_out=leave_one_out
    )
    fields = result_fields(units, estimates, replicates, found, settings=settings, scalar=measure.is_scalar)
    return BootstrapResult(**fields), found


def result_fields(
    units: DistinctUnits,
    estimates: NDArray[np.float64],
    replicates: NDArray[np.float64],
    found: Intervals,
    *,
    settings: Settings,
    scalar: bool,
) -> dict[str, Any]:
    """Return the fields of a ``BootstrapResult``, as plain numbers where the statistic gives one number."""
    return {
        "estimate": unwrap(estimates, scalar),
        "low": unwrap(found.low, scalar),
        "high": unwrap(found.high, scalar),
        "standard_error": unwrap(found.standard_error, scalar),
        "n_undefined": unwrap(found.n_undefined, scalar),
        "degenerate": unwrap(found.degenerate, scalar),
        "reason": found.reasons[0] if scalar else found.reasons,
        "distribution": replicates[np.isfinite(replicates[:, 0]), 0] if scalar else replicates,
        "n_units": units.n_units,
        "n_resamples": settings.n_resamples,
        "confidence_level": settings.confidence_level,
        "method": settings.method,
    }


def unwrap(values: NDArray[Any], scalar: bool) -> Any:
    """Return the only value as a plain Python number where the statistic gives one number."""
    return values[0].item() if scalar else values
