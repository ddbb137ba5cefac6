"""The submission file: decisions of every channel of a split as strict JSON.

Written form, one entry per conversation::

    {"schema_version": 1, "detector": "energy", "audit": {...},
     "predictions": [{"conversation_id": "test_00001", "speaker_1": {"eot": [4.2], "int": []}, ...}, ...]}

`detector` and `audit` are optional. Also read: `interruption` for `int`, track names in any case, and the
mapping ``{conversation_id: {speaker: {"EOT": [...], "INT": [...]}}}``.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .predictions import TRACKS, Faults, channel_durations, checked_rows, read_rows, shown

SCHEMA_VERSION = 1
ALIASES = {"interruption": "int"}
RECORDS = {"detector": (str, "text"), "audit": (dict, "an object")}
LONGEST_INT = 300  # digits; more do not fit a float and Python refuses to parse a few thousand


@dataclass(frozen=True)
class Submission:
    """A submission file.

    Attributes:
        rows: a row per channel: `conversation_id`, `speaker`, `eot` and `int` in seconds.
        detector: the name of what made it, if the file says.
        audit: the record of a causality audit, if there is one.
    """

    rows: list[dict[str, Any]]
    detector: str | None = None
    audit: dict[str, Any] | None = None


class _Object(dict[str, Any]):
    """A JSON object that remembers keys that it had twice."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.repeated = [] if len(self) == len(pairs) else _repeated([key for key, _ in pairs])


def load_submission(path: str | os.PathLike[str], channels: Any = None) -> list[dict[str, Any]]:
    """Read a submission file as prediction rows; `read_submission` also gives its records.

    Args:
        path: the file.
        channels: the split's rows (a Dataset, a list of dicts, ...) with `conversation_id`, `speaker` and
            `duration_s`; other columns are not read. Given, the file must cover exactly these channels, and
            no time may be past the conversation's end plus 3 s.

    Returns:
        A row {conversation_id, speaker, eot, int} per channel, times in seconds; in the order of `channels`,
        else of the file.

    Raises:
        SubmissionError: with every fault of the file.
        OSError: the file cannot be read.
        ValueError: bad `channels`.
    """
    return read_submission(path, channels).rows


def read_submission(path: str | os.PathLike[str], channels: Any = None) -> Submission:
    """Read a submission file with its records; arguments and errors are those of `load_submission`."""
    durations_s = None if channels is None else channel_durations(channels)
    faults = Faults()
    content = _parse(Path(path).read_bytes(), faults)
    faults.raise_any(str(path))
    records = _records(content, faults)
    rows = checked_rows(list(_rows(content, faults)), durations_s, faults)
    faults.raise_any(str(path))
    return Submission(rows, **records)


def write_submission(
    path: str | os.PathLike[str],
    rows: Any,
    *,
    detector: str | None = None,
    audit: dict[str, Any] | None = None,
) -> None:
    """Write prediction rows as a submission file: whole or not at all, the same bytes for the same content.

    Args:
        path: the file; it is replaced at once, when its content is complete.
        rows: a row {conversation_id, speaker, eot, int} per channel, in any order.
        detector: the name of what made them.
        audit: the record of a causality audit.

    Raises:
        SubmissionError: rows that `load_submission` would refuse; nothing is written.
        ValueError: an audit that is not JSON.
    """
    faults = Faults()
    checked = checked_rows(
        read_rows(rows, ("conversation_id", "speaker", *TRACKS), name="rows"), None, faults
    )
    faults.raise_any(str(path))
    conversations: dict[str, dict[str, Any]] = {}
    for row in sorted(checked, key=lambda row: (row["conversation_id"], row["speaker"])):
        entry = conversations.setdefault(row["conversation_id"], {"conversation_id": row["conversation_id"]})
        entry[row["speaker"]] = {track: row[track] for track in TRACKS}
    head = {"schema_version": SCHEMA_VERSION, "detector": detector, "audit": audit}
    lines = [f"{json.dumps(k)}: {_dumps(v)}" for k, v in head.items() if v is not None]
    entries = ",\n".join(map(_dumps, conversations.values()))
    _replace(Path(path), "{" + ",\n".join([*lines, f'"predictions": [\n{entries}\n]']) + "}\n")


def _parse(content: bytes, faults: Faults) -> _Object:
    try:
        parsed = json.loads(
            content.decode("utf-8-sig"),
            object_pairs_hook=_Object,
            parse_int=lambda digits: int(digits) if len(digits) <= LONGEST_INT else float(digits),
        )
    except UnicodeDecodeError as error:
        faults.add(f"not UTF-8: {error.reason} at byte {error.start}")
    except json.JSONDecodeError as error:
        faults.add(f"invalid JSON: line {error.lineno}, column {error.colno}: {error.msg}")
    except RecursionError:
        faults.add("invalid JSON: nested too deeply")
    else:
        if isinstance(parsed, _Object):
            return parsed
        faults.add(f"expected an object at the top, got {shown(parsed)}")
    return _Object([])


def _records(content: _Object, faults: Faults) -> dict[str, Any]:
    """Take out the optional records, and check what else is at the top."""
    for key in content.repeated:
        faults.add(f"key {shown(key)} is there twice")
    records = {name: content[name] for name in RECORDS if name in content}
    for name, value in records.items():
        kind, expected = RECORDS[name]
        if not isinstance(value, kind):
            faults.add(f"{name}: expected {expected}, got {shown(value)}")
    if _is_written_form(content):
        version, predictions = content.get("schema_version"), content.get("predictions")
        if type(version) is not int or version != SCHEMA_VERSION:
            faults.add(f"schema_version: expected {SCHEMA_VERSION}, got {shown(version)}")
        if not isinstance(predictions, list):
            faults.add(f"predictions: expected a list, got {shown(predictions)}")
        for key in sorted(content.keys() - {"schema_version", "predictions", *RECORDS}):
            faults.add(f"unknown key {shown(key)} at the top")
    return records


def _is_written_form(content: _Object) -> bool:
    return "schema_version" in content or "predictions" in content


def _rows(content: _Object, faults: Faults) -> Iterator[dict[str, Any]]:
    """Give a row per speaker in the file, tracks under their plain names."""
    for conversation_id, speakers in _conversations(content, faults):
        if not isinstance(speakers, _Object):
            faults.add(f"expected an object of speakers, got {shown(speakers)}", conversation_id)
            continue
        for speaker in speakers.repeated:
            faults.add("is there twice", conversation_id, speaker)
        for speaker, tracks in speakers.items():
            if isinstance(tracks, _Object):
                found = _tracks(tracks, conversation_id, speaker, faults)
            else:
                faults.add(f"expected an object of tracks, got {shown(tracks)}", conversation_id, speaker)
                found = {track: [] for track in TRACKS}  # the speaker is there, so it is not missing as well
            yield {"conversation_id": conversation_id, "speaker": speaker, **found}


def _conversations(content: _Object, faults: Faults) -> Iterator[tuple[str, Any]]:
    if not _is_written_form(content):
        yield from ((key, value) for key, value in content.items() if key not in RECORDS)
        return
    entries = content.get("predictions")
    seen: set[str] = set()
    for i, entry in enumerate(entries if isinstance(entries, list) else ()):
        conversation_id = entry.get("conversation_id") if isinstance(entry, _Object) else None
        if not isinstance(conversation_id, str) or not conversation_id:
            faults.add(f"predictions[{i}]: expected an object with a conversation_id, got {shown(entry)}")
            continue
        if conversation_id in seen:
            faults.add("is there twice", conversation_id)
            continue
        seen.add(conversation_id)
        speakers = _Object([(key, value) for key, value in entry.items() if key != "conversation_id"])
        speakers.repeated = entry.repeated
        yield conversation_id, speakers


def _tracks(tracks: _Object, conversation_id: str, speaker: str, faults: Faults) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in tracks.repeated:
        faults.add("is there twice", conversation_id, speaker, name)
    for name, times_s in tracks.items():
        track = ALIASES.get(name.lower(), name.lower())
        if track not in TRACKS:
            faults.add("unknown track", conversation_id, speaker, name)
        elif track in found:
            faults.add(f"is there twice, as {name!r} too", conversation_id, speaker, track)
        else:
            found[track] = times_s
    return found


def _repeated(keys: Sequence[str]) -> list[str]:
    return sorted(key for key, times in Counter(keys).items() if times > 1)


def _dumps(value: Any) -> str:
    return json.dumps(value, allow_nan=False, sort_keys=True)


def _replace(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
