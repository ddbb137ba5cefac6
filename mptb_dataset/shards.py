"""A stream of rows -> Parquet shards of bounded size, in row groups that are small enough to stream."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from datasets import Audio, ClassLabel, Features, IterableDataset, List, Value
from datasets.table import embed_table_storage, table_cast

from .errors import CorpusError

ROW_GROUP_ROWS = 1000
"""As the Hub's viewer pages through rows."""

LABELS = {"decision_points": ("hard negative", "positive"), "observations": ("unfinished", "finished")}
"""Names of the labels 0 and 1. -1, an event that scoring ignores, is what `ClassLabel` calls no label."""

_BATCH_ROWS = 16
"""Rows with audio that are looked at together: a batch's audio is one Arrow array, which ends at 2 GB."""

_PAGE_BYTES = 1 << 20
_CHUNK_BYTES = 300
"""What a column of a row group adds to a file beside its values: a bound of its headers."""

_STATISTIC_BYTES = 4096
"""The longest text that pyarrow stores as a statistic; least and greatest, in page and footer, make four."""


def exported_features(features: Features, config: str) -> Features:
    """A table's Features as they are exported: audio decodes itself, an integer label is a `ClassLabel`."""
    found = {name: _decoding(feature) for name, feature in features.items()}
    label = found.get("label")
    if config in LABELS and isinstance(label, Value) and label.dtype.startswith("int"):
        found["label"] = ClassLabel(names=list(LABELS[config]))
    return Features(found)


def write_split(
    stream: IterableDataset,
    folder: Path,
    *,
    config: str,
    split: str,
    max_shard_bytes: int,
    row_group_bytes: int,
    progress: Callable[[int], None] | None = None,
) -> int:
    """Write a split's rows to `<folder>/<split>-00000-of-0000N.parquet`.

    Args:
        stream: the rows, audio undecoded.
        folder: an existing folder.
        config: the table's name.
        split: the split's name.
        max_shard_bytes: no shard is larger, but for one of a single row group.
        row_group_bytes: no row group holds more, but for one of a single row.
        progress: called with the number of rows written so far.

    Returns:
        The number of rows. A split without rows has no shard: `datasets` cannot read one.

    Raises:
        CorpusError: audio that cannot be read, or a label that is none of 1, 0 and -1.
    """
    features = exported_features(stream.features or Features(), config)
    # Decision points of a channel share its audio: one dictionary per row group stores it once.
    dictionary_bytes = row_group_bytes if config == "decision_points" else _PAGE_BYTES
    where = f"{config} {split}"
    n_rows = 0
    with _Shards(folder, split, features.arrow_schema, max_shard_bytes, dictionary_bytes) as shards:
        for table in _row_groups(stream, features, row_group_bytes, where):
            shards.write(_finished(table, features, where))
            n_rows += table.num_rows
            if progress:
                progress(n_rows)
    return n_rows


class _Shards:
    """Files that fill up one after the other, and get their final names when all of them are written."""

    def __init__(self, folder: Path, split: str, schema: pa.Schema, max_bytes: int, dictionary_bytes: int):
        self.folder, self.split, self.schema = folder, split, schema
        self.max_bytes, self.dictionary_bytes = max_bytes, dictionary_bytes
        self.paths: list[Path] = []
        self._n_groups = 0
        self._overhead = sum(map(_overhead_bytes, schema.types))
        # pyarrow stores the schema with its metadata twice over, once of that in base64.
        self._footer = 4 * len(schema.serialize())

    def __enter__(self) -> _Shards:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self.paths:
            self._close()
        if kind is None:
            for number, path in enumerate(self.paths):
                path.rename(self.folder / f"{self.split}-{number:05d}-of-{len(self.paths):05d}.parquet")

    def write(self, table: pa.Table) -> None:
        """Add a row group, in a new file where this one would grow too large."""
        if not self.paths:
            self._open()
        # A quarter more than in memory: dictionary indices and levels of values that never repeat.
        size = self._sink.tell() + table.nbytes * 5 // 4
        size += (self._n_groups + 1) * self._overhead + self._footer
        if self._n_groups and size > self.max_bytes:
            self._close()
            self._open()
        self._writer.write_table(table, row_group_size=table.num_rows)
        self._n_groups += 1

    def _open(self) -> None:
        path = self.folder / f"{self.split}-{len(self.paths):05d}.parquet"
        self.paths.append(path)
        self._n_groups = 0
        self._sink = pa.OSFile(str(path), "wb")
        self._writer = pq.ParquetWriter(
            self._sink, self.schema, dictionary_pagesize_limit=self.dictionary_bytes
        )

    def _close(self) -> None:
        self._writer.close()
        self._sink.close()


@contextmanager
def _reading(where: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CorpusError(f"{where}: {error}") from error


def _row_groups(
    stream: IterableDataset, features: Features, max_bytes: int, where: str
) -> Iterator[pa.Table]:
    """Cut a stream into tables that hold at most `max_bytes` once their audio is in them."""
    audio = [name for name, feature in features.items() if _is_audio(feature)]
    pending: list[pa.Table] = []
    n_rows = n_bytes = 0
    for table in stream.with_format("arrow").iter(batch_size=_BATCH_ROWS if audio else ROW_GROUP_ROWS):
        start = 0
        with _reading(where):
            sizes = _row_bytes(table, audio)
        for row, size in enumerate(sizes):
            if n_rows and (n_bytes + size > max_bytes or n_rows == ROW_GROUP_ROWS):
                yield pa.concat_tables([*pending, table.slice(start, row - start)])
                pending, start, n_rows, n_bytes = [], row, 0, 0
            n_rows, n_bytes = n_rows + 1, n_bytes + size
        pending.append(table.slice(start))
    if n_rows:
        yield pa.concat_tables(pending)


def _row_bytes(table: pa.Table, audio: list[str]) -> list[int]:
    """The size of every row, its audio counted as the file that it names."""
    sizes = [1 + table.drop_columns(audio).nbytes // max(1, table.num_rows)] * table.num_rows
    for name in audio:
        sizes = [size + more for size, more in zip(sizes, _audio_bytes(table.column(name)), strict=True)]
    return sizes


def _audio_bytes(column: pa.ChunkedArray) -> list[int]:
    if pa.types.is_list(column.type):
        flat = iter(_audio_bytes(pc.list_flatten(column)))
        return [sum(next(flat) for _ in range(n or 0)) for n in pc.list_value_length(column).to_pylist()]
    stored = pc.binary_length(pc.struct_field(column, "bytes")).to_pylist()
    paths = pc.struct_field(column, "path").to_pylist()
    return [
        os.path.getsize(path) if n is None and path is not None else n or 0
        for n, path in zip(stored, paths, strict=True)
    ]


def _finished(table: pa.Table, features: Features, where: str) -> pa.Table:
    """The table with its audio in it and its label checked."""
    if isinstance(features.get("label"), ClassLabel):
        wrong = set(pc.unique(table["label"]).to_pylist()) - {1, 0, -1, None}
        if wrong:
            raise CorpusError(f"{where}: field 'label': {min(wrong)}: expected 1, 0 or -1")
    table = table_cast(table, features.arrow_schema)
    local = [name for name, feature in features.items() if _is_audio(feature) and _has_paths(table[name])]
    with _reading(where):
        return embed_table_storage(table) if local else table


def _has_paths(column: pa.ChunkedArray) -> bool:
    """Whether audio is referred to instead of stored."""
    if pa.types.is_list(column.type):
        column = pc.list_flatten(column)
    stored = pc.is_valid(pc.struct_field(column, "bytes"))
    return pc.any(pc.and_not(pc.is_valid(column), stored)).as_py() or False


def _is_audio(feature: Any) -> bool:
    return isinstance(feature, Audio) or (isinstance(feature, List) and isinstance(feature.feature, Audio))


def _decoding(feature: Any) -> Any:
    if isinstance(feature, Audio):
        return Audio(sampling_rate=feature.sampling_rate)
    return List(_decoding(feature.feature)) if _is_audio(feature) else feature


def _overhead_bytes(kind: pa.DataType) -> int:
    """At most what a column adds to a row group beside its values."""
    if pa.types.is_struct(kind):
        return sum(_overhead_bytes(kind.field(i).type) for i in range(kind.num_fields))
    if pa.types.is_list(kind):
        return _overhead_bytes(kind.value_type)
    is_text = pa.types.is_string(kind) or pa.types.is_binary(kind)
    return _CHUNK_BYTES + (4 * _STATISTIC_BYTES if is_text else 0)
