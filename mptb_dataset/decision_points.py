"""Anchors and events -> the moments at which a detector is asked, with the right answer."""

from __future__ import annotations

from operator import itemgetter
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
) -> dict[str, list[Any]]:
    """The decision points of a conversation, by speaker, track and time.

    Args:
        conversation: its anchors give the rows, its events their kind, id and holders.
        delay_s: how long after the positive's time or the span's start the detector is asked.
            `at_s` is never past a hold's resume nor the channel's end.
        include_excluded: also the spans that scoring ignores, with label -1.

    Returns:
        The columns of `decision_points` that are not the conversation's own, with a row per positive
        (label 1) and per hard negative (label 0). An anchor that the log does not know has no event and
        no holders, and its key is its place in the anchors file.
    """
    anchors = conversation.log_anchors if conversation.as_logged else _with_events(conversation)
    place = {speaker: index for index, speaker in enumerate(conversation.speakers)}
    points = [
        (place[event["speaker"]], track, start_s, end_s, event["id"], kind, role, event)
        for track, role, kind, start_s, end_s, event in anchors
        if include_excluded or role != "excluded_spans"
    ]
    points.sort(key=itemgetter(0, 1, 2, 3, 4))
    _, tracks, starts_s, ends_s, ids, kinds, roles, events = zip(*points, strict=True) if points else [()] * 8
    speakers = [event["speaker"] for event in events]
    prefix = f"{conversation.conversation_id}/"
    duration_s = conversation.duration_s
    return {
        "key": [
            f"{prefix}{speaker}/{track}/{name}"
            for speaker, track, name in zip(speakers, tracks, ids, strict=True)
        ],
        "speaker": speakers,
        "track": list(tracks),
        "kind": list(kinds),
        "label": [_LABELS[role] for role in roles],
        "start_s": list(starts_s),
        "end_s": list(ends_s),
        "at_s": [
            min(start_s + delay_s, end_s if kind == "hold" else duration_s, duration_s)
            for start_s, end_s, kind in zip(starts_s, ends_s, kinds, strict=True)
        ],
        "event_id": [name if "label" in event else None for name, event in zip(ids, events, strict=True)],
        "current_holder": [event.get("current_holder") for event in events],
        "next_holder": [event.get("next_holder") for event in events],
    }


def _with_events(conversation: Conversation) -> list[Anchor]:
    """The conversation's anchors, each with the event of the log that gives the same one.

    Where there is none, a record without a label stands for it.
    """
    logged: dict[Any, list[Anchor]] = {}
    for anchor in conversation.log_anchors:
        track, role, _, start_s, end_s, event = anchor
        logged.setdefault((event["speaker"], track, role, *_microseconds(start_s, end_s)), []).append(anchor)
    found: list[Anchor] = []
    for speaker in conversation.speakers:
        for track in TRACKS:
            for role in _LABELS:
                for index, times in enumerate(conversation.anchors[speaker][track][role]):
                    start_s, end_s = (times, times) if role == "positives" else times
                    same = logged.get((speaker, track, role, *_microseconds(start_s, end_s)))
                    if same:
                        _, _, kind, _, _, event = same.pop(0)
                    else:
                        kind = _ONLY_KIND.get((track, role))
                        event = {"speaker": speaker, "id": f"{role}[{index}]"}
                    found.append((track, role, kind, start_s, end_s, event))
    return found


def _microseconds(start_s: float, end_s: float) -> tuple[int, int]:
    """The times as scoring compares them, so that 0.1 + 0.2 finds 0.3."""
    return round(start_s * 1e6), round(end_s * 1e6)
