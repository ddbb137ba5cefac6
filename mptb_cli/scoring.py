"""Scoring a split: a submission as it is, or scores at thresholds that were frozen on dev."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mptb_dataset.corpus import Corpus
from mptb_dataset.errors import CorpusError
from mptb_metric import score_floor, to_json, write_submission
from mptb_metric.frozen import decide_rows, read_frozen
from mptb_metric.submission import read_submission

from .auditing import told
from .files import write_json
from .gold import Split, read_split
from .render import console, percent, print_score
from .scores import TRACKS, Scores, check_split, read_scores
from .selecting import read_thresholds

DEV_BUDGET, TEST_BUDGET = 0.10, 0.15
"""The FPR that a system may have on dev, where its threshold is chosen, and on test (card, section 5)."""


def decide_all(scores: Scores, split: Split, thresholds: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The decisions of every channel at frozen thresholds, as rows of a submission.

    A track without an operating point has no decisions.
    """
    return decide_rows(scores.rows(split.references), read_frozen(thresholds))


def verdict(track: str, chosen: dict[str, Any], split: str, fpr: float) -> str:
    """Say whether a track is within the benchmark's budget: dev FPR <= 10 % and test FPR <= 15 %.

    Args:
        track: "eot" or "int".
        chosen: the frozen thresholds.
        split: what was scored with them.
        fpr: what they gave there.
    """
    name, point = track.upper(), chosen["tracks"][track]
    if point is None:
        return f"{name}: no operating point on dev, so nothing to judge"
    if chosen.get("split") != "dev":
        return f"{name}: not judged: the threshold was not chosen on dev, but on {chosen.get('split')}"
    dev_fpr = point.get("fpr")
    if dev_fpr is None:
        return f"{name}: not judged: the thresholds do not say how dev went"
    if split != "test":
        return f"{name}: dev FPR {percent(dev_fpr)} (≤ 10 %); the budget is judged on test"
    within = dev_fpr <= DEV_BUDGET and fpr <= TEST_BUDGET
    return (
        f"{name}: {'within' if within else 'out of'} budget: "
        f"dev FPR {percent(dev_fpr)} (≤ 10 %), test FPR {percent(fpr)} (≤ 15 %)"
    )


def score_command(
    root: str,
    split: str,
    *,
    submission: Path | None,
    scores_path: Path | None,
    thresholds_path: Path | None,
    protocol: str | None,
    by: Sequence[str],
    n_resamples: int,
    confidence_level: float,
    official: bool,
    submission_out: Path | None,
    out: Path | None,
) -> None:
    """Score, print a table per track, and write the result where `out` says."""
    gold = read_split(root, split)
    if official:
        check_official(gold)
    chosen: dict[str, Any] | None = None
    if scores_path is not None and thresholds_path is not None:
        scores, chosen = read_scores(scores_path), read_thresholds(thresholds_path)
        check_split(scores, gold, scores_path)
        _check_fit(chosen, scores, gold, protocol, f"{thresholds_path}")
        rows = decide_all(scores, gold, chosen)
        if submission_out is not None:
            write_submission(submission_out, rows, detector=scores.detector)
    elif submission is not None:
        content = read_submission(submission, gold.references)
        rows = content.rows
        console.print(f"{content.detector or submission.name}: {told(content.audit)}\n", highlight=False)
    protocol = protocol or (chosen or {}).get("protocol") or "mptb"
    result = score_floor(
        rows,
        gold.references,
        protocol=protocol,
        by=list(by),
        n_resamples=n_resamples,
        confidence_level=confidence_level,
    )
    shown = [track for track in TRACKS if chosen is None or chosen["tracks"][track] is not None]
    print_score(result, title=f"{split}, protocol {protocol}", tracks=shown)
    if chosen is not None:
        for track in TRACKS:
            console.print(verdict(track, chosen, split, result[f"{track}_fpr"]), highlight=False)
    if out is not None:
        record = {"split": split, "corpus": gold.checksum, "thresholds": chosen, **to_json(result)}
        write_json(out, record)
        console.print(f"result: {out}", highlight=False, soft_wrap=True)


def _check_fit(
    chosen: Mapping[str, Any], scores: Scores, gold: Split, protocol: str | None, where: str
) -> None:
    """Refuse thresholds that were chosen for another detector, by another protocol, or on other gold."""
    if chosen.get("detector") not in (None, scores.detector):
        raise ValueError(
            f"{where}: chosen for detector {chosen['detector']!r}, but the scores are by {scores.detector!r}"
        )
    if protocol not in (None, chosen.get("protocol", protocol)):
        raise ValueError(f"{where}: chosen by protocol {chosen['protocol']!r}, not {protocol!r}")
    split, expected = chosen.get("split"), chosen.get("corpus")
    if expected is not None and split in gold.corpus.splits:
        checksum = gold.checksum if split == gold.name else read_split(gold.corpus.root, split).checksum
        if checksum != expected:
            raise ValueError(
                f"{where}: field 'corpus': chosen on other annotations than those of {gold.corpus.root}, "
                f"split {split}: checksum {str(expected)[:12]}, expected {checksum[:12]}"
            )


def check_official(split: Split) -> None:
    """Refuse a split that lacks conversations of `metadata/split.json`, or that cannot be compared with it.

    Raises:
        CorpusError: which ones.
    """
    corpus: Corpus = split.corpus
    official = corpus.official_ids(split.name)
    if official is None:
        raise CorpusError(
            f"{corpus.root}: metadata/split.json: missing, so the split cannot be called official"
        )
    there = {conversation.conversation_id for conversation in split.conversations}
    differ = sorted(set(official) ^ there)
    if differ:
        raise CorpusError(
            f"{corpus.root}: split {split.name} is not the official one: {len(there)} conversations, "
            f"metadata/split.json lists {len(official)}; first difference: {differ[0]}"
        )
