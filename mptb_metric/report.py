"""Flat entries of a result: rates and latency percentiles with their intervals, as plain Python numbers.

An entry ``recall`` comes with ``recall_low`` and ``recall_high`` where intervals were asked for; the
difference of two systems is ``recall_difference``, with ``recall_difference_low``, ``_high`` and
``recall_p_value``. Whatever an interval leaves out, or why it is missing, is said in ``notes``; a figure
that is itself NaN needs no note.
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
from .paired import PairedResult, paired_percentiles, paired_sums
from .percentiles import LatencyUnits, percentiles_of, resample_percentiles
from .sums import Ratio, UnitCounts

LATENCY_PERCENTILES = (10, 50, 90)

# Notes that a warning spells out before it only counts the rest.
_MAX_WARNED = 5

Strata = Sequence[object] | None


class Report:
    """Computes entries with the same settings and collects the notes on them."""

    def __init__(self, settings: Settings | None) -> None:
        """Set up.

        Args:
            settings: how intervals are made; None for none.
        """
        self._settings = settings
        self._notes: list[str] = []

    def rates(
        self,
        counts: NDArray[np.int64],
        ratios: Mapping[str, Ratio],
        *,
        strata: Strata = None,
        where: str = "",
    ) -> dict[str, float]:
        """Return pooled rates of count vectors, with their intervals.

        Args:
            counts: one row per unit, int64 [n_units, k].
            ratios: the rates by name.
            strata: a label per unit, as in ``bootstrap``.
            where: what notes call these units (a group, say).
        """
        if self._settings is None:
            return {name: float(ratio(counts.sum(axis=0))) for name, ratio in ratios.items()}
        entries: dict[str, float] = {}
        for name, ratio in ratios.items():
            # One by one: an interval does not depend on what else is in the table, and each is cheap.
            result, _ = bootstrap_sums(counts, ratio, settings=self._settings, strata=strata)
            entries |= self._with_intervals([name], result, where)
        return entries

    def latencies(
        self, name: str, latencies_s: LatencyUnits, *, strata: Strata = None, where: str = ""
    ) -> dict[str, float]:
        """Return ``{name}_p10_s``, ``_p50_s`` and ``_p90_s`` over all latencies, with their intervals.

        Args:
            name: what the latencies are called.
            latencies_s: per unit its latencies in seconds.
            strata: a label per unit, as in ``bootstrap``.
            where: what notes call these units.
        """
        names = _percentile_names(name)
        if self._settings is None:
            return dict(zip(names, percentiles_of(latencies_s, LATENCY_PERCENTILES), strict=True))
        result, _ = resample_percentiles(
            latencies_s, LATENCY_PERCENTILES, settings=self._settings, strata=strata
        )
        return self._with_intervals(names, result, where)

    def figures(
        self, system: UnitCounts, ratios: Mapping[str, Ratio], *, strata: Strata = None, where: str = ""
    ) -> dict[str, float]:
        """Return the rates and latency percentiles of one system."""
        entries = self.rates(system.counts, ratios, strata=strata, where=where)
        for name, latencies_s in system.latencies_s.items():
            entries |= self.latencies(name, latencies_s, strata=strata, where=where)
        return entries

    def differences(
        self,
        a: UnitCounts,
        b: UnitCounts,
        ratios: Mapping[str, Ratio],
        *,
        strata: Strata = None,
        where: str = "",
    ) -> dict[str, float]:
        """Return the differences ``a - b`` of two systems on the same units, in the same order.

        Without intervals only the differences themselves.
        """
        if self._settings is None:
            first, second = self.figures(a, ratios), self.figures(b, ratios)
            return {f"{name}_difference": first[name] - second[name] for name in first}
        entries: dict[str, float] = {}
        for name, ratio in ratios.items():
            result, _ = paired_sums(a.counts, b.counts, ratio, settings=self._settings, strata=strata)
            entries |= self._with_p_values([name], result, where)
        for name in a.latencies_s:
            result, _ = paired_percentiles(
                a.latencies_s[name],
                b.latencies_s[name],
                LATENCY_PERCENTILES,
                settings=self._settings,
                strata=strata,
            )
            entries |= self._with_p_values(_percentile_names(name), result, where)
        return entries

    def finish(self, *, stacklevel: int) -> dict[str, Any]:
        """Return the entries that describe the intervals, and warn about the notes.

        Args:
            stacklevel: as in ``warnings.warn``, counted from the caller.
        """
        if self._settings is None:
            return {}
        if self._notes:
            more = len(self._notes) - _MAX_WARNED
            text = "; ".join(self._notes[:_MAX_WARNED]) + (f"; and {more} more notes" if more > 0 else "")
            warnings.warn(text, BootstrapWarning, stacklevel=stacklevel + 1)
        return {
            "n_resamples": int(self._settings.n_resamples),
            "confidence_level": float(self._settings.confidence_level),
            "notes": list(self._notes),
        }

    def _with_intervals(self, names: Sequence[str], result: BootstrapResult, where: str) -> dict[str, float]:
        columns = [result.estimate, result.low, result.high, result.n_undefined]
        estimates, lows, highs, n_undefined = (np.atleast_1d(column).tolist() for column in columns)
        reasons = result.reason if isinstance(result.reason, tuple) else (result.reason,)
        entries = {}
        for index, name in enumerate(names):
            entries[name] = float(estimates[index])
            entries[f"{name}_low"] = float(lows[index])
            entries[f"{name}_high"] = float(highs[index])
            if not math.isnan(entries[name]):
                self._note(f"{where}{name}", n_undefined[index], reasons[index])
        return entries

    def _with_p_values(self, names: Sequence[str], result: PairedResult, where: str) -> dict[str, float]:
        entries = self._with_intervals([f"{name}_difference" for name in names], result, where)
        for name, p_value in zip(names, np.atleast_1d(result.p_value).tolist(), strict=True):
            entries[f"{name}_p_value"] = p_value
        return entries

    def _note(self, name: str, n_undefined: int, reason: str | None) -> None:
        if reason is not None:
            self._notes.append(f"{name}: no interval: {reason}")
        elif n_undefined:
            self._notes.append(f"{name}: {n_undefined} undefined replicates were left out")


def interval_settings(
    *, n_resamples: int, confidence_level: float, seed: int, method: str
) -> Settings | None:
    """Check the options of intervals; ``n_resamples`` 0 asks for none."""
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


def _percentile_names(name: str) -> list[str]:
    return [f"{name}_p{percentile}_s" for percentile in LATENCY_PERCENTILES]
