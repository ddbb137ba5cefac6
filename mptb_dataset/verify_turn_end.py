"""turn-end-detection against itself: labels, joins, lengths, with counts and first examples."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import soundfile

from .errors import CorpusError
from .schemas import TURN_END_CONFIGS
from .turn_end import TurnEndFiles, read_columns, read_shards

KIND_LABELS = {
    "payload_cut": 0,
    "trailing_frag": 0,
    "mid_thought_cut": 0,
    "word_cut": 0,
    "chunk_cut": 1,
    "complete": 1,
}
"""The label that each kind of observation must have (card, "Labels")."""

LENGTH_TOLERANCE_S = 0.05
"""How far `at_s` may lie past the audio, and `audio_duration_s` from it: times are rounded to 10 ms."""


@dataclass(frozen=True)
class Problem:
    """Something wrong in a corpus.

    Attributes:
        file: where, relative to the root.
        message: what, with the field and what was expected.
        count: how many rows or files are affected.
        examples: the first of them.
    """

    file: str
    message: str
    count: int = 1
    examples: tuple[str, ...] = ()

    def __str__(self) -> str:
        text = f"{self.file}: {self.message}"
        if self.examples:
            text += f" ({self.count} in all, first: {', '.join(self.examples)})"
        return text


def verify_turn_end(
    root: str, *, progress: Callable[[int, int], None] | None = None
) -> tuple[list[Problem], dict[str, int]]:
    """Check a turn-end-detection tree.

    Per split: keys are unique; `label` is the one of its `kind`; an observation's turn exists and holds
    `at_s`; `audio_duration_s` is the audio's; an endpoint's turn exists and has its duration, and
    `cut_early` says whether `first_endpoint_s < audio_duration_s` (false where nothing fired).

    Returns:
        The problems, and how many rows of each table were looked at.
    """
    problems: list[Problem] = []
    checked: dict[str, int] = {}
    tables = {name: _files(root, name, problems) for name in TURN_END_CONFIGS}
    splits = sorted({split for files in tables.values() if files for split in files.splits})
    for done, split in enumerate(splits):
        rows = {
            name: _rows(files, split, problems)
            for name, files in tables.items()
            if files is not None and split in files.splits
        }
        for name, found in rows.items():
            checked[name] = checked.get(name, 0) + len(found)
        turns = _index(rows.get("turns", []), "turn_key", f"turns, {split}", problems)
        if "observations" in rows:
            _check_observations(rows["observations"], turns, "turns" in rows, split, problems)
        if "endpoints" in rows:
            _check_endpoints(rows["endpoints"], turns, "turns" in rows, split, problems)
        _check_durations(rows.get("turns", []), split, problems)
        if progress:
            progress(done + 1, len(splits))
    return problems, checked


def _files(root: str, config: str, problems: list[Problem]) -> TurnEndFiles | None:
    try:
        return TurnEndFiles(root, config)
    except CorpusError as error:
        problems.append(Problem(config, str(error)))
        return None


_COLUMNS = {
    "observations": ["key", "turn_key", "at_s", "label", "kind"],
    "endpoints": ["turn_key", "arm", "first_endpoint_s", "audio_duration_s", "cut_early"],
}


def _rows(files: TurnEndFiles, split: str, problems: list[Problem]) -> list[dict[str, Any]]:
    try:
        if files.config == "turns":
            return list(_turn_lengths(files, split))
        columns = read_columns(files, split, _COLUMNS[files.config])
        return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    except CorpusError as error:
        problems.append(Problem(f"{files.config}, {split}", str(error)))
        return []


def _turn_lengths(files: TurnEndFiles, split: str) -> Iterable[dict[str, Any]]:
    """Each turn's key and duration, with the length of its audio instead of the audio."""
    features = files.features(split, ["turn_key", "audio", "audio_duration_s"])
    for table in read_shards(files, files.shards(split), features):
        for row in table.to_pylist():
            audio = row.pop("audio") or {}
            yield {**row, "length_s": _length_s(audio, os.path.dirname(files.files[split][0]))}


def _length_s(audio: Mapping[str, Any], folder: str) -> float | str:
    """Seconds of audio by its header, or what is wrong with it."""
    data, path = audio.get("bytes"), audio.get("path")
    if not data and not path:
        return "no audio"
    try:
        info = soundfile.info(io.BytesIO(data) if data else os.path.join(folder, path))
    except (soundfile.LibsndfileError, OSError) as error:
        return str(error)
    return info.frames / info.samplerate


def _index(
    rows: Iterable[dict[str, Any]], key: str, where: str, problems: list[Problem]
) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    twice = []
    for row in rows:
        if row[key] in found:
            twice.append(row[key])
        found[row[key]] = row
    _add(problems, where, f"field '{key}' stands more than once", twice)
    return found


def _check_observations(
    rows: list[dict[str, Any]],
    turns: Mapping[str, dict[str, Any]],
    join: bool,
    split: str,
    problems: list[Problem],
) -> None:
    where = f"observations, {split}"
    _index(rows, "key", where, problems)
    _add(
        problems,
        where,
        f"field 'kind': expected one of {', '.join(KIND_LABELS)}",
        [f"{row['key']} is {row['kind']!r}" for row in rows if row["kind"] not in KIND_LABELS],
    )
    _add(
        problems,
        where,
        "field 'label' is not the one of its 'kind'",
        [
            f"{row['key']} is {row['kind']} with label {row['label']}"
            for row in rows
            if row["kind"] in KIND_LABELS and row["label"] != KIND_LABELS[row["kind"]]
        ],
    )
    if not join:
        return
    orphans = [row for row in rows if row["turn_key"] not in turns]
    _add(problems, where, "field 'turn_key': no such turn", [row["key"] for row in orphans])
    late = []
    for row in rows:
        length_s = turns.get(row["turn_key"], {}).get("length_s")
        if isinstance(length_s, float) and not 0 <= (row["at_s"] or 0.0) <= length_s + LENGTH_TOLERANCE_S:
            late.append(f"{row['key']} at {row['at_s']} s of {length_s:.3f} s")
    _add(problems, where, "field 'at_s' lies outside the turn's audio", late)
    _add(problems, where, "field 'at_s' is null", [row["key"] for row in rows if row["at_s"] is None])


def _check_durations(rows: list[dict[str, Any]], split: str, problems: list[Problem]) -> None:
    where = f"turns, {split}"
    _add(
        problems,
        where,
        "field 'audio': expected FLAC",
        [f"{row['turn_key']}: {row['length_s']}" for row in rows if isinstance(row["length_s"], str)],
    )
    _add(
        problems,
        where,
        "field 'audio_duration_s' is not the audio's length",
        [
            f"{row['turn_key']} has {row['audio_duration_s']}, the audio {row['length_s']:.3f} s"
            for row in rows
            if isinstance(row["length_s"], float)
            and not abs((row["audio_duration_s"] or 0.0) - row["length_s"]) <= LENGTH_TOLERANCE_S
        ],
    )


def _check_endpoints(
    rows: list[dict[str, Any]],
    turns: Mapping[str, dict[str, Any]],
    join: bool,
    split: str,
    problems: list[Problem],
) -> None:
    where = f"endpoints, {split}"
    names = [f"{row['turn_key']}, {row['arm']}" for row in rows]
    _index([{"turn_key, arm": name} for name in names], "turn_key, arm", where, problems)
    wrong = []
    for row, name in zip(rows, names, strict=True):
        fired = row["first_endpoint_s"]
        early = fired is not None and fired < row["audio_duration_s"]
        if row["cut_early"] != early:
            wrong.append(f"{name}: {row['cut_early']} with {fired} s of {row['audio_duration_s']} s")
    _add(problems, where, "field 'cut_early' is not first_endpoint_s < audio_duration_s", wrong)
    if not join:
        return
    orphans = [name for row, name in zip(rows, names, strict=True) if row["turn_key"] not in turns]
    _add(problems, where, "field 'turn_key': no such turn", orphans)
    differs = [
        name
        for row, name in zip(rows, names, strict=True)
        if row["turn_key"] in turns and row["audio_duration_s"] != turns[row["turn_key"]]["audio_duration_s"]
    ]
    _add(problems, where, "field 'audio_duration_s' is not the turn's", differs)


def _add(problems: list[Problem], where: str, message: str, examples: list[str]) -> None:
    if examples:
        problems.append(Problem(where, message, len(examples), tuple(str(e) for e in examples[:3])))
