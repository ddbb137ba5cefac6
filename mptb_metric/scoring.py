"""Scoring a split: rows of predictions and of gold to one flat dict of pooled figures.

Rows are joined by their ids, each channel is matched once, and everything else (rates, groups, intervals) is
arithmetic on the counts. Intervals resample conversations.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .decisions import REFRACTORY_S
from .frozen import Frozen, decide_rows, read_frozen
from .matching import EARLY_US, LATE_US, Match, check_protocol, match, spans_us, times_us
from .predictions import TRACKS, Faults, channel_durations, checked_rows, is_number, read_rows
from .report import Report, interval_settings
from .sums import Ratio, UnitCounts
from .tables import columns_of, group_rows

GOLD = ("positives", "negative_spans", "excluded_spans")
COUNTS = ("tp", "fn", "fp", "tn")
RATES = {"recall": Ratio((0,), (0, 1)), "fpr": Ratio((2,), (2, 3))}
DEV_BUDGET = 0.10  # MPTB card, section 5: the FPR that a system may have on dev
TEST_BUDGET = 0.15  # and on test


def score_floor(
    predictions: Any,
    references: Any,
    *,
    protocol: str = "mptb",
    by: str | Sequence[str] | None = None,
    budget: float = TEST_BUDGET,
    thresholds: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    n_resamples: int = 0,
    confidence_level: float = 0.95,
    method: str = "percentile",
    seed: int = 0,
    strata: str | None = None,
) -> dict[str, Any]:
    """Score decisions on the floor-control tracks `eot` and `int` against the gold of the same channels.

    Args:
        predictions: a row {conversation_id, speaker, eot, int} per channel, decision times in seconds,
            strictly increasing; with `thresholds` a row of scores, see `decide_rows`. Any table: a list of
            dicts, a Dataset, pandas, Arrow.
        references: the same channels' rows of the `channels` table: conversation_id, speaker, `eot` and
            `int` as {positives, negative_spans, excluded_spans}, and where present duration_s, which bounds
            the times. Other columns, audio too, are not read. Joined by the ids, not by position.
        protocol: "mptb" or "turnbench".
        by: columns of the references to break down by, such as `num_speakers`.
        budget: the FPR up to which a track is within budget: 0.15, the limit for test; give 0.10 for dev.
        thresholds: what `read_frozen` takes: the scores in `predictions` are decided at these thresholds.
        n_resamples: replicates for intervals over conversations; 0 for none.
        confidence_level: nominal coverage of the intervals.
        method: "percentile", "basic" or "bca".
        seed: of the random draws.
        strata: a column of the references: conversations are drawn within its values, as many as it has.

    Returns:
        A flat dict of plain numbers, see the metric card: `{track}_{measure}` for `tp`, `fn`, `fp`, `tn`,
        `recall`, `fpr`, `latency_p10_s`, `latency_p50_s`, `latency_p90_s`, each of the last five with
        `_low` and `_high` if there are intervals; `{track}_within_budget`; the numbers of conversations and
        channels; the protocol and constants used; and `by`, where asked for, nested: column, then the
        group's value as text, then such a dict. An undefined figure is nan, and never within budget.

    Raises:
        SubmissionError: predictions with faults: missing, unknown or repeated channels, bad times; all told.
        ValueError: bad references, scores, thresholds or options.
    """
    check_protocol(protocol)
    settings = interval_settings(
        n_resamples=n_resamples, confidence_level=confidence_level, seed=seed, method=method
    )
    if not is_number(budget) or not 0 <= budget <= 1:
        raise ValueError(f"budget: expected a share from 0 to 1, got {budget!r}")
    frozen = None if thresholds is None else read_frozen(thresholds)
    if frozen and frozen.protocol not in (None, protocol):
        raise ValueError(f"thresholds were chosen by protocol {frozen.protocol!r}, not {protocol!r}")
    columns = columns_of(by)
    gold, durations_s = _gold(references, [*columns, *([strata] if strata else [])])
    scored = _matched(_prediction_rows(predictions, durations_s, frozen), gold, protocol)

    report = Report(settings)
    summary = _Summary(scored, gold, _strata(gold, strata), budget, frozen, report)
    result: dict[str, Any] = {
        "protocol": protocol,
        "early_s": EARLY_US / 1e6,
        "late_s": LATE_US / 1e6,
        "budget": float(budget),
        **summary.entries(range(len(gold))),
    }
    if frozen:
        result["refractory_s"] = REFRACTORY_S
        for track, theta in frozen.theta.items():
            result[f"{track}_theta"] = float("nan") if theta is None else theta
    if columns:
        result["by"] = {}
    for column in columns:
        groups = group_rows([row[column] for row in gold], name="references", column=column)
        result["by"][column] = {
            label: summary.entries(rows.tolist(), f"{column} {label}: ") for label, rows in groups.items()
        }
    if settings:
        result |= {"method": method, "seed": int(seed)}
    return result | report.finish(stacklevel=2)


def checked_gold(gold: Any, where: str) -> dict[str, Any]:
    """Check one channel and track's gold, naming what is wrong.

    Returns:
        `positives`, a list of floats, `negative_spans` and `excluded_spans`, lists of {start, end}, seconds.
    """
    if not isinstance(gold, Mapping):
        raise ValueError(f"{where}: expected {', '.join(GOLD)}, got {gold!r:.80}")
    checked: dict[str, Any] = {}
    for key in GOLD:
        if key not in gold:
            raise ValueError(f"{where}: has no {key!r}")
    positives = times_us(gold["positives"], f"{where}: positives")
    checked["positives"] = [t / 1e6 for t in positives]
    for key in GOLD[1:]:
        earliest_s = -EARLY_US / 1e6 if key == "excluded_spans" else 0.0
        spans = spans_us(gold[key], f"{where}: {key}", earliest_s=earliest_s)
        checked[key] = [{"start": start / 1e6, "end": end / 1e6} for start, end in spans]
    return checked


def floor_counts(
    predictions: Any,
    references: Any,
    *,
    protocol: str = "mptb",
    thresholds: str | os.PathLike[str] | Mapping[str, Any] | None = None,
) -> dict[str, UnitCounts]:
    """Return one system's counts per conversation and track, for comparisons with `RATES`.

    Args:
        predictions: as in `score_floor`.
        references: as in `score_floor`.
        protocol: "mptb" or "turnbench".
        thresholds: as in `score_floor`.

    Returns:
        By track: columns TP, FN, FP, TN, and the latencies under `latency`; the units are conversations.
    """
    check_protocol(protocol)
    frozen = None if thresholds is None else read_frozen(thresholds)
    gold, durations_s = _gold(references, ())
    scored = _matched(_prediction_rows(predictions, durations_s, frozen), gold, protocol)
    ids = [row["conversation_id"] for row in gold]
    return {track: _by_conversation(ids, matches) for track, matches in scored.items()}


def _by_conversation(ids: Sequence[str], matches: Sequence[Match]) -> UnitCounts:
    """Sum up channels, given with their conversations' ids."""
    number = {conversation: i for i, conversation in enumerate(dict.fromkeys(ids))}
    counts = np.zeros((len(number), len(COUNTS)), np.int64)
    latencies_s: list[list[float]] = [[] for _ in number]
    for conversation, found in zip(ids, matches, strict=True):
        unit = number[conversation]
        counts[unit] += [getattr(found, name) for name in COUNTS]
        latencies_s[unit].extend(found.latencies_s)
    return UnitCounts(tuple(number), counts, {"latency": latencies_s})


@dataclass(frozen=True)
class _Summary:
    """Sums up channels, all or a group of them, into entries of the result."""

    scored: Mapping[str, Sequence[Match]]
    gold: Sequence[Mapping[str, Any]]
    strata: Mapping[str, Any] | None
    budget: float
    frozen: Frozen | None
    report: Report

    def entries(self, rows: Sequence[int], where: str = "") -> dict[str, Any]:
        """Give the entries of the channels in these rows."""
        ids = [self.gold[i]["conversation_id"] for i in rows]
        entries: dict[str, Any] = {"n_conversations": len(set(ids)), "n_channels": len(ids)}
        for track, matches in self.scored.items():
            system = _by_conversation(ids, [matches[i] for i in rows])
            strata = None if self.strata is None else [self.strata[unit] for unit in system.units]
            figures: dict[str, Any] = dict(zip(COUNTS, system.counts.sum(axis=0).tolist(), strict=True))
            figures |= self.report.figures(system, RATES, strata=strata, where=f"{where}{track}_")
            figures["within_budget"] = self._within_budget(track, figures["fpr"])
            entries |= {f"{track}_{name}": value for name, value in figures.items()}
        return entries

    def _within_budget(self, track: str, fpr: float) -> bool:
        """Compare with the budget, and with dev's own where thresholds say how dev went."""
        if self.frozen is not None:
            failed_on_dev = self.frozen.dev_fpr.get(track, 0.0) > DEV_BUDGET
            if self.frozen.theta[track] is None or failed_on_dev:
                return False
        return fpr <= self.budget  # nan compares false


def _strata(gold: Sequence[Mapping[str, Any]], column: str | None) -> dict[str, Any] | None:
    """Give each conversation its stratum."""
    if column is None:
        return None
    strata: dict[str, Any] = {}
    for row in gold:
        conversation, label = row["conversation_id"], row[column]
        if strata.setdefault(conversation, label) != label:
            raise ValueError(f"references: {conversation} has two values of {column}, the stratum")
    return strata


def _gold(
    references: Any, columns: Sequence[str]
) -> tuple[list[dict[str, Any]], dict[tuple[str, str], float | None]]:
    required = ("conversation_id", "speaker", *TRACKS, *columns)
    rows = read_rows(references, required, optional=("duration_s",), name="references")
    durations_s = channel_durations(rows, name="references")
    return rows, durations_s


def _prediction_rows(
    predictions: Any, durations_s: Mapping[tuple[str, str], float | None], frozen: Frozen | None
) -> list[dict[str, Any]]:
    """Check the predictions, or decide them from scores, in the order of the references."""
    if frozen:
        rows = decide_rows(predictions, frozen)
    else:
        rows = read_rows(predictions, ("conversation_id", "speaker", *TRACKS), name="predictions")
    faults = Faults()
    checked = checked_rows(rows, durations_s, faults)
    faults.raise_any("predictions")
    return checked


def _matched(
    rows: Sequence[Mapping[str, Any]], gold: Sequence[Mapping[str, Any]], protocol: str
) -> dict[str, list[Match]]:
    """Match every channel once per track; both sequences are in the same order."""
    scored: dict[str, list[Match]] = {track: [] for track in TRACKS}
    for row, reference in zip(rows, gold, strict=True):
        for track, matches in scored.items():
            where = f"references: {row['conversation_id']} {row['speaker']} {track}"
            if not isinstance(reference[track], Mapping) or not set(GOLD) <= set(reference[track]):
                raise ValueError(f"{where}: expected {', '.join(GOLD)}, got {reference[track]!r:.80}")
            positives, negatives, excluded = (reference[track][key] for key in GOLD)
            try:
                matches.append(match(positives, negatives, excluded, row[track], protocol=protocol))
            except ValueError as error:
                raise ValueError(f"{where}: {error}") from error
    return scored
