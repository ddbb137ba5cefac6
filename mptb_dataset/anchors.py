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
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from .annotations import MAX_S, NO_HOLDER, QUALIFIER_FIELDS, check_events, load_json, seconds
from .errors import CorpusError

TRACKS = ("eot", "int")
"""End of turn and interruption; the card's files write them in capitals."""

EXCLUSION_S = 0.25
"""Half width of the excluded span around the offset of an interrupted turn (card, 4.1)."""

Track = dict[str, list[Any]]
Anchors = dict[str, dict[str, Track]]

_LISTS = ("positives", "negative_spans", "excluded_spans")

_BECOMES = {
    ("TURN", "yield"): ("eot", "positives", "yield"),
    ("TURN", "hold"): ("eot", "negative_spans", "hold"),
    ("TURN", "interrupted"): ("eot", "excluded_spans", "interrupted"),
    ("CLAIM_FLOOR", "INTERRUPTION"): ("int", "positives", "interruption"),
    ("CLAIM_FLOOR", "NON_FLOOR_TAKING_INTERRUPTION"): ("int", "excluded_spans", "failed_claim"),
    ("VOCALIZE_NO_CLAIM", "BACKCHANNEL"): ("int", "negative_spans", "backchannel"),
    ("VOCALIZE_NO_CLAIM", "LAUGHTER"): ("int", "negative_spans", "laughter"),
}
"""An event's label and qualifier, and the track, the list and the kind of its anchor."""


Anchor = tuple[str, str, str | None, float, float, Mapping[str, Any]]
"""One anchor: its track, its role (a list of the track), its kind, start and end in seconds (equal for a
positive) and the event that it comes from. The kinds are yield, hold, interrupted, interruption,
failed_claim, backchannel and laughter."""


def log_anchors(
    events: Sequence[Any], speakers: Sequence[str], *, source: str = "event log"
) -> tuple[list[Anchor], Anchors]:
    """Check the records of an event log and turn them into anchors.

    Args:
        events: the records of the log's `events` list.
        speakers: all speakers of the conversation.
        source: the file's name, for messages.

    Returns:
        The anchors in the log's order, and the same anchors by speaker and track, each list ascending.

    Raises:
        CorpusError: a record at fault, as `annotations.check_events` names it, or a hold that its speaker
            never resumes.
    """
    with suppress(KeyError, TypeError, AttributeError, _DoubtError):
        return _log_anchors(events, speakers, source, checked=False)
    check_events(events, speakers, source)
    return _log_anchors(events, speakers, source, checked=True)


class _DoubtError(Exception):
    """A record that has to be looked at closely."""


def _log_anchors(
    events: Sequence[Any], speakers: Sequence[str], source: str, *, checked: bool
) -> tuple[list[Anchor], Anchors]:
    """The anchors; where records are in doubt and not checked yet, `_DoubtError` or what a lookup raises.

    A corpus has thousands of records, nearly all beyond doubt: looking on the way costs half as much as
    looking first.
    """
    found: list[Anchor] = []
    collected = {speaker: {track: _empty_track() for track in TRACKS} for speaker in speakers}
    holders = {*speakers, *NO_HOLDER}
    turn_onsets: dict[str, list[float]] = {}
    for event in events:
        label, speaker, onset_s, offset_s = event["label"], event["speaker"], event["onset"], event["offset"]
        track, role, kind = _BECOMES[label, event[QUALIFIER_FIELDS[label]]]
        times = collected[speaker][track][role]
        if checked:
            onset_s, offset_s = float(onset_s), float(offset_s)
        elif not (
            type(onset_s) is float
            and type(offset_s) is float
            and type(transfer_s := event.get("floor_transfer_time", 0.0)) is float
            and 0.0 <= onset_s <= offset_s <= MAX_S
            and 0.0 <= transfer_s <= MAX_S
            and event.get("current_holder") in holders
            and event.get("next_holder") in holders
        ):
            raise _DoubtError
        start_s, end_s = onset_s, offset_s
        if kind == "yield":
            start_s = offset_s
        elif kind == "interruption":
            end_s = onset_s
        elif kind == "hold":
            if speaker not in turn_onsets:
                turn_onsets[speaker] = _turn_onsets(events, speaker)
            resume_s = _resume_s(event, turn_onsets[speaker])
            if resume_s is None:
                raise _never_resumed(event, source) if checked else _DoubtError
            start_s, end_s = offset_s, resume_s
        elif kind == "interrupted":
            # Rounded to the microseconds that scoring compares: 9.6 - 0.25 must not be 9.349999999999998.
            start_s, end_s = round(max(0.0, offset_s - EXCLUSION_S), 6), round(offset_s + EXCLUSION_S, 6)
        found.append((track, role, kind, start_s, end_s, event))
        times.append(start_s if role == "positives" else [start_s, end_s])
    ids = {event["id"] for event in events}
    if not checked and not (len(ids) == len(events) and {str}.issuperset(map(type, ids))):
        raise _DoubtError
    for tracks in collected.values():
        for lists in tracks.values():
            for times in lists.values():
                times.sort()
    return found, collected


def _turn_onsets(events: Sequence[Mapping[str, Any]], speaker: str) -> list[float]:
    """When a speaker's turns begin, ascending."""
    return sorted(
        event["onset"] for event in events if event["label"] == "TURN" and event["speaker"] == speaker
    )


def _resume_s(hold: Mapping[str, Any], turn_onsets: Sequence[float]) -> float | None:
    """When the speaker of a hold goes on: the onset of their next TURN, which is not the hold itself."""
    onset_s, offset_s = hold["onset"], hold["offset"]
    later = bisect_left(turn_onsets, offset_s) if offset_s > onset_s else bisect_right(turn_onsets, onset_s)
    return float(turn_onsets[later]) if later < len(turn_onsets) else None


def _never_resumed(hold: Mapping[str, Any], source: str) -> CorpusError:
    return CorpusError(
        f"{source}: event {hold['id']!r}: field 'floor_outcome': a hold of {hold['speaker']} at "
        f"{hold['offset']} s that is never resumed: expected a later TURN of the same speaker"
    )


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
    return log_anchors(list(events), list(speakers))[1]


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
    if unknown and not set(_LISTS) <= set(lists):  # next to all three lists, it is no misspelt one
        raise CorpusError(f"{where}: field {unknown[0]!r}: expected one of {', '.join(_LISTS)}")
    values = {name: [] if lists.get(name) is None else lists[name] for name in _LISTS}
    for name, value in values.items():
        if not isinstance(value, (list, tuple)):
            raise CorpusError(f"{where}: field '{name}': expected a list, got {type(value).__name__}")
    parse = {"positives": _positive, "negative_spans": _span, "excluded_spans": _span}
    return {
        name: sorted(parse[name](item, where, f"{name}[{index}]") for index, item in enumerate(values[name]))
        for name in _LISTS
    }


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
