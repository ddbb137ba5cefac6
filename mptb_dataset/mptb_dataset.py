"""The `datasets` builder: one config per table of MultiPartyTurnBench and turn-end-detection.

It yields Arrow tables, so building needs no torch, and it refers to local audio instead of copying it.
Only the splits that are asked for are read. What a table is made from is part of its cache's name, so a
corpus file that changed, or another release of this package, makes a new table.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from numbers import Real
from typing import Any

import datasets
import pyarrow as pa
from huggingface_hub import constants

from .corpus import Corpus
from .errors import CorpusError
from .manifest import Entry
from .schemas import (
    MPTB_CONFIGS,
    SCENES,
    TURN_END_CONFIGS,
    audio_columns,
    mptb_features,
)
from .stamp import code_hash, mptb_stamp, turn_end_stamp
from .tables import build_table
from .turn_end import Shard, TurnEndFiles, read_shards

MAX_SHARD_CONVERSATIONS = 4
"""Conversations of a shard: few enough that the workers of a DataLoader get even shares."""

TABLE_CONVERSATIONS = 64
"""Conversations that are handed to `datasets` at once; their rows hold text and paths only."""

TABLE_ROWS = 1000
"""Rows of MPTB tables that are written in one piece; many small pieces are slow to write and to read."""


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
        if isinstance(self.delay_s, bool) or not isinstance(self.delay_s, Real):
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
    DEFAULT_CONFIG_NAME = MPTB_CONFIGS[0]
    DEFAULT_WRITER_BATCH_SIZE = 32

    def _info(self) -> datasets.DatasetInfo:
        config = self.config
        if constants.HF_HUB_OFFLINE and str(config.data_dir).startswith("hf://"):
            return datasets.DatasetInfo()  # a table that was built before brings its own
        if config.name in TURN_END_CONFIGS:
            files = _turn_end_files(config, self.token)
            features = files.features(_splits(config, files.splits))
            if config.audio == "none":
                features.pop("audio", None)
        else:
            features = mptb_features(config.name, config.audio)
        unknown = [name for name in config.columns or () if name not in features]
        if unknown:
            raise ValueError(f"columns: {unknown[0]!r}: expected some of {', '.join(features)}")
        if config.columns is not None:
            features = datasets.Features(
                {name: features[name] for name in features if name in config.columns}
            )
        return datasets.DatasetInfo(features=features)

    def _split_generators(self, dl_manager: Any) -> list[datasets.SplitGenerator]:
        config = self.config
        shards: dict[str, list[Any]]
        if config.name in TURN_END_CONFIGS:
            files = _turn_end_files(config, self.token)
            shards = {split: files.shards(split) for split in _splits(config, files.splits)}
        else:
            corpus = Corpus(config.data_dir, token=self.token)
            shards = {split: _group(corpus.entries(split)) for split in _splits(config, corpus.splits)}
        return [datasets.SplitGenerator(name=split, gen_kwargs={"shards": shards[split]}) for split in shards]

    def _generate_tables(self, shards: list[Any]) -> Iterator[tuple[Any, pa.Table]]:
        if self.config.name in TURN_END_CONFIGS:
            tables = self._turn_end_tables(shards)
        else:
            tables = self._mptb_tables(shards)
        yield from enumerate(tables)

    def _as_dataset(self, split: Any = datasets.Split.TRAIN, in_memory: bool = False) -> datasets.Dataset:
        """Read a built split; one without rows is an empty table, which `datasets` itself cannot read."""
        info = (self.info.splits or {}).get(str(split))
        if info is not None and info.num_examples == 0:
            empty = self.info.features.arrow_schema.empty_table()
            return datasets.Dataset(empty, info=self.info.copy(), split=datasets.NamedSplit(str(split)))
        return super()._as_dataset(split=split, in_memory=in_memory)

    def _turn_end_tables(self, shards: list[Shard]) -> Iterator[pa.Table]:
        files = _turn_end_files(self.config, self.token)
        yield from read_shards(files, shards, self.info.features)

    def _mptb_tables(self, shards: list[tuple[Entry, ...]]) -> Iterator[pa.Table]:
        config = self.config
        corpus = Corpus(config.data_dir, token=self.token)
        schema = self.info.features.arrow_schema
        entries = iter([entry for shard in shards for entry in shard])
        # A writer is as slow for one row as for hundreds; a reader on the network should not wait for them.
        size = 1 if corpus.is_remote else TABLE_CONVERSATIONS
        while some := list(islice(entries, size)):
            table = build_table(
                config.name,
                corpus,
                some,
                schema,
                audio=_audio(config),
                delay_s=config.delay_s,
                include_excluded=config.include_excluded,
            )
            # A Parquet writer puts the audio of a whole table into one Arrow array, which ends at 2 GB.
            rows = self.DEFAULT_WRITER_BATCH_SIZE if self._file_format == "parquet" else max(1, len(table))
            yield from (table.slice(start, rows) for start in range(0, len(table), rows))


def _audio(config: MPTBConfig) -> str:
    """`config.audio`, but "none" where no column that is kept holds audio."""
    columns = audio_columns(config.name, config.audio)
    return config.audio if config.columns is None or set(columns) & set(config.columns) else "none"


def _splits(config: MPTBConfig, available: tuple[str, ...]) -> tuple[str, ...]:
    for split in config.splits or ():
        if split not in available:
            raise CorpusError(
                f"{config.data_dir}: no split {split!r} of {config.name}: "
                f"expected one of {', '.join(available)}"
            )
    return config.splits or available


def _group(entries: list[Entry]) -> list[tuple[Entry, ...]]:
    size = min(MAX_SHARD_CONVERSATIONS, max(1, len(entries) // 16))
    return [tuple(entries[start : start + size]) for start in range(0, len(entries), size)]


def _turn_end_files(config: MPTBConfig, token: str | bool | None) -> TurnEndFiles:
    return TurnEndFiles(config.data_dir, config.name, token=token)


def _stamp(config: MPTBConfig) -> str:
    """A hash of this package and of what the table is made from; on the Hub, `data_dir` names a commit."""
    if str(config.data_dir).startswith("hf://"):
        return code_hash()
    if config.name in TURN_END_CONFIGS:
        files = _turn_end_files(config, None)
        return turn_end_stamp(files, _splits(config, files.splits))
    corpus = Corpus(config.data_dir or "")
    return mptb_stamp(corpus, _splits(config, corpus.splits), config.name, SCENES[_audio(config)])
