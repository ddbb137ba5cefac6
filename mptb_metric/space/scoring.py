"""From uploaded files to figures. A file is bytes from a stranger: bounded first, then read as JSON only."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..compare import compare
from ..predictions import TRACKS, SubmissionError
from ..results import to_json
from ..scoring import RATES, floor_counts, score_floor
from ..submission import read_submission
from ..sums import UnitCounts
from .gold import Gold, Split

MAX_BYTES = 5 << 20
"""A decision every two seconds on every channel of the whole benchmark is a tenth of this."""

MAX_NESTED = 100_000
"""Objects and lists in a file: each takes a hundred times its bytes in memory. The benchmark needs 2,200."""

MAX_VALUES = 500_000
"""Times, for the most part: a decision every half second on every channel of the benchmark is fewer."""

N_RESAMPLES = 9999
GROUPS = ("num_speakers", "conversation_type")


@dataclass(frozen=True, eq=False)
class Scored:
    """One submission, scored.

    Attributes:
        name: the file's.
        letter: what it is called beside another, "A" or "B"; empty where it is alone.
        detector: what the file says made it.
        result: what `mptb_metric.score_floor` gives, with intervals, broken down by `GROUPS`.
        counts: per track, the counts and latencies of each conversation.
        decisions: the decision times in seconds (float64), by conversation and speaker, then by track.
    """

    name: str
    letter: str
    detector: str | None
    result: dict[str, Any]
    counts: dict[str, UnitCounts]
    decisions: dict[tuple[str, str], dict[str, NDArray[np.float64]]]


def score(path: str, split: Split, *, protocol: str, name: str, letter: str = "") -> Scored:
    """Score an uploaded file.

    Args:
        path: where it is.
        split: the gold.
        protocol: "mptb" or "turnbench".
        name: what the user calls it.
        letter: as in `Scored`.

    Raises:
        SubmissionError: with every fault of the file.
    """
    check_size(path)
    submission = read_submission(path, split.references)
    result = score_floor(
        submission.rows,
        split.references,
        protocol=protocol,
        by=GROUPS,
        budget=split.budget,
        n_resamples=N_RESAMPLES,
    )
    decisions = {
        (row["conversation_id"], row["speaker"]): {
            track: np.array(row[track], np.float64) for track in TRACKS
        }
        for row in submission.rows
    }
    counts = floor_counts(submission.rows, split.references, protocol=protocol)
    return Scored(name, letter, submission.detector, result, counts, decisions)


def check_size(path: str) -> None:
    """Refuse a file that would take long or much memory to read.

    Raises:
        SubmissionError: it is too large, or holds too many values.
    """
    file = Path(path)
    size = file.stat().st_size
    if size > MAX_BYTES:
        raise SubmissionError([f"the file has {size:,} bytes; at most {MAX_BYTES:,} are read"])
    content = file.read_bytes()
    nested, values = content.count(b"{") + content.count(b"["), content.count(b",")
    if nested > MAX_NESTED:
        raise SubmissionError(
            [f"the file opens {nested:,} objects and lists; at most {MAX_NESTED:,} are read"]
        )
    if values > MAX_VALUES:
        raise SubmissionError([f"the file lists {values:,} values; at most {MAX_VALUES:,} are read"])


def split_meant(path: str, gold: Gold) -> str | None:
    """Name the split that a file is for, by its conversations; None where it is for none of them."""
    try:
        check_size(path)
        ids = {row["conversation_id"] for row in read_submission(path).rows}
    except SubmissionError:
        return None
    found = [name for name, split in gold.splits.items() if ids and ids <= split.conversations.keys()]
    return found[0] if found else None


def compare_two(first: Scored, second: Scored) -> dict[str, dict[str, Any]]:
    """Give per track the differences, first minus second, with paired intervals and p-values."""
    found = {}
    for track in TRACKS:
        systems = {"a": first.counts[track], "b": second.counts[track]}
        result = compare(systems, RATES, n_resamples=N_RESAMPLES)
        found[track] = {"notes": result["notes"], **result["pairs"][0]}
    return found


def record(systems: list[Scored], split: Split, gold: Gold, differences: Mapping[str, Any] | None) -> str:
    """Write the result as strict JSON: that of one submission, or of two and their differences."""
    head = {
        "split": split.name,
        "corpus": gold.source or "embedded sample",
        "date": datetime.now(timezone.utc).date().isoformat(),
    }
    told = [{"submission": one.name, "detector": one.detector, **one.result} for one in systems]
    content: dict[str, Any] = {**head, **told[0]}
    if differences is not None:
        content = {**head, "a": told[0], "b": told[1], "a_minus_b": differences}
    return json.dumps(to_json(content), indent=1, allow_nan=False)
