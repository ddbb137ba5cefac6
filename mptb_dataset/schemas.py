"""The Features of every table, in one place.

Times are float64 seconds. Audio is `datasets.Audio`: a path where the file is local, bytes where it came
inside Parquet; it is never decoded while a table is built.
"""

from __future__ import annotations

from datasets import Audio, Features, List, Value

MPTB_SAMPLING_RATE_HZ = 24_000
TURN_SAMPLING_RATE_HZ = 16_000

MPTB_CONFIGS = ("conversations", "channels", "decision_points")
TURN_END_CONFIGS = ("observations", "turns", "endpoints")

SCENES = {"noisy": ("noisy",), "clean": ("clean",), "both": ("noisy", "clean"), "none": ()}
"""What `audio=` may be, and the scenes that it asks for."""

_TEXT, _SECONDS, _FLAG = Value("string"), Value("float64"), Value("bool")

_METADATA = {
    "conversation_id": _TEXT,
    "conversation_type": _TEXT,
    "num_speakers": Value("int32"),
    "speakers": List(_TEXT),
    "duration_s": _SECONDS,
    "domain": _TEXT,
    "tone": _TEXT,
}

_SPAN = {"start": _SECONDS, "end": _SECONDS}
_TRACK = {"positives": List(_SECONDS), "negative_spans": List(_SPAN), "excluded_spans": List(_SPAN)}

_EVENT = {
    "id": _TEXT,
    "speaker": _TEXT,
    "label": _TEXT,
    "sublabel": _TEXT,
    "onset": _SECONDS,
    "offset": _SECONDS,
    "current_holder": _TEXT,
    "floor_outcome": _TEXT,
    "next_holder": _TEXT,
    "resolved_as": _TEXT,
    "floor_transfer_time": _SECONDS,
}

_UTTERANCE = {
    "src_index": Value("int32"),
    "speaker": _TEXT,
    "start_s": _SECONDS,
    "end_s": _SECONDS,
    "kind": _TEXT,
    "overlaps": _FLAG,
    "truncated": _FLAG,
    "text": _TEXT,
    "event_type": _TEXT,
    "timing_hint": _TEXT,
    "target": _TEXT,
    "resolved_hint": _TEXT,
    "sublabel": _TEXT,
}


def audio_columns(config: str, audio: str) -> dict[str, str]:
    """The audio columns of an MPTB table, each with the scene that it holds, for a value of `audio=`."""
    prefix = {"noisy": "audio_noisy" if config == "conversations" else "audio", "clean": "audio_clean"}
    return {prefix[scene]: scene for scene in SCENES[audio]}


def mptb_features(config: str, audio: str) -> Features:
    """The Features of `conversations`, `channels` or `decision_points`.

    Args:
        config: the table's name.
        audio: "noisy", "clean", "both" or "none"; a scene that is not asked for has no column.
    """
    channel = Audio(sampling_rate=MPTB_SAMPLING_RATE_HZ)
    columns = audio_columns(config, audio)
    if config == "conversations":
        return Features(
            {
                **_METADATA,
                **{name: List(channel) for name in columns},
                "voices": List({"speaker": _TEXT, "voice": _TEXT, "style": _TEXT}),
                "events": List(_EVENT),
                "anchors": List({"speaker": _TEXT, "track": _TEXT, **_TRACK}),
                "utterances": List(_UTTERANCE),
                "metadata_json": _TEXT,
                "noise_json": _TEXT,
            }
        )
    if config == "channels":
        return Features(
            {
                **_METADATA,
                "speaker": _TEXT,
                **dict.fromkeys(columns, channel),
                "eot": _TRACK,
                "int": _TRACK,
            }
        )
    return Features(
        {
            "key": _TEXT,
            "conversation_id": _TEXT,
            "speaker": _TEXT,
            "track": _TEXT,
            "kind": _TEXT,
            "label": Value("int32"),
            "start_s": _SECONDS,
            "end_s": _SECONDS,
            "at_s": _SECONDS,
            "event_id": _TEXT,
            "current_holder": _TEXT,
            "next_holder": _TEXT,
            "duration_s": _SECONDS,
            **_METADATA,
            **dict.fromkeys(columns, channel),
        }
    )
