"""A conversation -> the rows of each MultiPartyTurnBench table.

Rows are plain dicts that a pyarrow schema turns into Arrow; audio is a `{"bytes": None, "path": ...}`
reference, so nothing here opens a sound file.
"""

from __future__ import annotations

import json
from types import NoneType
from typing import Any

from .anchors import TRACKS, Track
from .corpus import Conversation, Corpus
from .decision_points import decision_points
from .schemas import audio_columns

Row = dict[str, Any]


def conversation_rows(corpus: Corpus, conversation: Conversation, *, audio: str) -> list[Row]:
    """The one row of `conversations`, in a list."""
    utterances, noise = corpus.utterances(conversation)
    metadata = conversation.metadata
    voices, styles = metadata.get("voices"), metadata.get("voice_styles")
    channels = _audio(corpus, conversation, "conversations", audio)
    return [
        {
            **_metadata(conversation),
            **{name: list(by_speaker.values()) for name, by_speaker in channels.items()},
            "voices": [
                {"speaker": speaker, "voice": _of(voices, speaker), "style": _of(styles, speaker)}
                for speaker in conversation.speakers
            ],
            "events": conversation.events,
            "anchors": [
                {"speaker": speaker, "track": track, **_track(conversation.anchors[speaker][track])}
                for speaker in conversation.speakers
                for track in TRACKS
            ],
            "utterances": [_utterance(utterance) for utterance in utterances],
            "metadata_json": json.dumps(metadata),
            "noise_json": None if noise is None else json.dumps(noise),
        }
    ]


def channel_rows(corpus: Corpus, conversation: Conversation, *, audio: str) -> list[Row]:
    """A row of `channels` per speaker: what the metric takes as `references`."""
    channels = _audio(corpus, conversation, "channels", audio)
    return [
        {
            **_metadata(conversation),
            "speaker": speaker,
            **{name: by_speaker[speaker] for name, by_speaker in channels.items()},
            **{track: _track(conversation.anchors[speaker][track]) for track in TRACKS},
        }
        for speaker in conversation.speakers
    ]


def decision_point_rows(
    corpus: Corpus, conversation: Conversation, *, audio: str, delay_s: float, include_excluded: bool
) -> list[Row]:
    """The rows of `decision_points`: `decision_points.decision_points` with metadata and audio."""
    channels = _audio(corpus, conversation, "decision_points", audio)
    metadata = _metadata(conversation)
    rows = decision_points(conversation, delay_s=delay_s, include_excluded=include_excluded)
    for row in rows:
        row.update(metadata)
        for name, by_speaker in channels.items():
            row[name] = by_speaker[row["speaker"]]
    return rows


def _metadata(conversation: Conversation) -> Row:
    return {
        "conversation_id": conversation.conversation_id,
        "conversation_type": conversation.conversation_type,
        "num_speakers": len(conversation.speakers),
        "speakers": conversation.speakers,
        "duration_s": conversation.duration_s,
        "domain": _text(conversation.metadata.get("domain")),
        "tone": _text(conversation.metadata.get("tone")),
    }


def _audio(corpus: Corpus, conversation: Conversation, config: str, audio: str) -> dict[str, dict[str, Row]]:
    """For each audio column, each speaker's reference."""
    return {
        column: {
            speaker: {"bytes": None, "path": corpus.url(path)}
            for speaker, path in conversation.audio(scene).items()
        }
        for column, scene in audio_columns(config, audio).items()
    }


def _track(track: Track) -> Row:
    spans = {
        name: [{"start": start_s, "end": end_s} for start_s, end_s in track[name]]
        for name in ("negative_spans", "excluded_spans")
    }
    return {"positives": track["positives"], **spans}


_TEXTS = ("kind", "text", "event_type", "timing_hint", "target", "resolved_hint", "sublabel")
_FLAGS = ("overlaps", "truncated")


def _utterance(utterance: Row) -> Row:
    texts, flags = map(utterance.get, _TEXTS), map(utterance.get, _FLAGS)
    if {str, NoneType}.issuperset(map(type, texts)) and {bool, NoneType}.issuperset(map(type, flags)):
        return utterance
    return {
        **utterance,
        **{name: _text(utterance.get(name)) for name in _TEXTS},
        **{name: _flag(utterance.get(name)) for name in _FLAGS},
    }


def _of(mapping: Any, speaker: str) -> str | None:
    return _text(mapping.get(speaker)) if isinstance(mapping, dict) else None


def _text(value: Any) -> str | None:
    """Free-form fields of the card are text; a structured value is kept as JSON."""
    return value if value is None or isinstance(value, str) else json.dumps(value)


def _flag(value: Any) -> bool | None:
    return None if value is None else bool(value)
