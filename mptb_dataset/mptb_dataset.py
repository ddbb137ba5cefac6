"""The `datasets` builder: one config per table of MultiPartyTurnBench and turn-end-detection.

It yields Arrow tables, so building needs no torch, and it refers to local audio instead of copying it.
Only the splits that are asked for are read. What a table is made from is part of its cache's name, so a
corpus file that changed, or another release of this package, makes a new table.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa

from .corpus import Corpus, Entry, check_files
from .errors import CorpusError
from .schemas import (
    MPTB_CONFIGS,
    SCENES,
    TURN_END_CONFIGS,
    audio_columns,
    mptb_features,
)
from .tables import channel_rows, conversation_rows, decision_point_rows
from .turn_end import Shard, TurnEndFiles, read_shards

MAX_SHARD_CONVERSATIONS = 4
"""Conversations of a shard: few enough that the workers of a DataLoader get even shares."""

TABLE_ROWS = 2000
"""Rows that are handed to `datasets` at once; they hold text and paths, a kilobyte or two each."""


@dataclass
class MPTBConfig(datasets.BuilderConfig):
    """What is asked for.

    Attributes:
        splits: the splits to build; None for all that are there.
        audio: "noisy" (the evaluation input), "clean", "both" or "none".
        delay_s: seconds added to `at_s` of decision points, >= 0.
        include_excluded: keep decision points that scoring ignores, with label -1.
        columns: keep only these columns.
    """

    splits: tuple[str, ...] | None = None
    audio: str = "noisy"
    delay_s: float = 0.0
    include_excluded: bool = False
    columns: tuple[str, ...] | None = None

    def check(self) -> None:
        """Refuse options that mean nothing.

        Raises:
            ValueError: the option, what it is and what it may be.
        """
        known = MPTB_CONFIGS + TURN_END_CONFIGS
        if self.name not in known:
            raise ValueError(f"config name is missing or unknown: {self.name!r}: expected one of {known}")
        if self.data_dir is None:
            raise CorpusError(
                "data_dir is missing: give the folder of the corpus, or call mptb_dataset.load_dataset, "
                "which takes the published one from the Hub"
            )
        if self.audio not in SCENES:
            raise ValueError(f"audio: {self.audio!r}: expected one of {', '.join(SCENES)}")
        if isinstance(self.delay_s, bool) or not isinstance(self.delay_s, (int, float)):
            raise ValueError(f"delay_s: {self.delay_s!r}: expected a number of seconds")
        if not (math.isfinite(self.delay_s) and self.delay_s >= 0):
            raise ValueError(f"delay_s: {self.delay_s!r}: expected a finite number of seconds, >= 0")

    def create_config_id(self, config_kwargs: dict[str, Any], custom_features: Any = None) -> str:
        """Name the cache after the options and after what the corpus's files hold."""
        self.check()
        options = {key: value for key, value in config_kwargs.items() if key != "data_files"}
        options["stamp"] = _stamp(self)
        return super().create_config_id(options, custom_features)


class MPTB(datasets.ArrowBasedBuilder):
    """Builds `conversations`, `channels`, `decision_points`, `observations`, `turns` and `endpoints`."""

    BUILDER_CONFIG_CLASS = MPTBConfig
    BUILDER_CONFIGS = [MPTBConfig(name=name) for name in MPTB_CONFIGS + TURN_END_CONFIGS]  # noqa: RUF012
    DEFAULT_WRITER_BATCH_SIZE = 32

    def _info(self) -> datasets.DatasetInfo:
        config = self.config
        if config.name in TURN_END_CONFIGS:
            files = _turn_end_files(config, self.token)
            columns = _turn_end_columns(config, files)
            return datasets.DatasetInfo(features=files.features(_splits(config, files.splits)[0], columns))
        features = mptb_features(config.name, config.audio)
        unknown = [name for name in config.columns or () if name not in features]
        if unknown:
            raise ValueError(f"columns: {unknown[0]!r}: expected some of {', '.join(features)}")
        kept = {name: kind for name, kind in features.items() if config.columns is None or name in config.columns}
        return datasets.DatasetInfo(features=datasets.Features(kept))

    def _split_generators(self, dl_manager: Any) -> list[datasets.SplitGenerator]:
        config = self.config
        shards: dict[str, list[Any]]
        if config.name in TURN_END_CONFIGS:
            files = _turn_end_files(config, self.token)
            shards = {split: files.shards(split) for split in _splits(config, files.splits)}
        else:
            corpus = Corpus(config.data_dir, token=self.token)
            shards = {split: _group(corpus.entries(split)) for split in _splits(config, corpus.splits)}
        return [
            datasets.SplitGenerator(name=split, gen_kwargs={"shards": shards[split]}) for split in shards
        ]

    def _generate_tables(self, shards: list[Any]) -> Iterator[tuple[Any, pa.Table]]:
        if self.config.name in TURN_END_CONFIGS:
            tables = self._turn_end_tables(shards)
        else:
            tables = self._mptb_tables(shards)
        yield from enumerate(tables)

    def _turn_end_tables(self, shards: list[Shard]) -> Iterator[pa.Table]:
        files = _turn_end_files(self.config, self.token)
        yield from read_shards(files, shards, self.info.features)

    def _mptb_tables(self, shards: list[tuple[Entry, ...]]) -> Iterator[pa.Table]:
        corpus = Corpus(self.config.data_dir, token=self.token)
        schema = self.info.features.arrow_schema
        rows: list[dict[str, Any]] = []
        for shard, entries in enumerate(shards, start=1):
            for entry in entries:
                rows += self._rows(corpus, entry)
            # A writer is as slow for one row as for hundreds; a reader on the network should not wait for them.
            if rows and (corpus.is_remote or len(rows) >= TABLE_ROWS or shard == len(shards)):
                try:
                    yield pa.Table.from_pylist(rows, schema=schema)
                except (pa.ArrowException, TypeError) as error:
                    raise CorpusError(
                        f"{entries[0].events} to {entries[-1].events}: a field of the wrong type: {error}"
                    ) from None
                rows = []

    def _rows(self, corpus: Corpus, entry: Entry) -> list[dict[str, Any]]:
        config = self.config
        conversation = corpus.conversation(entry)
        audio = _audio(config)
        if config.name == "conversations":
            return conversation_rows(corpus, conversation, audio=audio)
        if config.name == "channels":
            return channel_rows(corpus, conversation, audio=audio)
        return decision_point_rows(
            corpus,
            conversation,
            audio=audio,
            delay_s=config.delay_s,
            include_excluded=config.include_excluded,
        )


@cache
def code_hash() -> str:
    """A hash of this package's source, so that another release never serves this one's cache."""
    digest = blake2b(digest_size=16)
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def annotations_read(config: str) -> tuple[str, ...]:
    """The fields of a manifest entry whose files a table is made from."""
    return ("events", "anchors", "script", "render") if config == "conversations" else ("events", "anchors")


def _audio(config: MPTBConfig) -> str:
    """`config.audio`, but "none" where no column that is kept holds audio."""
    columns = audio_columns(config.name, config.audio)
    return config.audio if config.columns is None or set(columns) & set(config.columns) else "none"


def _splits(config: MPTBConfig, available: tuple[str, ...]) -> tuple[str, ...]:
    for split in config.splits or ():
        if split not in available:
            raise CorpusError(
                f"{config.data_dir}: no split {split!r} of {config.name}: expected one of {', '.join(available)}"
            )
    return config.splits or available


def _group(entries: list[Entry]) -> list[tuple[Entry, ...]]:
    size = min(MAX_SHARD_CONVERSATIONS, max(1, len(entries) // 16))
    return [tuple(entries[start : start + size]) for start in range(0, len(entries), size)]


def _turn_end_files(config: MPTBConfig, token: str | bool | None) -> TurnEndFiles:
    return TurnEndFiles(config.data_dir, config.name, token=token)


def _turn_end_columns(config: MPTBConfig, files: TurnEndFiles) -> list[str] | None:
    if config.audio != "none":
        return None if config.columns is None else list(config.columns)
    features = files.features(_splits(config, files.splits)[0])
    return [name for name in config.columns or features if name != "audio"]


def _stamp(config: MPTBConfig) -> str:
    """A hash of this package and of all that a table is made from; on the Hub, `data_dir` names a commit.

    Annotations count by their content. Audio counts by size and time: rows only refer to it, but what
    users derive from a row must not outlive a changed file.
    """
    digest = blake2b(code_hash().encode(), digest_size=16)
    if str(config.data_dir).startswith("hf://"):
        return digest.hexdigest()
    if config.name in TURN_END_CONFIGS:
        files = _turn_end_files(config, None)
        for split in _splits(config, files.splits):
            digest.update(repr(files.stamp(split)).encode())
        return digest.hexdigest()
    corpus = Corpus(config.data_dir or "")
    scenes = SCENES[_audio(config)]
    for split in _splits(config, corpus.splits):
        for entry in corpus.entries(split):
            paths = [getattr(entry, name) for name in annotations_read(config.name)]
            digest.update(repr(entry).encode())
            for path in paths:
                if path is not None:
                    digest.update(corpus.read(path))
            audio = [path for scene in scenes for path in getattr(entry, f"audio_{scene}").values()]
            for status in check_files([corpus.url(path) for path in audio]):
                digest.update(b"%d %d " % (status.st_size, status.st_mtime_ns))
    return digest.hexdigest()
