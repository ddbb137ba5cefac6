"""From a row to its recordings: by key in a table of recordings, or in the row itself. Nothing is decoded."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from .cache import CachedRecording
from .decoding import check_recording
from .readers import DecodeError
from .sources import open_audio

DURATION_COLUMNS = ("audio_duration_s", "duration_s")
"""Where `turns` and the tables of conversations say how long a recording is."""


class JoinError(KeyError):
    """A row whose recording is not in the table that it was joined with."""

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True)
class Stored:
    """What a table holds of a recording.

    Attributes:
        source: as `read_prefix` takes it.
        declared_rate (Hz), duration_s (s): what the table says of it, if anything.
    """

    source: Any
    declared_rate: int | None = None
    duration_s: float | None = None


@dataclass(frozen=True)
class Recording:
    """A recording that was found, but not touched yet.

    Attributes:
        key: equal for equal recordings, or None where nobody can tell.
        load: fetches what the table holds of it.
    """

    key: Hashable | None
    load: Callable[[], Stored]

    def open(self, *, backend: str, sampling_rate: int | None) -> CachedRecording:
        """Open it and compare its header with the table.

        Raises:
            DecodeError, ImportError, TypeError, ValueError: as `open_audio` and `check_recording`.
        """
        stored = self.load()
        if stored.source is None:
            raise DecodeError("its audio is null")
        reader = open_audio(stored.source, backend=backend)
        try:
            check_recording(
                reader,
                sampling_rate=sampling_rate,
                declared_rate=stored.declared_rate,
                duration_s=stored.duration_s,
            )
        except DecodeError:
            reader.close()
            raise
        held = stored.source.get("bytes") if isinstance(stored.source, Mapping) else None
        return CachedRecording(reader, held_bytes=len(held) if held is not None else 0)


class AudioTable:
    """A `Dataset` of recordings, found by key. Only the key columns are read up front.

    Args:
        table: the dataset, with an `audio` column.
        key: the columns that tell its rows apart.

    Raises:
        TypeError: not a `datasets.Dataset`.
        ValueError: a column is missing, or two rows have one key.
    """

    def __init__(self, table: Any, key: Sequence[str]):
        import datasets

        if not isinstance(table, datasets.Dataset):
            raise TypeError(
                f"expected a datasets.Dataset of recordings, got {type(table).__name__}: rows are looked up "
                "by key, so choose one split, and load it without streaming"
            )
        missing = [name for name in (*key, "audio") if name not in table.column_names]
        if missing:
            raise ValueError(
                f"the table of recordings has no column {missing[0]!r}, only {', '.join(table.column_names)}"
            )
        self.key = tuple(key)
        feature = table.features["audio"]
        self.declared_rate = feature.sampling_rate if isinstance(feature, datasets.Audio) else None
        self.duration_column = next((name for name in DURATION_COLUMNS if name in table.column_names), None)
        keys = _key_values(table.select_columns(list(self.key)).with_format("arrow")[:], self.key)
        self.rows = _unique(keys, self.key)
        self.groups: dict[Hashable, list[tuple[Hashable, ...]]] = {}
        for values in self.rows if len(self.key) > 1 else ():
            self.groups.setdefault(values[0], []).append(values)
        kept = ["audio", *filter(None, [self.duration_column])]
        self.table = table.select_columns(kept).with_format("arrow")
        # A table that was never shuffled or filtered is its own Arrow table: a cell is then found without
        # formatting a row around it, which is a good part of the time that decoding takes.
        self._as_stored = keys == _key_values(table.data, self.key)

    def find(self, *key: Hashable) -> Recording:
        """Find a recording.

        Raises:
            JoinError: there is none with this key.
        """
        index = self.rows.get(key)
        if index is None:
            names = ", ".join(f"{name} {value!r}" for name, value in zip(self.key, key, strict=True))
            raise JoinError(
                f"{names} is not in the table of {len(self.rows)} recordings: is it the same split?"
            )
        return Recording(key, partial(self._load, index))

    def _load(self, index: int) -> Stored:
        table, place = (self.table.data, index) if self._as_stored else (self.table[index], 0)
        duration_s = table.column(self.duration_column)[place].as_py() if self.duration_column else None
        source = _source(table.column("audio").slice(place, 1).chunk(0))
        return Stored(source, self.declared_rate, duration_s)

    def find_channels(self, row: Mapping[str, Any]) -> dict[str, Recording]:
        """Find the recordings of all speakers of a row's conversation.

        They are the row's `speakers` where it has them, in that order; else those of the table.

        Raises:
            JoinError: the table lacks one of them, or the row's own speaker.
        """
        conversation_id = row["conversation_id"]
        self.find(conversation_id, row["speaker"])
        speakers = row.get("speakers") or [speaker for _, speaker in self.groups[conversation_id]]
        return {str(speaker): self.find(conversation_id, speaker) for speaker in speakers}


def own_recording(row: Mapping[str, Any]) -> Recording:
    """Return the recording in a row's own `audio` column."""
    source = row["audio"]
    declared_rate = None
    if getattr(source, "_hf_encoded", None):
        declared_rate = getattr(source, "_desired_sample_rate", None)
        source = source._hf_encoded
    duration_s = next((row[name] for name in DURATION_COLUMNS if name in row), None)
    stored = Stored(source, declared_rate, duration_s)
    return Recording(_identity(source), lambda: stored)


def sibling_recordings(row: Mapping[str, Any]) -> dict[str, Recording]:
    """Return the recordings of all speakers of a decision point, by the card's names of channel files.

    Raises:
        ValueError: the row's audio is not a file `<conversation_id>_<speaker>.<ending>`.
    """
    own = own_recording(row).load()
    source = own.source
    path = source if isinstance(source, str) else source.get("path") if isinstance(source, Mapping) else None
    inside = isinstance(source, Mapping) and source.get("bytes") is not None
    folder, file = os.path.split(path or "")
    name, ending = os.path.splitext(file)
    if (
        inside
        or name != f"{row['conversation_id']}_{row['speaker']}"
        or row["speaker"] not in row["speakers"]
    ):
        raise ValueError(
            "the other channels cannot be found beside this one: pass the table that has them, "
            "PrefixTransform(channels, other_channels=True)"
        )
    paths = {s: os.path.join(folder, f"{row['conversation_id']}_{s}{ending}") for s in row["speakers"]}
    return {
        speaker: Recording(_identity(path), partial(Stored, path, own.declared_rate, own.duration_s))
        for speaker, path in paths.items()
    }


def _source(cell: Any) -> Any:
    """Return an Arrow array of one audio value as a source, its bytes left where Arrow has them."""
    import pyarrow as pa

    if isinstance(cell, pa.StructArray) and not cell.null_count:
        encoded = cell.field("bytes")
        if isinstance(encoded, pa.BinaryArray) and not encoded.null_count:
            _, offsets, data = encoded.buffers()
            begin, end = np.frombuffer(offsets, np.int32)[encoded.offset : encoded.offset + 2]
            return {"bytes": memoryview(data)[begin:end], "path": None}
    return cell[0].as_py()


class _Content:
    """Encoded audio as a dictionary key: hashed by its header, compared in full."""

    def __init__(self, data: bytes):
        self._data = data

    def __hash__(self) -> int:
        return hash((len(self._data), self._data[:64]))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Content) and self._data == other._data


def _identity(source: Any) -> Hashable | None:
    if isinstance(source, Mapping):
        if source.get("array") is not None:
            return None
        source = source["bytes"] if source.get("bytes") is not None else source.get("path")
    if isinstance(source, bytes):
        return _Content(source)
    if not isinstance(source, str):
        return None
    try:
        status = os.stat(source)  # a file that was written anew is another recording
        return source, status.st_mtime_ns, status.st_size
    except OSError:
        return source


def _key_values(table: Any, key: Sequence[str]) -> list[tuple[Hashable, ...]]:
    return list(zip(*(table.column(name).to_pylist() for name in key), strict=True))


def _unique(values: list[tuple[Hashable, ...]], key: Sequence[str]) -> dict[tuple[Hashable, ...], int]:
    rows = {value: index for index, value in enumerate(values)}
    if len(rows) < len(values):
        twice = next(value for index, value in enumerate(values) if rows[value] != index)
        names = ", ".join(f"{name} {value!r}" for name, value in zip(key, twice, strict=True))
        raise ValueError(
            f"{names} is in the table of recordings more than once ({len(values) - len(rows)} rows too many)"
        )
    return rows
