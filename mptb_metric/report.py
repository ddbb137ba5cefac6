"""Flat entries of a result: rates and latency percentiles with their intervals, as plain Python numbers.

An entry ``recall`` comes with ``recall_low`` and ``recall_high`` where intervals were asked for. Whatever an
interval leaves out, or why it is missing, is said in ``notes``; a rate that is itself NaN needs no note.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .bootstrap import BootstrapResult, bootstrap_sums
from .intervals import BootstrapWarning, Settings
from .percentiles import LatencyUnits, percentiles_of, resample_percentiles
from .sums import Rates, Ratio

LATENCY_PERCENTILES = (10, 50, 90)

# Notes that a warning spells out before it only counts the rest.
_MAX_WARNED = 5


class Report:
    """Computes entries with the same settings and collects the notes on them."""

    def __init__(self, settings: Settings | None) -> None:
        """Set up.

        Args:
            settings: how intervals are made; None for none.
        """
        self._settings = settings
        self.notes: list[str] = []

    def rates(
        self, counts: NDArray[np.int64], ratios: Mapping[str, Ratio], *, where: str = ""
    ) -> dict[str, float]:
        """Return pooled rates of count vectors, int64 [n_units, k], with their intervals.

        Args:
            counts: one row per unit.
            ratios: the rates by name.
            where: what notes call these units (a group, say).
        """
        statistic = Rates(tuple(ratios.values()))
        estimates = statistic(counts.sum(axis=0))
        entries = dict(zip(ratios, estimates.tolist(), strict=True))
        if self._settings is None:
            return entries
        result, _ = bootstrap_sums(counts, statistic, settings=self._settings)
        return self._with_intervals(list(ratios), result, where)

    def latencies(self, latencies_s: LatencyUnits, *, where: str = "") -> dict[str, float]:
        """Return ``latency_p10_s``, ``_p50_s`` and ``_p90_s`` over all latencies, with their intervals.

        Args:
            latencies_s: per unit its latencies in seconds.
            where: what notes call these units.
        """
        names = [f"latency_p{percentile}_s" for percentile in LATENCY_PERCENTILES]
        if self._settings is None:
            return dict(zip(names, percentiles_of(latencies_s, LATENCY_PERCENTILES), strict=True))
        result, _ = resample_percentiles(latencies_s, LATENCY_PERCENTILES, settings=self._settings)
        return self._with_intervals(names, result, where)

    def finish(self, *, stacklevel: int) -> dict[str, Any]:
        """Return the entries that describe the intervals, and warn about the notes.

        Args:
            stacklevel: as in ``warnings.warn``, counted from the caller.
        """
        if self._settings is None:
            return {}
        if self.notes:
            more = len(self.notes) - _MAX_WARNED
            text = "; ".join(self.notes[:_MAX_WARNED]) + (f"; and {more} more notes" if more > 0 else "")
            warnings.warn(text, BootstrapWarning, stacklevel=stacklevel + 1)
        return {
            "n_resamples": int(self._settings.n_resamples),
            "confidence_level": float(self._settings.confidence_level),
            "notes": self.notes,
        }

    def _with_intervals(self, names: Sequence[str], result: BootstrapResult, where: str) -> dict[str, float]:
        entries = {}
        for index, name in enumerate(names):
            estimate = float(result.estimate[index])
            entries[name] = estimate
            entries[f"{name}_low"] = float(result.low[index])
            entries[f"{name}_high"] = float(result.high[index])
            self.note(f"{where}{name}", estimate, int(result.n_undefined[index]), result.reason[index])
        return entries

    def note(self, name: str, estimate: float, n_undefined: int, reason: str | None) -> None:
        """Note what an interval leaves out, or why there is none although there is an estimate."""
        if math.isnan(estimate):
            return
        if reason is not None:
            self.notes.append(f"{name}: no interval: {reason}")
        elif n_undefined:
            self.notes.append(f"{name}: {n_undefined} undefined replicates were left out")


def interval_settings(
    *, n_resamples: int, confidence_level: float, seed: int, method: str
) -> Settings | None:
    """Check the options of an interval; ``n_resamples`` 0 asks for none."""
    if n_resamples == 0 and not isinstance(n_resamples, bool):
        return None
    return Settings(n_resamples, confidence_level, method, seed)


def sum_by_unit(counts: NDArray[np.int64], units: NDArray[np.intp]) -> NDArray[np.int64]:
    """Add up rows of counts, int64 [n, k], by unit; only units that occur get a row, int64 [n_units, k].

    Args:
        counts: one row per observation.
        units: number of each observation's unit, int [n].
    """
    present, code = np.unique(units, return_inverse=True)
    sums = np.zeros((len(present), counts.shape[1]), dtype=np.int64)
    np.add.at(sums, code, counts)
    return sums
