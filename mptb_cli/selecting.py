"""Choosing thresholds on dev: from scores, exactly, or from one submission per threshold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mptb_metric import Sweep, load_submission, match, sweep, to_json
from mptb_metric.frozen import read_frozen
from mptb_metric.matching import Counts
from mptb_metric.tradeoff import NO_LATENCY

from .files import read_json, write_json
from .gold import Split, read_split
from .render import DASH, TRACK_NAMES, console, milliseconds, number, percent, table
from .scores import TRACKS, check_split, read_scores

FPR_BUDGETS = (0.05, 0.10)
LATENCY_BUDGETS_S = (0.3, 0.6)
PARETO_ROWS = 10
"""Of a front that may have hundreds of settings; `Sweep.pareto` gives all."""


@dataclass(frozen=True)
class Selection:
    """A sweep per track with what it was made from, and the budget."""

    sweeps: dict[str, Sweep]
    split: Split
    detector: str | None
    protocol: str
    budget: float
    lookahead_s: float = 0.0

    def operating_point(self, track: str) -> dict[str, Any] | None:
        """The track's threshold by the benchmark's rule, or None where none qualifies or nothing was said."""
        return self.sweeps[track].operating_point(self.budget) if track in self.sweeps else None


def select_from_scores(
    root: str, split: str, path: Path, *, protocol: str = "mptb", budget: float = 0.10
) -> Selection:
    """Sweep every distinct score of a score file, per track.

    Raises:
        CorpusError, ValueError: the corpus, the file, or a file made from other gold.
    """
    gold = read_split(root, split)
    scores = read_scores(path)
    check_split(scores, gold, path)
    sweeps = {
        track: sweep(
            scores.channels(gold.references, track),
            scores.frame_rate,
            protocol=protocol,
            lookahead_s=scores.lookahead_s,
        )
        for track in scores.tracks
    }
    return Selection(sweeps, gold, scores.detector, protocol, budget, scores.lookahead_s)


def select_from_submissions(
    root: str, split: str, named: Sequence[str], *, protocol: str = "mptb", budget: float = 0.10
) -> Selection:
    """Score one submission per threshold, the card's form.

    Args:
        root: the corpus.
        split: where thresholds are chosen.
        named: `THRESHOLD=FILE` each.
        protocol: as for `mptb_metric.match`.
        budget: the highest FPR allowed.

    Raises:
        CorpusError: the corpus.
        SubmissionError: a file; the message names its faults.
        ValueError: a threshold that is no number or is given twice.
    """
    gold = read_split(root, split)
    counts: dict[float, dict[str, Counts]] = {}
    for text in named:
        theta, path = _threshold_and_path(text)
        if theta in counts:
            raise ValueError(f"--submission {text}: threshold {theta:g} is given twice")
        rows = {
            (row["conversation_id"], row["speaker"]): row for row in load_submission(path, gold.references)
        }
        counts[theta] = {track: _pooled(gold.references, rows, track, protocol) for track in TRACKS}
    thetas = sorted(counts)
    sweeps = {track: _sweep_of(thetas, [counts[theta][track] for theta in thetas]) for track in TRACKS}
    return Selection(sweeps, gold, None, protocol, budget)


def _threshold_and_path(text: str) -> tuple[float, Path]:
    threshold, separator, path = text.partition("=")
    try:
        theta = float(threshold)
    except ValueError:
        theta = math.nan
    if not separator or not path or not math.isfinite(theta):
        raise ValueError(f"--submission {text!r}: expected THRESHOLD=FILE, for example 0.5=dev_0.5.json")
    return theta, Path(path)


def _pooled(references: Any, rows: Any, track: str, protocol: str) -> Counts:
    return sum(
        (
            match(
                **gold[track],
                predictions=rows[gold["conversation_id"], gold["speaker"]][track],
                protocol=protocol,
            )
            for gold in references
        ),
        start=Counts(),
    )


def _sweep_of(thetas: Sequence[float], counts: Sequence[Counts]) -> Sweep:
    """Counts at given thresholds, as if they had been swept."""
    medians = []
    for one in counts:
        latencies_us = sorted(round(1e6 * latency) for latency in one.latencies_s)
        n = len(latencies_us)
        medians.append(latencies_us[(n - 1) // 2] + latencies_us[n // 2] if n else NO_LATENCY)
    return Sweep(
        theta=np.array(thetas),
        **{name: np.array([getattr(one, name) for one in counts]) for name in ("tp", "fn", "fp", "tn")},
        **{
            f"latency_p{p}_s": np.array([one.latency_percentile_s(p) for one in counts]) for p in (10, 50, 90)
        },
        median_half_us=np.array(medians),
        exact=False,
    )


def show(selection: Selection) -> None:
    """Print each track's operating point and trade-off."""
    for track, swept in selection.sweeps.items():
        rows = [_row(f"chosen: FPR ≤ {percent(selection.budget)}", selection.operating_point(track))]
        rows += [
            _row(f"highest recall at FPR ≤ {percent(budget)}", swept.operating_point(budget))
            for budget in FPR_BUDGETS
            if budget != selection.budget
        ]
        rows += [
            _row(f"lowest FPR at median ≤ {milliseconds(budget_s)}", swept.lowest_fpr(budget_s))
            for budget_s in LATENCY_BUDGETS_S
        ]
        how = "every distinct score" if swept.exact else "the given thresholds"
        table(
            f"{selection.split.name}, {TRACK_NAMES[track]} ({track.upper()}), over {how} ({len(swept)})",
            ["", "threshold", "recall", "FPR", "median latency"],
            rows,
        )
        if not swept.tp.any():
            console.print(
                f"{track.upper()}: no threshold finds anything: this detector never fires in time\n"
            )
            continue
        front = swept.pareto()
        n_settings = len(front["theta"])
        shown = np.unique(np.linspace(0, n_settings - 1, min(n_settings, PARETO_ROWS)).round().astype(int))
        table(
            f"{track.upper()}: settings that no other one beats ({n_settings}, shown: {len(shown)})",
            ["threshold", "recall", "FPR", "median latency"],
            [_figures({name: values[i].item() for name, values in front.items()}) for i in shown],
        )
        console.print(_told(track, swept, selection.operating_point(track)) + "\n", highlight=False)
    for track in TRACKS:
        if track not in selection.sweeps:
            console.print(f"{track.upper()}: this detector gives no scores on this track\n")


def _told(track: str, swept: Sweep, point: dict[str, Any] | None) -> str:
    if point is None:
        return f"{track.upper()}: no operating point: no threshold is within the budget"
    if not point["tp"]:
        return f"{track.upper()}: within the budget nothing is found"
    if not point["at_edge"]:
        return f"{track.upper()}: threshold {point['theta']:.6g}, inside the range that was swept"
    beyond = "no other one can be better" if swept.exact else "one beyond it may be better"
    return f"{track.upper()}: threshold {point['theta']:.6g}, at the grid's edge: {beyond}"


def _row(name: str, point: dict[str, Any] | None) -> list[str]:
    return [name, *([DASH] * 4 if point is None else _figures(point))]


def _figures(point: dict[str, Any]) -> list[str]:
    return [
        number(point["theta"]),
        percent(point["recall"]),
        percent(point["fpr"]),
        milliseconds(point["latency_p50_s"]),
    ]


def frozen(selection: Selection) -> dict[str, Any]:
    """What `mptb score --thresholds` takes: the chosen thresholds and what they were chosen on.

    A track without an operating point is null.
    """
    return {
        "schema_version": 1,
        "detector": selection.detector,
        "corpus": selection.split.checksum,
        "split": selection.split.name,
        "protocol": selection.protocol,
        "budget": selection.budget,
        "tracks": {track: to_json(selection.operating_point(track)) for track in TRACKS},
    }


def write_thresholds(path: Path, selection: Selection) -> None:
    """Write the frozen thresholds, whole or not at all."""
    write_json(path, frozen(selection))
    console.print(f"thresholds: {path}", highlight=False, soft_wrap=True)


def read_thresholds(path: Path) -> dict[str, Any]:
    """Read frozen thresholds with the record of how they were chosen.

    Raises:
        ValueError: not a file of `mptb select --out`; the message names the field.
    """
    content = read_json(path)
    if not isinstance(content, dict) or content.get("schema_version") != 1:
        raise ValueError(f"{path}: field 'schema_version': expected 1, as `mptb select --out` writes it")
    read_frozen({"tracks": content.get("tracks")})
    return content
