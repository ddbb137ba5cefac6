"""turn-end-detection against itself: labels, joins, lengths, with counts and first examples."""

from __future__ import annotations

import io
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from datasets import Audio, Features, Value

from .errors import CorpusError
from .report import Progress, Report
from .schemas import TURN_END_CONFIGS, TURN_SAMPLING_RATE_HZ
from .sound import count_samples
from .turn_end import TurnEndFiles, read_shards

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

_TEXT, _SECONDS = Value("string"), Value("float64")

_COLUMNS = {
    "observations": {
        "key": _TEXT,
        "turn_key": _TEXT,
        "at_s": _SECONDS,
        "label": Value("int64"),
        "kind": _TEXT,
    },
    "turns": {
        "turn_key": _TEXT,
        "audio": Audio(sampling_rate=TURN_SAMPLING_RATE_HZ, decode=False),
        "audio_duration_s": _SECONDS,
    },
    "endpoints": {
        "turn_key": _TEXT,
        "arm": _TEXT,
        "first_endpoint_s": _SECONDS,
        "audio_duration_s": _SECONDS,
        "cut_early": Value("bool"),
    },
}
"""The columns that are looked at."""

Row = dict[str, Any]


def verify_turn_end(root: str, report: Report, *, progress: Progress | None = None) -> None:
    """Check a turn-end-detection tree.

    No turn is in two splits. Per split: keys are unique; `label` is the one of its `kind`; an observation's
    turn exists and holds `at_s`; a turn's audio can be decoded and is as long as `audio_duration_s`; an
    endpoint's turn exists and has its duration, and `cut_early` says whether
    `first_endpoint_s < audio_duration_s` (false or null where nothing fired).

    Args:
        root: the folder.
        report: takes what is wrong, and how many rows of each table were looked at.
        progress: called with the row groups done and in all.
    """
    tables = {name: files for name in TURN_END_CONFIGS if (files := _files(root, name, report)) is not None}
    splits = sorted({split for files in tables.values() for split in files.splits})
    step = _stepper(tables, progress)
    splits_of: Counter[str] = Counter()
    for split in splits:
        rows: dict[str, list[Row]] = {}
        whole: set[str] = set()
        for name, files in tables.items():
            if split in files.splits:
                faults = len(report.problems)
                rows[name] = list(_rows(files, split, step, report))
                report.count(name, len(rows[name]))
                whole |= {name} if len(report.problems) == faults else set()
        turns = _index(rows.get("turns", []), "turn_key", f"turns, {split}", report)
        splits_of.update(turns.keys())
        _check_turns(rows.get("turns", []), f"turns, {split}", report)
        _check_labels(rows.get("observations", []), f"observations, {split}", report)
        _check_endpoints(rows.get("endpoints", []), f"endpoints, {split}", report)
        if "turns" in whole:  # else every row of a shard that cannot be read would seem to miss its turn
            _join_observations(rows.get("observations", []), turns, f"observations, {split}", report)
            _join_endpoints(rows.get("endpoints", []), turns, f"endpoints, {split}", report)
    twice = sorted(str(key) for key, number in splits_of.items() if number > 1)
    report.add_all("turns", "field 'turn_key' stands in more than one split", twice)


def _files(root: str, config: str, report: Report) -> TurnEndFiles | None:
    try:
        return TurnEndFiles(root, config)
    except CorpusError as error:
        report.add(config, str(error))
        return None


def _stepper(tables: Mapping[str, TurnEndFiles], progress: Progress | None) -> Callable[[], None]:
    """A function that counts row groups; files that cannot be opened have none."""
    total = 0
    for files in tables.values():
        for split in files.splits:
            try:
                total += len(files.shards(split))
            except CorpusError:
                continue
    done = 0

    def step() -> None:
        nonlocal done
        done += 1
        if progress:
            progress(done, total)

    return step


def _rows(files: TurnEndFiles, split: str, step: Callable[[], None], report: Report) -> Iterator[Row]:
    """The looked-at columns as rows, with the length of the audio, or what is wrong with it, in its place."""
    where = f"{files.config}, {split}"
    columns = _COLUMNS[files.config]
    try:
        features = files.features([split])
        missing = [name for name in columns if name not in features]
        if missing:
            report.add(where, f"no column {missing[0]!r}: expected {', '.join(columns)}")
            return
        for shard in files.shards(split):
            for table in read_shards(files, [shard], Features(columns)):
                yield from _without_audio(table, os.path.dirname(shard[0]))
            step()
    except CorpusError as error:
        report.add(where, str(error))


def _without_audio(table: pa.Table, folder: str) -> Iterator[Row]:
    for row in table.to_pylist():
        if "audio" in row:
            row["length_s"] = _length_s(row.pop("audio") or {}, folder)
        yield row


def _length_s(audio: Mapping[str, Any], folder: str) -> float | str:
    """Seconds of audio, or what is wrong with it."""
    data, path = audio.get("bytes"), audio.get("path")
    if not data and not path:
        return "no audio"
    source = io.BytesIO(data) if data else os.path.join(folder, str(path))
    found = count_samples(source, sampling_rate_hz=TURN_SAMPLING_RATE_HZ)
    return found if isinstance(found, str) else found / TURN_SAMPLING_RATE_HZ


def _index(rows: Sequence[Row], key: str, where: str, report: Report) -> dict[str, Row]:
    found: dict[str, Row] = {}
    twice = []
    for row in rows:
        if row[key] in found:
            twice.append(row[key])
        found[row[key]] = row
    report.add_all(where, f"field '{key}' stands more than once", twice)
    if None in found:
        report.add(where, f"field '{key}' is null")
    return found


def _check_labels(rows: Sequence[Row], where: str, report: Report) -> None:
    _index(rows, "key", where, report)
    report.add_all(
        where,
        f"field 'kind': expected one of {', '.join(KIND_LABELS)}",
        [f"{row['key']} is {row['kind']!r}" for row in rows if row["kind"] not in KIND_LABELS],
    )
    report.add_all(
        where,
        "field 'label' is not the one of its 'kind'",
        [
            f"{row['key']} is {row['kind']} with label {row['label']}"
            for row in rows
            if row["kind"] in KIND_LABELS and row["label"] != KIND_LABELS[row["kind"]]
        ],
    )


def _check_turns(rows: Sequence[Row], where: str, report: Report) -> None:
    report.add_all(
        where,
        "field 'audio' cannot be used",
        [f"{row['turn_key']}: {row['length_s']}" for row in rows if isinstance(row["length_s"], str)],
    )
    report.add_all(
        where,
        "field 'audio_duration_s' is not the audio's length",
        [
            f"{row['turn_key']} has {row['audio_duration_s']}, the audio {row['length_s']:.3f} s"
            for row in rows
            if not isinstance(row["length_s"], str) and not _near(row["audio_duration_s"], row["length_s"])
        ],
    )


def _check_endpoints(rows: Sequence[Row], where: str, report: Report) -> None:
    _index([{"turn_key, arm": _name(row)} for row in rows], "turn_key, arm", where, report)
    report.add_all(
        where,
        "field 'audio_duration_s' is null",
        [_name(row) for row in rows if row["audio_duration_s"] is None],
    )
    wrong = []
    for row in rows:
        fired_s, duration_s = row["first_endpoint_s"], row["audio_duration_s"]
        early = fired_s is not None and duration_s is not None and fired_s < duration_s
        if row["cut_early"] != early and not (row["cut_early"] is None and fired_s is None):
            wrong.append(f"{_name(row)}: {row['cut_early']} with {fired_s} s of {duration_s} s")
    report.add_all(where, "field 'cut_early' is not first_endpoint_s < audio_duration_s", wrong)


def _join_observations(rows: Sequence[Row], turns: Mapping[str, Row], where: str, report: Report) -> None:
    orphans = [row["key"] for row in rows if row["turn_key"] not in turns]
    report.add_all(where, "field 'turn_key': no such turn", orphans)
    late = []
    for row in rows:
        length_s = turns.get(row["turn_key"], {}).get("length_s", 0.0)
        if isinstance(length_s, str) or row["turn_key"] not in turns:
            continue
        at_s = row["at_s"]
        if at_s is None or not 0 <= at_s <= length_s + LENGTH_TOLERANCE_S:
            late.append(f"{row['key']} at {at_s} s of {length_s:.3f} s")
    report.add_all(where, "field 'at_s' lies outside the turn's audio", late)


def _join_endpoints(rows: Sequence[Row], turns: Mapping[str, Row], where: str, report: Report) -> None:
    orphans = [_name(row) for row in rows if row["turn_key"] not in turns]
    report.add_all(where, "field 'turn_key': no such turn", orphans)
    differs = [
        _name(row)
        for row in rows
        if row["turn_key"] in turns
        and row["audio_duration_s"] is not None
        and not _near(row["audio_duration_s"], turns[row["turn_key"]]["audio_duration_s"])
    ]
    report.add_all(where, "field 'audio_duration_s' is not the turn's", differs)


def _name(row: Row) -> str:
    return f"{row['turn_key']}, {row['arm']}"


def _near(a_s: float | None, b_s: float | None) -> bool:
    return a_s is not None and b_s is not None and abs(a_s - b_s) <= LENGTH_TOLERANCE_S
