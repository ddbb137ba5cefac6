"""The Parquet tables of turn-end-detection: `observations`, `turns` and `endpoints`.

A split's shards are `<config>/<config>-<split>-*.parquet`. Columns are those of the files, known or not.
Only the shards of the splits that are asked for are looked into, and of them only the columns asked for.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq
from datasets import Audio, Features
from datasets.table import table_cast

from .errors import CorpusError
from .schemas import TURN_SAMPLING_RATE_HZ

SPLITS = {
    "observations": ("train", "validation", "test"),
    "turns": ("train", "validation", "test"),
    "endpoints": ("test",),
}

BATCH_ROWS = 32
"""Rows of a `turns` batch: few, as a batch's audio is one Arrow array and such an array ends at 2 GB."""

Shard = tuple[str, int | None]
"""A Parquet file and the row group to read, None for all of them."""


class TurnEndFiles:
    """The shards of one turn-end-detection table below a root.

    Args:
        root: a local folder in the published layout, or `hf://datasets/<org>/<name>[@revision]`.
        config: `observations`, `turns` or `endpoints`.
        token: access token for a root on the Hub.

    Raises:
        CorpusError: no such folder, or no shard of this table below it.
    """

    def __init__(self, root: str | os.PathLike[str], config: str, *, token: str | bool | None = None):
        self.root, self.config = os.fspath(root), config
        self._hub = None
        if self.root.startswith("hf://"):
            from huggingface_hub import HfFileSystem

            self._hub = HfFileSystem(token=token)
        else:
            self.root = os.path.abspath(os.path.expanduser(self.root))
            if not os.path.isdir(self.root):
                raise CorpusError(f"{root}: no such folder: expected a turn-end-detection tree")
        self.files = self._find()
        if not self.files:
            raise CorpusError(
                f"{root}: no table {config!r}: expected files {config}/{config}-<split>-*.parquet "
                f"with split one of {', '.join(SPLITS[config])}"
            )

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that have shards."""
        return tuple(self.files)

    def open(self, path: str) -> pq.ParquetFile:
        """Open a shard.

        Raises:
            CorpusError: it is not a Parquet file.
        """
        try:
            if self._hub is None:
                return pq.ParquetFile(path, memory_map=False)
            # Only the asked-for columns' bytes, in few requests: no read-ahead, which would fetch the audio.
            return pq.ParquetFile(self._hub.open(path, "rb", cache_type="none"), pre_buffer=True)
        except (pa.ArrowException, OSError) as error:
            raise CorpusError(f"{path}: expected a Parquet file: {error}") from None

    def shards(self, split: str) -> list[Shard]:
        """What can be read independently: row groups of local files, whole files on the Hub."""
        if self._hub:
            return [(path, None) for path in self.files[split]]
        return [
            (path, group) for path in self.files[split] for group in range(self.open(path).num_row_groups)
        ]

    def features(self, splits: Sequence[str]) -> Features:
        """The Features of some splits' shards, audio as `datasets.Audio` at 16 kHz.

        Every local shard counts, on the Hub the first one of each split. A column that some shards lack is
        null there.

        Raises:
            CorpusError: shards whose columns have types that do not go together.
        """
        found = [self.files[split][:1] if self._hub else self.files[split] for split in splits]
        paths = [path for files in found for path in files]
        schema = self._schema(paths[0])
        for path in paths[1:]:
            try:
                schema = pa.unify_schemas([schema, self._schema(path)], promote_options="permissive")
            except pa.ArrowException as error:
                raise CorpusError(f"{path}: expected columns as in {paths[0]}: {error}") from None
        features = _features(schema, paths[0])
        if "audio" in features:
            features["audio"] = Audio(sampling_rate=TURN_SAMPLING_RATE_HZ)
        return features

    def _schema(self, path: str) -> pa.Schema:
        schema = self.open(path).schema_arrow
        twice = [name for name in schema.names if schema.names.count(name) > 1]
        if twice:
            raise CorpusError(f"{path}: two columns are called {twice[0]!r}")
        return schema

    def stamp(self, path: str) -> bytes:
        """What tells a changed local shard: name, size, times and the Parquet footer with its statistics."""
        try:
            status = os.stat(path)
            with open(path, "rb") as file:
                file.seek(max(0, status.st_size - (1 << 16)))
                footer = file.read()
        except OSError as error:
            raise CorpusError(f"{path}: expected a Parquet file: {error.strerror}") from None
        return f"{path} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} ".encode() + footer

    def _find(self) -> dict[str, list[str]]:
        folder = f"{self.root}/{self.config}" if self._hub else os.path.join(self.root, self.config)
        try:
            names = (
                [f"hf://{path}" for path in self._hub.ls(folder, detail=False)]
                if self._hub
                else [os.path.join(folder, name) for name in os.listdir(folder)]
            )
        except FileNotFoundError:
            return {}
        pattern = re.compile(rf"{self.config}-({'|'.join(SPLITS[self.config])})(-.*)?\.parquet")
        found: dict[str, list[str]] = {split: [] for split in SPLITS[self.config]}
        for path in sorted(names):
            match = pattern.fullmatch(os.path.basename(path))
            if match:
                found[match[1]].append(path)
        return {split: paths for split, paths in found.items() if paths}


def _features(schema: pa.Schema, path: str) -> Features:
    try:
        return Features.from_arrow_schema(schema)
    except (ValueError, TypeError, KeyError):
        pass  # what another release of `datasets` wrote beside the columns
    try:
        return Features.from_arrow_schema(schema.remove_metadata())
    except ValueError as error:
        raise CorpusError(f"{path}: a column that `datasets` has no type for: {error}") from None


def read_shards(files: TurnEndFiles, shards: Sequence[Shard], features: Features) -> Iterator[pa.Table]:
    """Read shards one after the other, a small batch at a time.

    Yields:
        Tables of at most `BATCH_ROWS` rows where there is audio, cast to `features`.

    Raises:
        CorpusError: a shard cannot be read, or a column is of another type; the message names the file and
            the column.
    """
    batch_rows = BATCH_ROWS if "audio" in features else 10_000
    opened: tuple[str, pq.ParquetFile] | None = None
    for path, group in shards:
        if opened is None or opened[0] != path:
            opened = (path, files.open(path))
        file = opened[1]
        groups = range(file.num_row_groups) if group is None else [group]
        columns = [name for name in features if name in file.schema_arrow.names]
        try:
            for group in groups:  # one at a time: a file on the Hub is fetched as it is read
                for batch in file.iter_batches(
                    batch_size=batch_rows, row_groups=[group], columns=columns, use_threads=False
                ):
                    yield _conform(pa.Table.from_batches([batch]), features)
        except (pa.ArrowException, TypeError, ValueError, OSError) as error:
            raise CorpusError(f"{path}: row group {group}: {error}") from None


def _conform(table: pa.Table, features: Features) -> pa.Table:
    """A table in the order and types of `features`, with nulls for the columns that it lacks."""
    schema = features.arrow_schema
    for name in schema.names:
        if name not in table.column_names:
            table = table.append_column(name, pa.nulls(len(table), schema.field(name).type))
    try:
        return table_cast(table.select(schema.names), schema)
    except (pa.ArrowException, TypeError, ValueError):
        for name in schema.names:  # find the one at fault
            try:
                table_cast(table.select([name]), Features({name: features[name]}).arrow_schema)
            except (pa.ArrowException, TypeError, ValueError) as error:
                raise ValueError(f"field '{name}': {error}") from None
        raise
