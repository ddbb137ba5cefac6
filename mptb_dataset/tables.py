"""Conversations -> the MultiPartyTurnBench tables.

Audio is a `{"bytes": None, "path": ...}` reference, so nothing here opens a sound file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson
import pyarrow as pa

from .anchors import TRACKS, Track
from .corpus import Conversation, Corpus
from .decision_points import decision_points
from .errors import CorpusError
from .manifest import Entry
from .schemas import audio_columns

Row = dict[str, Any]


def build_table(
    config: str,
    corpus: Corpus,
    entries: Sequence[Entry],
    schema: pa.Schema,
    *,
    audio: str,
    delay_s: float,
    include_excluded: bool,
) -> pa.Table:
    """Build the rows of some conversations.

    Args:
        config: `conversations`, `channels` or `decision_points`.
        corpus: where the conversations are from.
        entries: the conversations, at least one.
        schema: the columns to build.
        audio: which scenes' channels a row refers to: "noisy", "clean", "both" or "none".
        delay_s: `decision_points`: seconds after the event at which the detector is asked.
        include_excluded: `decision_points`: also what scoring ignores.

    Raises:
        CorpusError: a file that is missing or cannot be understood, or a value of the wrong type; the message
            names the file and the field.
    """
    conversations = map(corpus.conversation, entries)  # one at a time: its events are many small objects
    try:
        if config == "decision_points":
            return _point_table(
                corpus, conversations, schema, audio=audio, delay_s=delay_s, include_excluded=include_excluded
            )
        make = _conversation_rows if config == "conversations" else channel_rows
        rows = [row for one in conversations for row in make(corpus, one, audio=audio)]
        return _to_table({name: [row[name] for row in rows] for name in schema.names}, schema)
    except _ColumnError as error:
        if len(entries) == 1:
            raise CorpusError(f"{entries[0].events}: {error}") from None
        for entry in entries:  # find the one at fault
            build_table(
                config,
                corpus,
                [entry],
                schema,
                audio=audio,
                delay_s=delay_s,
                include_excluded=include_excluded,
            )
        raise


class _ColumnError(CorpusError):
    """A column that cannot be made; `build_table` adds the file."""


def _to_table(columns: Mapping[str, Sequence[Any]], schema: pa.Schema) -> pa.Table:
    arrays = []
    for field in schema:
        try:
            arrays.append(_to_array(columns[field.name], field))
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise _ColumnError(f"field '{field.name}': {error}") from None
    return pa.Table.from_arrays(arrays, schema=schema)


def _to_array(values: Sequence[Any], field: pa.Field) -> pa.Array:
    if field.name != "utterances":
        return pa.array(values, field.type)
    try:
        return pa.array(values, field.type)
    except (pa.ArrowException, TypeError, ValueError):  # free-form fields that are not what the card shows
        return pa.array([[_utterance(one) for one in utterances] for utterances in values], field.type)


def _point_table(
    corpus: Corpus,
    conversations: Iterable[Conversation],
    schema: pa.Schema,
    *,
    audio: str,
    delay_s: float,
    include_excluded: bool,
) -> pa.Table:
    """Decision points, each with the metadata and the audio of its channel."""
    channels: list[Row] = []
    channel_of_point: list[int] = []
    columns: dict[str, list[Any]] = {}
    for conversation in conversations:
        place = {speaker: len(channels) + index for index, speaker in enumerate(conversation.speakers)}
        points = decision_points(conversation, delay_s=delay_s, include_excluded=include_excluded)
        channel_of_point += [place[speaker] for speaker in points["speaker"]]
        channels += _channels(corpus, conversation, "decision_points", audio)
        for name, values in points.items():
            columns.setdefault(name, []).extend(values)
    own = pa.schema([field for field in schema if field.name in columns])
    shared = pa.schema([field for field in schema if field.name not in columns])
    table = _to_table(columns, own)
    repeated = _to_table({name: [row[name] for row in channels] for name in shared.names}, shared)
    repeated = repeated.take(pa.array(channel_of_point, pa.int64()))
    found = {field.name: part.column(field.name) for part in (table, repeated) for field in part.schema}
    return pa.Table.from_arrays([found[name] for name in schema.names], schema=schema)


def _conversation_rows(corpus: Corpus, conversation: Conversation, *, audio: str) -> list[Row]:
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
            "utterances": utterances,
            "metadata_json": _json(metadata),
            "noise_json": None if noise is None else _json(noise),
        }
    ]


def channel_rows(corpus: Corpus, conversation: Conversation, *, audio: str) -> list[Row]:
    """A row of `channels` per speaker: what the metric takes as `references`."""
    rows = _channels(corpus, conversation, "channels", audio)
    for row in rows:
        for track, lists in conversation.anchors[row["speaker"]].items():
            row[track] = _track(lists)
    return rows


def _channels(corpus: Corpus, conversation: Conversation, config: str, audio: str) -> list[Row]:
    """Each speaker with the conversation's metadata and the references to their audio."""
    metadata = _metadata(conversation)
    channels = _audio(corpus, conversation, config, audio)
    return [
        {
            **metadata,
            "speaker": speaker,
            **{name: by_speaker[speaker] for name, by_speaker in channels.items()},
        }
        for speaker in conversation.speakers
    ]


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
    return {
        "positives": track["positives"],
        "negative_spans": [{"start": start_s, "end": end_s} for start_s, end_s in track["negative_spans"]],
        "excluded_spans": [{"start": start_s, "end": end_s} for start_s, end_s in track["excluded_spans"]],
    }


_TEXTS = ("kind", "text", "event_type", "timing_hint", "target", "resolved_hint", "sublabel")
_FLAGS = ("overlaps", "truncated")


def _utterance(utterance: Row) -> Row:
    return {
        **utterance,
        **{name: _text(utterance.get(name)) for name in _TEXTS},
        **{name: _flag(utterance.get(name)) for name in _FLAGS},
    }


def _of(mapping: Any, speaker: str) -> str | None:
    return _text(mapping.get(speaker)) if isinstance(mapping, dict) else None


def _text(value: Any) -> str | None:
    """Free-form fields of the card are text; a structured value is kept as JSON."""
    return value if value is None or isinstance(value, str) else _json(value)


def _flag(value: Any) -> bool | None:
    return None if value is None else bool(value)


def _json(value: Any) -> str:
    try:
        return orjson.dumps(value).decode()
    except orjson.JSONEncodeError as error:
        raise _ColumnError(f"a free-form part cannot be written as JSON: {error}") from None
