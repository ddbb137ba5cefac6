"""The main job on the embedded sample: hear dev, choose thresholds, freeze them, score test."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from mptb_dataset.corpus import Conversation
from mptb_dataset.sample import sample_dir
from mptb_metric import score_floor, to_json, write_submission
from mptb_metric.outcomes import outcomes

from .figure import draw
from .files import write_json
from .gold import Split, read_split
from .render import console, print_score, progress
from .running import run_split
from .scores import TRACKS, Scores
from .scoring import decide_all, verdict
from .selecting import frozen, select_from_scores, show


def run_demo(out: Path, detector: str = "energy") -> None:
    """Run everything and write `submission.json`, `result.json`, `thresholds.json`, the scores and a picture.

    Args:
        out: the folder for the results; files of an earlier demo are replaced.
        detector: what listens.
    """
    began = time.monotonic()
    root = str(sample_dir("mptb"))
    dev, test = read_split(root, "dev"), read_split(root, "test")
    console.print(
        "A miniature of MultiPartyTurnBench, shipped with this package: real synthesized speech, "
        f"{len(dev.conversations)} dev and {len(test.conversations)} test conversations. "
        "The numbers say nothing about the benchmark.\n"
    )
    _hear(dev, detector, out / "dev.npz")
    selection = select_from_scores(root, "dev", out / "dev.npz")
    show(selection)
    chosen = frozen(selection)
    write_json(out / "thresholds.json", chosen)
    console.print("Thresholds are frozen. Now test.\n")
    scores = _hear(test, detector, out / "test.npz")
    rows = decide_all(scores, test, chosen)
    result = score_floor(rows, test.references, by=["num_speakers"])
    print_score(result, title="test", tracks=scores.tracks)
    for track in TRACKS:
        console.print(verdict(track, chosen, "test", result[f"{track}_fpr"]), highlight=False)
    write_submission(out / "submission.json", rows, detector=scores.detector)
    record = {"split": "test", "corpus": test.checksum, "thresholds": chosen, **to_json(result)}
    write_json(out / "result.json", record)
    pictured, decisions = _most_telling(test, rows)
    try:
        draw(pictured, decisions, out / "conversation.png")
    except ImportError as error:
        console.print(f"no picture: {error}", markup=False)
    written = ", ".join(sorted(path.name for path in out.iterdir() if path.is_file()))
    console.print(f"\n{out}/: {written}", highlight=False, soft_wrap=True)
    console.print(f"done in {time.monotonic() - began:.0f} s", highlight=False)


def _hear(split: Split, detector: str, out: Path) -> Scores:
    with progress(f"{detector} hears {split.name}") as report:
        scores, _ = run_split(split, detector, out, progress=report)
    return scores


def _most_telling(split: Split, rows: list[dict[str, Any]]) -> tuple[Conversation, dict[str, Any]]:
    """The conversation with the most kinds of outcome, and of those the one with the most speakers."""
    found = []
    for conversation in split.conversations:
        decisions = {
            row["speaker"]: row for row in rows if row["conversation_id"] == conversation.conversation_id
        }
        kinds = {
            kind
            for speaker, tracks in conversation.anchors.items()
            for track, gold in tracks.items()
            for kind, times in outcomes(gold, decisions[speaker][track]).items()
            if times
        }
        found.append(
            (len(kinds), len(conversation.speakers), conversation.conversation_id, conversation, decisions)
        )
    return max(found, key=lambda one: one[:3])[3:]
