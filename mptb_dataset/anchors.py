"""Anchors: the times and spans that decisions are scored against.

The rules are those of the MultiPartyTurnBench card, section 4.1:

| event | becomes, on its speaker's channel |
|---|---|
| TURN, yield | EOT positive at `offset` |
| TURN, hold | EOT hard negative over [`offset`, onset of the same speaker's next TURN] |
| TURN, interrupted | EOT excluded over [`offset` - 0.25 s, `offset` + 0.25 s] |
| CLAIM_FLOOR, INTERRUPTION | INT positive at `onset` |
| CLAIM_FLOOR, NON_FLOOR_TAKING_INTERRUPTION | INT excluded over [`onset`, `offset`] |
| VOCALIZE_NO_CLAIM | INT hard negative over [`onset`, `offset`] |

A track of a channel is `{"positives": [t, ...], "negative_spans": [[start, end], ...],
"excluded_spans": [[start, end], ...]}`, ascending, in seconds.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .annotations import check_events, load_json, seconds
from .errors import CorpusError

TRACKS = ("eot", "int")
"""End of turn and interruption; the card's files write them in capitals."""

EXCLUSION_S = 0.25
"""Half width of the excluded span around the offset of an interrupted turn (card, 4.1)."""

Track = dict[str, list[Any]]
Anchors = dict[str, dict[str, Track]]

_LISTS = ("positives", "negative_spans", "excluded_spans")


class Anchor(NamedTuple):
    """One anchor with the event that it comes from; `start_s == end_s` for a positive."""

    track: str
    role: str  # one of the lists of a track
    kind: str  # yield, hold, interrupted, interruption, failed_claim, backchannel, laughter
    start_s: float
    end_s: float
    event: Mapping[str, Any]


def event_anchors(events: Sequence[Mapping[str, Any]], *, source: str = "event log") -> list[Anchor]:
    """Turn checked event records into anchors, in the log's order.

    Args:
        events: records as `annotations.check_events` accepts them.
        source: the file's name, for messages.

    Raises:
        CorpusError: a hold that its speaker never resumes.
    """
    turn_onsets: dict[str, list[float]] = {}
    for event in events:
        if event["label"] == "TURN":
            turn_onsets.setdefault(event["speaker"], []).append(float(event["onset"]))
    return [_anchor(event, turn_onsets, source) for event in events]


def _anchor(event: Mapping[str, Any], turn_onsets: Mapping[str, Sequence[float]], source: str) -> Anchor:
    onset, offset = float(event["onset"]), float(event["offset"])
    if event["label"] == "VOCALIZE_NO_CLAIM":
        return Anchor("int", "negative_spans", event["sublabel"].lower(), onset, offset, event)
    if event["label"] == "CLAIM_FLOOR":
        if event["resolved_as"] == "INTERRUPTION":
            return Anchor("int", "positives", "interruption", onset, onset, event)
        return Anchor("int", "excluded_spans", "failed_claim", onset, offset, event)
    outcome = event["floor_outcome"]
    if outcome == "yield":
        return Anchor("eot", "positives", "yield", offset, offset, event)
    if outcome == "interrupted":
        # Rounded to the microseconds that scoring compares: 9.6 - 0.25 must not be 9.349999999999998.
        start, end = round(max(0.0, offset - EXCLUSION_S), 6), round(offset + EXCLUSION_S, 6)
        return Anchor("eot", "excluded_spans", "interrupted", start, end, event)
    resumes = [other for other in turn_onsets[event["speaker"]] if other >= offset and other > onset]
    if not resumes:
        raise CorpusError(
            f"{source}: event {event['id']!r}: a hold of {event['speaker']} at {offset} s that is never resumed: "
            "expected a later TURN of the same speaker"
        )
    return Anchor("eot", "negative_spans", "hold", offset, min(resumes), event)


def derive_anchors(events: Iterable[Mapping[str, Any]], speakers: Iterable[str]) -> Anchors:
    """Derive the scoring anchors of a conversation from its event log.

    Args:
        events: the records of the log's `events` list.
        speakers: all speakers of the conversation; each gets both tracks, empty where nothing happened.

    Returns:
        `{speaker: {"eot": track, "int": track}}`, a track as in the module's docstring.

    Raises:
        CorpusError: an event that the card does not know, or a hold that is never resumed.

    Examples:
        >>> turn = {"id": "e1", "speaker": "speaker_1", "label": "TURN", "onset": 0.0, "offset": 2.5,
        ...         "floor_outcome": "yield"}
        >>> derive_anchors([turn], ["speaker_1"])["speaker_1"]["eot"]
        {'positives': [2.5], 'negative_spans': [], 'excluded_spans': []}
    """
    events, speakers = list(events), list(speakers)
    check_events(events, speakers, "event log")
    return collect_anchors(event_anchors(events), speakers)


def collect_anchors(anchors: Iterable[Anchor], speakers: Iterable[str]) -> Anchors:
    """Gather anchors by speaker and track, each list ascending."""
    collected = {speaker: {track: _empty_track() for track in TRACKS} for speaker in speakers}
    for anchor in anchors:
        times = anchor.start_s if anchor.role == "positives" else [anchor.start_s, anchor.end_s]
        collected[anchor.event["speaker"]][anchor.track][anchor.role].append(times)
    for tracks in collected.values():
        for lists in tracks.values():
            for values in lists.values():
                values.sort()
    return collected


def read_anchors(source: str | os.PathLike[str] | Mapping[str, Any]) -> Anchors:
    """Read an anchors file of the corpus.

    The card leaves the file's shape open, so several are understood: with or without the outer
    `{"anchors": ...}`, speaker -> track or track -> speaker, track names in any case, spans as pairs
    or `{start, end}` or `{onset, offset}`, positives as numbers or `{time}` or `{t}`.

    Args:
        source: a path, or the file's parsed content.

    Returns:
        `{speaker: {"eot": track, "int": track}}` for the speakers of the file; a track that it
        leaves out is empty.

    Raises:
        CorpusError: anything else; the message names the file, the speaker, the track and the index.
    """
    if isinstance(source, Mapping):
        return parse_anchors(source, "anchors")
    path = Path(source)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise CorpusError(f"{path}: cannot be read: {error.strerror}") from None
    return parse_anchors(load_json(data, str(path)), str(path))


def parse_anchors(content: Any, source: str) -> Anchors:
    """Understand the parsed content of an anchors file; see `read_anchors`."""
    if isinstance(content, Mapping):
        content = content.get("anchors", content)
    if not isinstance(content, Mapping):
        raise CorpusError(f"{source}: field 'anchors': expected an object of speakers or tracks")
    outer = {key: value for key, value in content.items() if isinstance(value, Mapping)}
    if content and not outer:
        raise CorpusError(f"{source}: field 'anchors': expected an object of speakers or tracks")
    by_track = bool(outer) and all(_is_track(key) for key in outer)
    anchors: Anchors = {}
    for first, inner in outer.items():
        for second, lists in inner.items():
            speaker, track = (second, first) if by_track else (first, second)
            where = f"{source}: {speaker}, track {track!r}"
            if not _is_track(track):
                raise CorpusError(f"{where}: expected one of EOT, INT")
            tracks = anchors.setdefault(speaker, {name: _empty_track() for name in TRACKS})
            tracks[str(track).lower()] = _parse_track(lists, where)
        if not by_track:
            anchors.setdefault(first, {name: _empty_track() for name in TRACKS})
    return anchors


def _parse_track(lists: Any, where: str) -> Track:
    if not isinstance(lists, Mapping):
        raise CorpusError(f"{where}: expected an object with {', '.join(_LISTS)}")
    unknown = sorted(set(lists) - set(_LISTS))
    if unknown:
        raise CorpusError(f"{where}: field {unknown[0]!r}: expected one of {', '.join(_LISTS)}")
    values = {name: lists.get(name) if lists.get(name) is not None else [] for name in _LISTS}
    for name, value in values.items():
        if not isinstance(value, (list, tuple)):
            raise CorpusError(f"{where}: field '{name}': expected a list, got {type(value).__name__}")
    track: Track = {
        "positives": [_positive(v, where, f"positives[{i}]") for i, v in enumerate(values["positives"])]
    }
    for name in _LISTS[1:]:
        track[name] = [_span(v, where, f"{name}[{i}]") for i, v in enumerate(values[name])]
    return {name: sorted(track[name]) for name in _LISTS}


def _positive(value: Any, where: str, field: str) -> float:
    if isinstance(value, Mapping):
        value = value.get("time", value.get("t"))
    return seconds(value, where, field)


def _span(value: Any, where: str, field: str) -> list[float]:
    if isinstance(value, Mapping):
        value = [value.get("start", value.get("onset")), value.get("end", value.get("offset"))]
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        raise CorpusError(f"{where}: field '{field}': expected [start, end], got {value!r}")
    start_s, end_s = (seconds(time, where, field) for time in value)
    if end_s < start_s:
        raise CorpusError(f"{where}: field '{field}': ends at {end_s} s before its start at {start_s} s")
    return [start_s, end_s]


def _is_track(name: Any) -> bool:
    return isinstance(name, str) and name.lower() in TRACKS


def _empty_track() -> Track:
    return {name: [] for name in _LISTS}
