"""One conversation's annotation files, checked: event log, script and render.

The field names are those of the MultiPartyTurnBench card, section 4. A value that the card does not
know (a label, a qualifier) or that cannot be (an event that ends before it starts) is a `CorpusError`
with the file and the field; keys that the card does not name are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import orjson

from .errors import CorpusError

EVENT_QUALIFIERS = {
    "TURN": ("floor_outcome", ("yield", "hold", "interrupted")),
    "CLAIM_FLOOR": ("resolved_as", ("INTERRUPTION", "NON_FLOOR_TAKING_INTERRUPTION")),
    "VOCALIZE_NO_CLAIM": ("sublabel", ("BACKCHANNEL", "LAUGHTER")),
}
"""Each event label of the card (4.1) with the field that qualifies it and that field's values."""

QUALIFIER_FIELDS = {label: field for label, (field, _) in EVENT_QUALIFIERS.items()}

MAX_S = 1e9
"""The latest time that is believed; as whole microseconds it still is an exact float."""

NO_HOLDER = (None, "", "none")
"""What a holder may be besides a speaker: nobody holds the floor, or the conversation is over."""


class EventLog(NamedTuple):
    """The checked content of an `events/<id>.json` file, but for its events.

    `events` are the file's own records, in its order; `anchors.log_anchors` checks them.
    """

    conversation_id: str
    conversation_type: str | None
    speakers: tuple[str, ...]
    duration_s: float
    metadata: Mapping[str, Any]
    events: Sequence[Mapping[str, Any]]


def load_json(data: bytes, source: str) -> Any:
    """Parse JSON, naming the file where it is not JSON.

    Raises:
        CorpusError: `data` is not UTF-8, not JSON or nested too deeply; the message gives line and column.
    """
    try:
        return orjson.loads(data.removeprefix(b"\xef\xbb\xbf"))  # a byte order mark, as some editors write
    except orjson.JSONDecodeError as error:
        raise CorpusError(
            f"{source}: not valid JSON at line {error.lineno}, column {error.colno}: {error.msg}"
        ) from None


def parse_event_log(content: Any, source: str) -> EventLog:
    """Check an event log (card, section 4.1).

    Args:
        content: the parsed JSON of `events/<id>.json`.
        source: the file's name, for messages.

    Returns:
        The log; times are seconds on the conversation clock.

    Raises:
        CorpusError: a field is missing, of the wrong type or out of range; the message names it.
    """
    log = _mapping(content, source, "the file")
    speakers = log.get("speakers")
    if not _is_list(speakers) or not speakers or not all(isinstance(name, str) and name for name in speakers):
        raise CorpusError(f"{source}: field 'speakers': expected a non-empty list of names, got {speakers!r}")
    if len(set(speakers)) != len(speakers):
        raise CorpusError(f"{source}: field 'speakers': a name stands twice in {speakers!r}")
    if log.get("num_speakers") not in (None, len(speakers)):
        raise CorpusError(
            f"{source}: field 'num_speakers': {log['num_speakers']!r} but {len(speakers)} speakers are listed"
        )
    duration_s = seconds(log.get("duration_s"), source, "duration_s")
    conversation_type = log.get("conversation_type")
    if conversation_type is not None and not isinstance(conversation_type, str):
        raise CorpusError(f"{source}: field 'conversation_type': expected text, got {conversation_type!r}")
    events = log.get("events")
    if not isinstance(events, list):
        raise CorpusError(f"{source}: field 'events': expected a list, got {type(events).__name__}")
    return EventLog(
        conversation_id=_text(log, "conversation_id", source),
        conversation_type=conversation_type,
        speakers=tuple(speakers),
        duration_s=duration_s,
        metadata=_mapping(log.get("metadata") or {}, source, "field 'metadata'"),
        events=events,
    )


def check_events(events: Iterable[Any], speakers: Sequence[str], source: str) -> None:
    """Check every record of an event log against the card's table (section 4.1).

    Raises:
        CorpusError: the first record at fault, named by its position, its id and the field.
    """
    seen: set[str] = set()
    for index, event in enumerate(events):
        _check_event(event, speakers, seen, f"{source}: events[{index}]")
        seen.add(event["id"])


def _check_event(event: Any, speakers: Sequence[str], seen: set[str], where: str) -> None:
    event = _mapping(event, where, "an event")
    event_id = event.get("id")
    where = f"{where} (id {event_id!r})"
    if not isinstance(event_id, str) or event_id in seen:
        raise CorpusError(f"{where}: field 'id': expected a text that no other event has")
    _one_of(event, "speaker", speakers, where)
    _one_of(event, "label", tuple(EVENT_QUALIFIERS), where)
    field, values = EVENT_QUALIFIERS[event["label"]]
    _one_of(event, field, values, f"{where}, a {event['label']}")
    onset_s = seconds(event.get("onset"), where, "onset")
    offset_s = seconds(event.get("offset"), where, "offset")
    if offset_s < onset_s:
        raise CorpusError(f"{where}: field 'offset': ends at {offset_s} s before its onset at {onset_s} s")
    if event.get("floor_transfer_time") is not None:
        seconds(event["floor_transfer_time"], where, "floor_transfer_time")
    for name in ("current_holder", "next_holder"):
        if event.get(name) not in NO_HOLDER:
            _one_of(event, name, speakers, where)


def join_utterances(
    script: Any, render: Any, *, speakers: Sequence[str], script_source: str, render_source: str
) -> list[dict[str, Any]]:
    """Join every rendered clip to the script utterance that it speaks (card, section 4.3).

    Args:
        script: the parsed `scripts/<id>.json`; its utterances are a list of objects with `text`.
        render: the parsed `render/<id>.json`; its clips are a list of objects with `src_index`, the
            position (or `index`) of the utterance in the script.
        speakers: the conversation's speakers.
        script_source: the script's file name, for messages.
        render_source: the render's file name, for messages.

    Returns:
        One dict per clip in the render's order: the clip's own fields and the script's `text`,
        `event_type`, `timing_hint`, `target`, `resolved_hint` and `sublabel` (None where absent).

    Raises:
        CorpusError: no such list, a clip whose `src_index` is not in the script, or a bad time.
    """
    utterances = _records(script, "utterances", "text", script_source)
    clips = _records(render, "clips", "src_index", render_source)
    for by_index in _indexings(utterances):
        try:
            rows = [{**by_index[clip["src_index"]], **clip} for clip in clips]
            if all(
                row["speaker"] in speakers and 0 <= row["start_s"] <= row["end_s"] <= MAX_S for row in rows
            ):
                return rows
        except (KeyError, TypeError):
            continue
    by_position = dict(enumerate(utterances))
    return [
        _check_clip(clip, by_position, speakers, f"{render_source}: clips[{position}]", script_source)
        for position, clip in enumerate(clips)
    ]


def _indexings(utterances: Sequence[Any]) -> Iterator[Mapping[Any, Any]]:
    """What a clip's `src_index` may refer to: the utterances' `index` fields, else their positions."""
    with suppress(KeyError, TypeError):
        yield {utterance["index"]: utterance for utterance in utterances}
    yield dict(enumerate(utterances))


def _check_clip(
    clip: Any, by_index: Mapping[Any, Any], speakers: Sequence[str], where: str, script_source: str
) -> dict[str, Any]:
    clip = _mapping(clip, where, "a clip")
    index = clip.get("src_index")
    utterance = by_index.get(index) if isinstance(index, int) else None
    if not isinstance(utterance, Mapping):
        raise CorpusError(
            f"{where}: field 'src_index': {index!r} is none of the {len(by_index)} utterances "
            f"of {script_source}"
        )
    row = {**utterance, **clip}
    _one_of(row, "speaker", speakers, where)
    start_s = seconds(row.get("start_s"), where, "start_s")
    end_s = seconds(row.get("end_s"), where, "end_s")
    if end_s < start_s:
        raise CorpusError(f"{where}: field 'end_s': ends at {end_s} s before its start at {start_s} s")
    return row


def seconds(value: Any, source: str, field: str) -> float:
    """A time of the corpus as a float: a finite number of seconds, not negative.

    Raises:
        CorpusError: anything else.
    """
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= MAX_S:
        return float(value)
    shown = repr(value) if len(repr(value)) < 60 else f"{repr(value)[:60]}..."
    raise CorpusError(f"{source}: field '{field}': expected a time in seconds (finite, >= 0), got {shown}")


def _records(content: Any, name: str, known_field: str, source: str) -> Sequence[Any]:
    """The list called `name`, or else the first list of objects that have `known_field`."""
    if _is_list(content):
        return content
    content = _mapping(content, source, "the file")
    if _is_list(content.get(name)):
        return content[name]
    for value in content.values():
        if _is_list(value) and value and isinstance(value[0], Mapping) and known_field in value[0]:
            return value
    raise CorpusError(f"{source}: field '{name}': expected a list of objects with '{known_field}'")


def _text(record: Mapping[str, Any], field: str, source: str) -> str:
    value = record.get(field)
    if not isinstance(value, str) or not value:
        raise CorpusError(f"{source}: field '{field}': expected a text, got {value!r}")
    return value


def _one_of(record: Mapping[str, Any], field: str, values: Sequence[str], where: str) -> None:
    if record.get(field) not in tuple(values):
        raise CorpusError(
            f"{where}: field '{field}': {record.get(field)!r} is not one of {', '.join(values)}"
        )


def _mapping(value: Any, source: str, what: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise CorpusError(f"{source}: {what}: expected an object, got {type(value).__name__}")
    return value


def _is_list(value: Any) -> bool:
    return isinstance(value, list)
