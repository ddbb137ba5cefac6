"""Anchors and events -> the moments at which a detector is asked, with the right answer."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

from .anchors import TRACKS
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
) -> list[dict[str, Any]]:
    """The decision points of a conversation, by speaker, track and time.

    Args:
        conversation: its anchors give the rows, its events their kind, id and holders.
        delay_s: how long after the positive's time or the span's start the detector is asked.
            `at_s` is never past a hold's resume nor the channel's end.
        include_excluded: also the spans that scoring ignores, with label -1.

    Returns:
        A row per positive (label 1) and per hard negative (label 0): the fields of `decision_points`
        that are not the conversation's own. An anchor that the log does not know has no event and no
        holders, and its key is its place in the anchors file.
    """
    events = {
        (anchor.event["speaker"], anchor.track, anchor.role, *_microseconds(anchor.start_s, anchor.end_s)): (
            anchor.kind,
            anchor.event,
        )
        for anchor in conversation.log_anchors
    }
    found = []
    for speaker in conversation.speakers:
        for track in TRACKS:
            rows = []
            for role, label in _LABELS.items():
                if label < 0 and not include_excluded:
                    continue
                unknown = _ONLY_KIND.get((track, role)), {}
                for index, times in enumerate(conversation.anchors[speaker][track][role]):
                    start_s, end_s = (times, times) if label > 0 else times
                    kind, event = events.get(
                        (speaker, track, role, *_microseconds(start_s, end_s)), unknown
                    )
                    last_s = min(end_s, conversation.duration_s) if kind == "hold" else conversation.duration_s
                    place = event.get("id") or f"{role}[{index}]"
                    rows.append(
                        {
                            "key": f"{conversation.conversation_id}/{speaker}/{track}/{place}",
                            "speaker": speaker,
                            "track": track,
                            "kind": kind,
                            "label": label,
                            "start_s": start_s,
                            "end_s": end_s,
                            "at_s": min(start_s + delay_s, last_s),
                            "event_id": event.get("id"),
                            "current_holder": event.get("current_holder"),
                            "next_holder": event.get("next_holder"),
                        }
                    )
            found += sorted(rows, key=itemgetter("start_s", "end_s"))
    return found


def _microseconds(start_s: float, end_s: float) -> tuple[int, int]:
    """The times as scoring compares them, so that 0.1 + 0.2 finds 0.3."""
    return round(start_s * 1e6), round(end_s * 1e6)
