"""The result of a sweep: counts at every threshold, and the rules that choose among them.

All thresholds share the same gold, so a higher recall is a larger `tp` and a lower FPR a smaller `fp`: rates
are compared as whole numbers, and 3 of 30 is within a budget of 0.10. Medians are compared in half
microseconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from numbers import Real
from typing import Any

import numpy as np

NO_LATENCY = np.iinfo(np.int64).max  # sorts after every median


@dataclass(frozen=True, eq=False)
class Sweep:
    """Counts and latencies of one track at every threshold, pooled over channels; one element per threshold.

    Attributes:
        theta (float64): thresholds, ascending and distinct.
        tp, fn, fp, tn (int64): as in `Counts`.
        latency_p10_s, latency_p50_s, latency_p90_s (float64): seconds; nan where nothing was found.
        median_half_us (int64): the median latency in whole half microseconds, for exact comparison.
        exact: whether the thresholds are all that matter, or a given grid.
    """

    theta: np.ndarray
    tp: np.ndarray
    fn: np.ndarray
    fp: np.ndarray
    tn: np.ndarray
    latency_p10_s: np.ndarray
    latency_p50_s: np.ndarray
    latency_p90_s: np.ndarray
    median_half_us: np.ndarray
    exact: bool

    def __len__(self) -> int:
        return len(self.theta)

    @property
    def recall(self) -> np.ndarray:
        """`tp / (tp + fn)` (float64); nan where there is no positive."""
        return _ratio(self.tp, self.tp + self.fn)

    @property
    def fpr(self) -> np.ndarray:
        """`fp / (fp + tn)` (float64); nan where there is no negative span."""
        return _ratio(self.fp, self.fp + self.tn)

    def operating_point(self, budget: float = 0.10) -> dict[str, Any] | None:
        """Choose the threshold with the highest recall among those with `fpr <= budget`.

        Ties go to the lower FPR, then the lower median latency, then the higher threshold.

        Args:
            budget (float, 0 to 1): the highest FPR allowed, read as the decimal number that it prints as.

        Returns:
            `theta`, `recall`, `fpr`, `tp`, `fn`, `fp`, `tn`, the three latencies in seconds, and `at_edge`:
            whether it is the lowest or the highest threshold swept. None where no threshold is
            within the budget, or recall or FPR is undefined: a track without negatives cannot qualify.

        Raises:
            ValueError: a budget that is no share.
        """
        if not isinstance(budget, Real) or not 0 <= budget <= 1:
            raise ValueError(f"budget: expected a share from 0 to 1, got {budget!r}")
        if not self._has_rates():
            return None
        allowed = math.floor(_decimal(budget) * int(self.fp[0] + self.tn[0]))
        within = np.flatnonzero(self.fp <= allowed)
        return self._best(within, -self.tp, self.fp, self.median_half_us)

    def lowest_fpr(self, latency_budget_s: float) -> dict[str, Any] | None:
        """Choose the threshold with the lowest FPR among those with a median latency within a budget.

        Ties go to the higher recall, then the lower median latency, then the higher threshold.

        Args:
            latency_budget_s (float, s): the highest median latency allowed.

        Returns:
            As `operating_point`; None where no threshold is within the budget, never the nearest.

        Raises:
            ValueError: a budget that is not a finite number.
        """
        if not isinstance(latency_budget_s, Real) or not math.isfinite(latency_budget_s):
            raise ValueError(f"latency_budget_s: expected seconds, got {latency_budget_s!r}")
        if not self._has_rates():
            return None
        allowed = math.floor(_decimal(latency_budget_s) * 2_000_000)
        within = np.flatnonzero(self.median_half_us <= allowed)
        return self._best(within, self.fp, -self.tp, self.median_half_us)

    def pareto(self) -> dict[str, np.ndarray]:
        """Find the settings that no other one beats: lower FPR, higher recall, lower median latency.

        Of thresholds with the same three figures the highest is kept. Thresholds where one of the figures is
        undefined are no settings.

        Returns:
            Arrays `theta`, `fpr`, `recall`, `latency_p50_s` in ascending FPR, then descending recall.
        """
        points = np.flatnonzero(self.tp > 0) if self._has_rates() else np.empty(0, np.int64)
        order = points[np.lexsort((-points, self.median_half_us[points], -self.tp[points], self.fp[points]))]
        fastest = np.full(int(self.tp.max(initial=0)) + 1, NO_LATENCY)  # by recall, at an FPR up to here
        front = []
        for i in order.tolist():
            tp, median = int(self.tp[i]), int(self.median_half_us[i])
            if median < fastest[tp]:
                front.append(i)
                np.minimum(fastest[: tp + 1], median, out=fastest[: tp + 1])
        return {name: getattr(self, name)[front] for name in ("theta", "fpr", "recall", "latency_p50_s")}

    def _has_rates(self) -> bool:
        return len(self) > 0 and self.tp[0] + self.fn[0] > 0 and self.fp[0] + self.tn[0] > 0

    def _best(self, candidates: np.ndarray, *keys: np.ndarray) -> dict[str, Any] | None:
        """Take the candidate with the least keys, the first key first; the highest threshold among equals."""
        if not len(candidates):
            return None
        for key in keys:
            values = key[candidates]
            candidates = candidates[values == values.min()]
        i = int(candidates[-1])
        names = ("theta", "recall", "fpr", "tp", "fn", "fp", "tn", *(f"latency_p{q}_s" for q in (10, 50, 90)))
        point = {name: getattr(self, name)[i].item() for name in names}
        return {**point, "at_edge": i in (0, len(self) - 1)}


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    return np.divide(part, whole, out=np.full(len(part), np.nan), where=whole > 0)


def _decimal(number: float) -> Fraction:
    return number if isinstance(number, Fraction) else Fraction(str(float(number)))
