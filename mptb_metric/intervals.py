"""From bootstrap replicates to an interval, with a defined answer for every degenerate case.

- A replicate whose statistic is not finite (0/0: no positives were drawn) is left out and counted.
- Where more than half of the replicates are undefined, or the statistic of the sample itself is, or there
  is one unit only, there is no interval: both ends are NaN and ``reason`` says why. One unit tells nothing
  about the spread between units, so it gets no interval rather than one of width 0.
- Where all replicates are equal the interval is that point, ``degenerate``, for every method.

Every quantile is taken from the nearer end (the upper one as minus a lower quantile of the negated
replicates), so negating a statistic negates its interval to the last bit.

References:
    B. Efron, Better Bootstrap Confidence Intervals, JASA 82 (1987): the accelerated interval, ``bca``.
    A. C. Davison and D. V. Hinkley, Bootstrap Methods and their Application (1997), section 5.3: percentile,
    basic and accelerated intervals, the last for several samples (our strata) too.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

METHODS = ("percentile", "basic", "bca")

# Beyond this share of undefined replicates the defined ones no longer stand for the sampling distribution.
MAX_UNDEFINED_SHARE = 0.5


class BootstrapWarning(UserWarning):
    """Some replicates were undefined, or an interval is."""


@dataclass(frozen=True)
class Intervals:
    """Intervals of ``m`` statistics; every array has shape [m].

    Attributes:
        low: lower ends, NaN where undefined.
        high: upper ends, NaN where undefined.
        standard_error: standard deviation over the defined replicates (ddof 1), NaN where ``low`` is.
        n_undefined: replicates left out.
        degenerate: whether all defined replicates are equal, so that the interval is a point.
        reasons: why an interval is undefined, or None.
    """

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    standard_error: NDArray[np.float64]
    n_undefined: NDArray[np.int64]
    degenerate: NDArray[np.bool_]
    reasons: tuple[str | None, ...]


@dataclass(frozen=True)
class Settings:
    """How replicates are drawn and turned into an interval; checked on creation.

    Attributes:
        n_resamples: replicates, >= 2.
        confidence_level: strictly between 0 and 1.
        method: one of ``METHODS``.
        seed: of the random streams, >= 0.
    """

    n_resamples: int = 9999
    confidence_level: float = 0.95
    method: str = "percentile"
    seed: int = 0

    def __post_init__(self) -> None:
        for name, lowest in (("n_resamples", 2), ("seed", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < lowest:
                raise ValueError(f"{name}: expected an integer >= {lowest}, got {value!r}")
        level = self.confidence_level
        if not isinstance(level, (int, float, np.floating)) or not 0 < level < 1:
            raise ValueError(
                f"confidence_level: expected a number between 0 and 1 (0.95, say), got {level!r}"
            )
        if self.method not in METHODS:
            raise ValueError(f"method: expected one of {', '.join(METHODS)}, got {self.method!r}")


@dataclass(frozen=True)
class LeaveOneOut:
    """Statistics of the sample without one unit, for the units of one stratum.

    Attributes:
        values: float64 [n_distinct, m], one row per distinct unit of the stratum.
        multiplicity: units that share each row, int64 [n_distinct].
    """

    values: NDArray[np.float64]
    multiplicity: NDArray[np.int64]


def intervals(
    estimates: NDArray[np.float64],
    replicates: NDArray[np.float64],
    *,
    settings: Settings,
    varies: bool,
    leave_one_out: list[LeaveOneOut] | None = None,
) -> Intervals:
    """Summarise the replicates of ``m`` statistics.

    Args:
        estimates: the statistics of the sample itself, float64 [m].
        replicates: float64 [n_resamples, m]; what is not finite is undefined.
        settings: confidence level and method.
        varies: whether a draw can differ from the sample (see ``DistinctUnits.varies``).
        leave_one_out: the statistics without one unit, one entry per stratum; needed by ``bca``.
    """
    n_resamples, m = replicates.shape
    defined = np.isfinite(replicates)
    n_undefined = n_resamples - defined.sum(axis=0)
    ends = np.full((3, m), np.nan)
    degenerate = np.zeros(m, dtype=bool)
    reasons = []
    for j in range(m):
        reason = _reason(float(estimates[j]), int(n_undefined[j]), n_resamples, varies)
        reasons.append(reason)
        if reason is not None:
            continue
        values = replicates[:, j] if n_undefined[j] == 0 else replicates[defined[:, j], j]
        degenerate[j] = values.min() == values.max()
        if degenerate[j]:
            ends[:, j] = values[0] + 0.0, values[0] + 0.0, 0.0
            continue
        acceleration = _acceleration(leave_one_out, j) if settings.method == "bca" else 0.0
        ends[:2, j] = _ends(float(estimates[j]), values, settings, acceleration)
        ends[2, j] = values.std(ddof=1)
    return Intervals(ends[0], ends[1], ends[2], n_undefined, degenerate, tuple(reasons))


def p_values(differences: NDArray[np.float64], found: Intervals) -> NDArray[np.float64]:
    """Two-sided p-values of ``m`` differences being 0, from their replicates, float64 [m].

    ``min(1, 2 * min((1 + #{d* <= 0}) / (B + 1), (1 + #{d* >= 0}) / (B + 1)))`` over the ``B`` defined
    replicates; NaN where the interval is undefined.

    Args:
        differences: replicates of the differences, float64 [n_resamples, m].
        found: the intervals of the same differences.
    """
    n_defined = len(differences) - found.n_undefined
    not_above = (differences <= 0).sum(axis=0)
    not_below = (differences >= 0).sum(axis=0)
    p = np.minimum(1.0, 2.0 * (1 + np.minimum(not_above, not_below)) / (n_defined + 1))
    return np.where(np.isnan(found.low), np.nan, p)


def warn_where_undefined(found: Intervals, n_resamples: int, *, stacklevel: int) -> None:
    """Warn once about the replicates that were left out and the intervals that are undefined.

    Args:
        found: the intervals.
        n_resamples: replicates that were drawn.
        stacklevel: as in ``warnings.warn``, counted from the caller.
    """
    notes = sorted({f"no interval: {reason}" for reason in found.reasons if reason is not None})
    if found.n_undefined.any():
        most = int(found.n_undefined.max())
        notes.insert(0, f"{most} of {n_resamples} replicates were undefined and left out")
    if notes:
        warnings.warn("; ".join(notes), BootstrapWarning, stacklevel=stacklevel + 1)


def _reason(estimate: float, n_undefined: int, n_resamples: int, varies: bool) -> str | None:
    if not math.isfinite(estimate):
        return "the statistic is undefined on the sample itself"
    if not varies:
        return "one unit (in every stratum) says nothing about the spread between units"
    if n_undefined > MAX_UNDEFINED_SHARE * n_resamples:
        return (
            f"{n_undefined} of {n_resamples} replicates are undefined, "
            f"more than the share of {MAX_UNDEFINED_SHARE:g} that is allowed"
        )
    return None


def _ends(
    estimate: float, values: NDArray[np.float64], settings: Settings, acceleration: float
) -> tuple[float, float]:
    """Return the interval of one statistic from its defined replicates, which differ."""
    tail = (1.0 - settings.confidence_level) / 2.0
    tails = (tail, tail)
    if settings.method == "bca":
        tails = _bca_tails(estimate, values, tail, acceleration)
    low = float(np.quantile(values, tails[0]))
    high = -float(np.quantile(-values, tails[1]))
    if settings.method == "basic":
        low, high = 2.0 * estimate - high, 2.0 * estimate - low
    # Adding 0 turns -0.0 into 0.0.
    return low + 0.0, high + 0.0


def _bca_tails(
    estimate: float, values: NDArray[np.float64], tail: float, acceleration: float
) -> tuple[float, float]:
    """Return the shares of replicates below the lower and above the upper end of the accelerated interval.

    Replicates equal to the estimate count half as below it: rates of few rows have many such ties. An
    estimate outside all replicates counts as if half a replicate lay beyond it.
    """
    from statistics import NormalDist  # takes longer to import than all of this package

    normal = NormalDist()
    n = len(values)
    ties = 0.5 * float((values == estimate).sum())
    below = float((values < estimate).sum()) + ties
    above = float((values > estimate).sum()) + ties
    nearer = max(0.5, min(below, above)) / n
    bias = normal.inv_cdf(nearer)
    if above < below:
        bias = -bias
    z = normal.inv_cdf(tail)

    def shift(quantile: float) -> float:
        moved = bias + quantile
        stretch = 1.0 - acceleration * moved
        return bias + moved / stretch if stretch > 0 else math.copysign(math.inf, moved)

    return normal.cdf(shift(z)), normal.cdf(-shift(-z))


def _acceleration(leave_one_out: list[LeaveOneOut] | None, j: int) -> float:
    """Return the acceleration of one statistic; 0 where leaving out a unit changes nothing.

    Units without which the statistic is undefined are left out, as undefined replicates are.
    """
    cubes = squares = 0.0
    for stratum in leave_one_out or []:
        defined = np.isfinite(stratum.values[:, j])
        values, weights = stratum.values[defined, j], stratum.multiplicity[defined]
        n = int(weights.sum())
        if n < 2:
            continue
        influence = (n - 1) * (np.average(values, weights=weights) - values)
        # Products, as a vectorised power of -x may miss minus that of x in the last bit.
        weighted = weights * influence * influence
        cubes += float((weighted * influence).sum()) / n**3
        squares += float(weighted.sum()) / n**2
    return cubes / (6.0 * squares**1.5) if squares > 0 else 0.0
