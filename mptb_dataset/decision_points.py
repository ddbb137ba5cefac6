"""Anchors and events -> the moments at which a detector is asked, with the right answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .anchors import TRACKS, Anchor
from .corpus import Conversation

_LABELS = {"positives": 1, "negative_spans": 0, "excluded_spans": -1}

_ONLY_KIND = {
    ("eot", "positives"): "yield",
    ("eot", "negative_spans"): "hold",
    ("eot", "excluded_spans"): "interrupted",
    ("int", "positives"): "interruption",
    ("int", "excluded_spans"): "failed_claim",
}
"""What an anchor must be, where its track and list leave one kind only."""


def decision_points(
    conversation: Conversation, *, delay_s: float = 0.0, include_excluded: bool = False
) -> Iterator[dict[str, Any]]:
    """The decision points of a conversation, by speaker, track and time.

    Args:
        conversation: its anchors give the rows, its events their kind, id and holders.
        delay_s: how long after the positive's time or the span's start the detector is asked.
            `at_s` is never past a hold's resume nor the channel's end.
        include_excluded: also the spans that scoring ignores, with label -1.

    Yields:
        A row per positive (label 1) and per hard negative (label 0); `audio` is not among its fields.
    """
    by_time = {_time_key(anchor): anchor for anchor in conversation.log_anchors}
    for speaker in conversation.speakers:
        for track in TRACKS:
            rows = []
            for role, label in _LABELS.items():
                if label < 0 and not include_excluded:
                    continue
                for index, times in enumerate(conversation.anchors[speaker][track][role]):
                    start_s, end_s = (times, times) if role == "positives" else times
                    anchor = Anchor(track, role, _ONLY_KIND.get((track, role), ""), start_s, end_s, {})
                    known = by_time.get((speaker, *_time_key(anchor)[1:]), anchor)
                    rows.append(
                        _row(conversation, speaker, known._replace(start_s=start_s, end_s=end_s), index, delay_s)
                        | {"label": label}
                    )
            yield from sorted(rows, key=lambda row: (row["start_s"], row["end_s"]))


def _row(
    conversation: Conversation, speaker: str, anchor: Anchor, index: int, delay_s: float
) -> dict[str, Any]:
    at_s = min(anchor.start_s + delay_s, conversation.duration_s)
    if anchor.kind == "hold":
        at_s = min(at_s, anchor.end_s)
    event = anchor.event
    return {
        "key": "/".join(
            # An anchor that the log does not know is named by its place in the anchors file.
            [conversation.conversation_id, speaker, anchor.track, event.get("id") or f"{anchor.role}[{index}]"]
        ),
        "speaker": speaker,
        "track": anchor.track,
        "kind": anchor.kind or None,
        "start_s": anchor.start_s,
        "end_s": anchor.end_s,
        "at_s": at_s,
        "event_id": event.get("id"),
        "current_holder": event.get("current_holder"),
        "next_holder": event.get("next_holder"),
    }


def _time_key(anchor: Anchor) -> tuple[Any, ...]:
    """Where an anchor stands, with times in the microseconds that scoring compares."""
    times = round(anchor.start_s * 1e6), round(anchor.end_s * 1e6)
    return (anchor.event.get("speaker"), anchor.track, anchor.role, *times)
