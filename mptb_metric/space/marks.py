"""What scoring made of each decision in one conversation, and of each gold time that was not found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..outcomes import outcomes
from ..predictions import TRACKS
from .scoring import Scored

MARKS = {
    "hit": ("hit", "hits"),
    "miss": ("miss", "misses"),
    "false positive": ("false positive", "false positives"),
    "elsewhere": ("decision elsewhere", "decisions elsewhere"),
}
"""What there is, as one and as many. A miss is a gold time, the others are decisions; those elsewhere,
excluded ones too, count nowhere."""

Marks = dict[str, list[float]]


def marks_of(conversation: Mapping[str, Any], scored: Scored) -> dict[tuple[str, str], Marks]:
    """Sort a conversation's decisions, by speaker and track, times in seconds in ascending order."""
    found = {}
    for gold in conversation["anchors"]:
        decisions = scored.decisions[conversation["conversation_id"], gold["speaker"]]
        times_s = decisions[gold["track"]].tolist()
        found[gold["speaker"], gold["track"]] = outcomes(gold, times_s, protocol=scored.result["protocol"])
    return found


def tally(conversation_id: str, scored: Scored) -> tuple[int, int]:
    """Count a conversation's misses and false positives, both tracks together."""
    misses = false_positives = 0
    for track in TRACKS:
        counts = scored.counts[track]
        _, fn, fp, _ = counts.counts[counts.units.index(conversation_id)].tolist()
        misses, false_positives = misses + fn, false_positives + fp
    return misses, false_positives
