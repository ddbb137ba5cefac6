"""Endpoints: when a system first declared each turn over, against the turn's end.

A fire before the end of the audio has cut the caller off (``cut_early``); at the end or after it, the delay
is the latency; never firing is ``missed``. Times are compared as whole microseconds, and a fire exactly at
the end is not early. Rates are over all turns, latencies over turns that fired and were not early.

Where an early fire fell is told from the ends of the turn's spoken chunks, as their starts are not published.
The fire belongs to the last chunk that had ended by then (an end counts as ended):

- up to ``late_report_s`` after that end it reports the pause there, even if the caller has gone on meanwhile:
  at a *sentence end* if the chunk ends a sentence (the dataset calls that moment finished), else
  *mid-sentence*;
- later than that, or before the first chunk's end, it fell *inside a chunk*;
- after the last chunk the caller has finished, however long the audio runs on: a sentence end.

A chunk ends a sentence if its last character, closing quotes and brackets aside, is ``.``, ``!`` or ``?``; an
ellipsis trails off and does not.

References:
    The scoring protocol, "Endpoints" and "Comparing times"; the dataset card, "endpoints" and ``chunk_cut``.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np

from .endpoint_tables import Chunks, Fires, Turns, is_early, read_arms, read_fires, read_turns
from .report import Report, interval_settings
from .sums import Ratio, UnitCounts
from .tables import columns_of, group_rows

# How long after a chunk's end a fire still reports the pause there. The pauses' lengths are not published;
# commercial endpointers report up to about a second after the silence began.
LATE_REPORT_S = 1.0

PLACES = ("sentence_end", "mid_sentence", "inside_chunk")

# What is counted per turn.
COLUMNS = ("n", "early", "missed", *PLACES, "unclassified")

# Rates over these columns. Those of the places add up to ``cut_early`` where every turn's chunks are given.
RATES = {"cut_early": Ratio((1,), (0,)), "missed": Ratio((2,), (0,))}
PLACE_RATES = {f"cut_early_{place}": Ratio((3 + index,), (0,)) for index, place in enumerate(PLACES)}


def compute_endpoints(
    predictions: Any,
    references: Any,
    *,
    published: Any = None,
    late_report_s: float = LATE_REPORT_S,
    by: str | Sequence[str] | None = None,
    n_resamples: int = 0,
    confidence_level: float = 0.95,
    seed: int = 0,
    method: str = "percentile",
) -> dict[str, Any]:
    """Score the endpoints that one system declared.

    Args:
        predictions: per turn the time of the first fire in seconds, None where it never fired: a sequence
            in the order of the references, or rows {``turn_key``, ``first_endpoint_s``} in any order, one
            per turn.
        references: rows of ``turns`` (``turn_key``, ``audio_duration_s``, and ``chunks`` with
            ``chunk_ends_s`` to tell where early fires fell), or rows of ``endpoints``, of which each turn
            counts once. Audio is not read.
        published: rows of ``endpoints`` (``turn_key``, ``arm``, ``first_endpoint_s``; ``audio_duration_s``
            and ``cut_early`` are checked where given). Every arm must cover exactly the turns of the
            references.
        late_report_s: how long after a chunk's end a fire still reports the pause there, in seconds, >= 0.
        by: columns of the references to break down by (``style``, ``domain``); None for none.
        n_resamples: replicates over turns for the intervals, >= 2; 0 for no intervals.
        confidence_level: nominal coverage of the intervals.
        seed: of the random draws.
        method: ``percentile``, ``basic`` or ``bca``.

    Returns:
        Plain Python values: ``n``, ``n_fired``, ``n_cut_early``, ``n_missed``; the rates ``cut_early`` and
        ``missed`` over all turns; ``latency_p10_s``, ``_p50_s``, ``_p90_s`` over turns that fired and were
        not early. With chunks also ``cut_early_sentence_end``, ``cut_early_mid_sentence`` and
        ``cut_early_inside_chunk``, again rates over all turns, which add up to ``cut_early``, their counts
        ``n_...`` and ``n_cut_early_unclassified``: early fires of turns whose own chunks are not given.
        With intervals ``{figure}_low`` and ``_high``, ``n_resamples``, ``confidence_level`` and ``notes``.
        ``by[column][group]`` holds the same for each group. ``published[arm]`` holds the same for each arm,
        and per figure ``{figure}_difference`` (this system minus the arm, on the same draws of turns), with
        intervals ``{figure}_difference_low``, ``_high`` and ``{figure}_p_value``, not adjusted for the
        number of arms. NaN where nothing is there to average.

    Raises:
        ValueError: turns that are repeated, missing or unknown; a time that is NaN, infinite, negative or
            not a number (named by row and turn); chunks that do not match their ends; ``cut_early`` or
            ``audio_duration_s`` of a published row that contradicts the times.

    Examples:
        >>> turns = {"turn_key": ["a"], "audio_duration_s": [2.0]}
        >>> turns |= {"chunks": [["Yes.", "I do."]], "chunk_ends_s": [[0.5, 1.9]]}
        >>> found = compute_endpoints([0.9], turns)
        >>> found["cut_early"], found["cut_early_sentence_end"]
        (1.0, 1.0)
    """
    settings = interval_settings(
        n_resamples=n_resamples, confidence_level=confidence_level, seed=seed, method=method
    )
    fields = columns_of(by)
    turns = read_turns(references, fields)
    late_us = _late_us(late_report_s)
    system = _count(read_fires(predictions, turns), turns, late_us)
    rates = RATES if turns.chunks is None else RATES | PLACE_RATES
    report = Report(settings)
    result = _entries(system, rates, report)
    if fields:
        result["by"] = {}
    for field in fields:
        groups = group_rows(turns.columns[field], name="references", column=field)
        result["by"][field] = {
            group: _entries(system.subset(rows), rates, report, f"{field} {group}: ")
            for group, rows in groups.items()
        }
    if published is not None:
        result["published"] = {}
        for arm, fires in read_arms(published, turns).items():
            other, where = _count(fires, turns, late_us), f"published {arm}: "
            result["published"][arm] = _entries(other, rates, report, where)
            result["published"][arm] |= report.differences(system, other, rates, where=where)
    return result | report.finish(stacklevel=2)


def endpoint_counts(predictions: Any, references: Any, *, late_report_s: float = LATE_REPORT_S) -> UnitCounts:
    """Return one system's counts and latencies per turn, for ``compare`` with ``RATES`` and ``PLACE_RATES``.

    Args:
        predictions: as in ``compute_endpoints``.
        references: as in ``compute_endpoints``; without chunks the ``PLACE_RATES`` mean nothing.
        late_report_s: as in ``compute_endpoints``.

    Returns:
        UnitCounts: ``COLUMNS`` per turn, and ``latency``.
    """
    turns = read_turns(references, [])
    return _count(read_fires(predictions, turns), turns, _late_us(late_report_s))


def _entries(system: UnitCounts, rates: dict[str, Ratio], report: Report, where: str = "") -> dict[str, Any]:
    totals = dict(zip(COLUMNS, system.counts.sum(axis=0).tolist(), strict=True))
    entries: dict[str, Any] = {
        "n": totals["n"],
        "n_fired": totals["n"] - totals["missed"],
        "n_cut_early": totals["early"],
        "n_missed": totals["missed"],
    }
    if rates is not RATES:
        entries |= {f"n_cut_early_{place}": totals[place] for place in (*PLACES, "unclassified")}
    return entries | report.figures(system, rates, where=where)


def _count(fires: Fires, turns: Turns, late_us: int) -> UnitCounts:
    """Count what one system did on each turn."""
    early = is_early(fires, turns)
    counts = np.zeros((len(early), len(COLUMNS)), dtype=np.int64)
    counts[:, COLUMNS.index("n")] = 1
    counts[:, COLUMNS.index("early")] = early
    counts[:, COLUMNS.index("missed")] = ~fires.fired
    for row in np.flatnonzero(early):
        chunks = None if turns.chunks is None else turns.chunks[row]
        place = "unclassified" if chunks is None else _place(int(fires.at_us[row]), chunks, late_us)
        counts[row, COLUMNS.index(place)] = 1
    delays_s = ((fires.at_us - turns.durations_us) / 1e6).tolist()
    judged = (fires.fired & ~early).tolist()
    latencies_s = [[delay] if use else [] for delay, use in zip(delays_s, judged, strict=True)]
    return UnitCounts(tuple(turns.keys), counts, {"latency": latencies_s})


def _place(at_us: int, chunks: Chunks, late_us: int) -> str:
    """Tell where an early fire fell, by the rule at the top of this module."""
    last_ended = int(np.searchsorted(chunks.ends_us, at_us, side="right")) - 1
    if last_ended == len(chunks.ends_us) - 1:
        return "sentence_end"
    if last_ended < 0 or at_us - int(chunks.ends_us[last_ended]) > late_us:
        return "inside_chunk"
    return "sentence_end" if chunks.ends_sentence[last_ended] else "mid_sentence"


def _late_us(late_report_s: float) -> int:
    is_number = isinstance(late_report_s, Real) and not isinstance(late_report_s, bool)
    if not is_number or not np.isfinite(late_report_s) or late_report_s < 0:
        raise ValueError(f"late_report_s: expected finite seconds >= 0, got {late_report_s!r}")
    return round(late_report_s * 1e6)
