"""The prefix of every row, as a column: for `Dataset.with_transform` and `IterableDataset.map`.

Rows of `observations` find their audio in `turns`; decision points have their own. In a batch, the rows
that share a recording are served together: what they need of it is decoded once, however many they are.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np

from .cache import RecordingCache
from .decoding import check_options, prefix_range, resample
from .join import AudioTable, JoinError, Recording, own_recording, sibling_recordings
from .readers import DecodeError, Samples
from .sources import BACKENDS

CACHE_BYTES = 128 << 20
"""Memory for what a process remembers: five channels of the longest conversation (208 s at 24 kHz)."""

_NAMING_COLUMNS = ("key", "turn_key", "conversation_id", "speaker", "at_s")

__all__ = ["JoinError", "PrefixTransform"]


@dataclass
class _Request:
    """A row's wish for one recording; the rest is known once the recording is open."""

    row: Mapping[str, Any]
    speaker: str
    recording: Recording
    start: int = field(init=False)
    stop: int = field(init=False)
    samples: Samples = field(init=False)
    rate: int = field(init=False)


class PrefixTransform:
    """Add to every row the audio that was heard by its `at_s`.

    The row's `audio` becomes ``{"array": float32 [n], "sampling_rate": Hz}``, `n` as `read_prefix` gives it.
    With `other_channels`, `channels` is ``{speaker: float32 [n]}``: every channel of the conversation, its
    own included, cut at the same sample.

    The transform can be pickled and used in DataLoader workers, forked or spawned: each process keeps its
    own small cache of recordings. A query without the `at` column, as of `table.select_columns(["label"])`,
    is passed through untouched. (`table["label"]` asks the transform for whole rows: take columns from the
    table before it is transformed.)

    Rows with their own `audio` are best left undecoded (`Audio(decode=False)`): `datasets` otherwise opens
    a decoder per row first, which needs torchcodec, takes time, and fails on a broken file without naming
    the row.

    Args:
        turns: the table to find a row's audio in, a `Dataset` with `key` and `audio`; its audio is read as
            stored, so it needs no torchcodec. None where rows have their own `audio`. With
            `other_channels`, the table `channels`, found by `conversation_id` and `speaker`; None to read
            the files beside the row's own.
        key: the column that rows and `turns` share.
        at: the column that holds the moment of the cut, in seconds.
        window_s (s, > 0): keep only this much of the prefix's end.
        sampling_rate (Hz): resample to this rate, after the cut; needs soxr.
        backend: "soundfile" or "torchcodec".
        other_channels: also give the other channels of a decision point's conversation.
        cache_bytes: memory that a process may use to remember recordings for the next batches.

    Raises:
        TypeError: `turns` is no `Dataset`.
        ValueError: `turns` lacks a column or has a key twice; an option that means nothing.

    Examples:
        >>> obs = obs.with_transform(PrefixTransform(turns))                        # doctest: +SKIP
        >>> points = points.with_transform(PrefixTransform(window_s=8.0))           # doctest: +SKIP
        >>> stream = stream.map(PrefixTransform(turns), batched=True, batch_size=64)  # doctest: +SKIP
    """

    def __init__(
        self,
        turns: Any = None,
        *,
        key: str = "turn_key",
        at: str = "at_s",
        window_s: float | None = None,
        sampling_rate: int | None = None,
        backend: str = "soundfile",
        other_channels: bool = False,
        cache_bytes: int = CACHE_BYTES,
    ):
        check_options(window_s=window_s, sampling_rate=sampling_rate)
        if backend not in BACKENDS:
            raise ValueError(f"backend: expected one of {', '.join(BACKENDS)}, got {backend!r}")
        self.key, self.at = key, at
        self.window_s, self.sampling_rate, self.backend = window_s, sampling_rate, backend
        self.other_channels = other_channels
        self.table = None
        if turns is not None:
            self.table = AudioTable(turns, ("conversation_id", "speaker") if other_channels else (key,))
        self._cache = RecordingCache(cache_bytes)

    def attach(self, table: Any) -> Any:
        """Do `table.with_transform(self)` in the best way for a table.

        The table's columns then include `audio`, for which `evaluate.evaluator("audio-classification")` and
        others look before they read a row. And a table with audio of its own, such as decision points, hands
        it over undecoded: faster, and a damaged file is a `DecodeError` that names the row.

        Args:
            table: a `Dataset`.
        """
        if "audio" not in table.column_names:
            table = table.add_column("audio", [None] * len(table))
        elif getattr(table.features["audio"], "decode", False):
            undecoded = replace(table.features["audio"], decode=False)
            table = table.cast_column("audio", undecoded)
        return table.with_transform(self)

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Add the prefixes to a batch (a dict of lists), or to one row (a dict of values).

        Raises:
            DecodeError: missing or damaged audio, named by the row's keys.
            JoinError: a row whose recording is not in the table.
            ValueError: a column that is needed is not there; a moment outside the recording; channels that
                are not aligned.
        """
        columns = list(batch)
        if self.at not in columns:
            return dict(batch)
        self._check_columns(columns)
        if np.ndim(batch[self.at]) == 0:
            rows = [dict(batch)]
            return {**rows[0], **{name: column[0] for name, column in self._prefixes(rows).items()}}
        rows = [dict(zip(columns, values, strict=True)) for values in zip(*batch.values(), strict=True)]
        return {**batch, **self._prefixes(rows)}

    def __getstate__(self) -> dict[str, Any]:
        # Open files stay with their process; only the cache's size travels.
        return {**self.__dict__, "_cache": self._cache.max_bytes}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._cache = RecordingCache(state["_cache"])

    def _check_columns(self, columns: Sequence[str]) -> None:
        if self.other_channels:
            needed = ["conversation_id", "speaker", *([] if self.table else ["speakers", "audio"])]
        else:
            needed = [self.key] if self.table else ["audio"]
        for name in needed:
            if name not in columns:
                hint = "; observations need PrefixTransform(turns)" if name == "audio" else ""
                raise ValueError(f"rows have no column {name!r}, only {', '.join(columns)}{hint}")

    def _prefixes(self, rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
        if self._cache.pid != os.getpid():
            # A forked worker must not move the read position of files that its parent has open.
            self._cache = RecordingCache(self._cache.max_bytes)
        by_row = [
            [_Request(row, speaker, recording) for speaker, recording in self._recordings_of(row).items()]
            for row in rows
        ]
        by_recording: dict[Hashable, list[_Request]] = {}
        for request in chain.from_iterable(by_row):
            # What cannot be told apart is served alone, and forgotten.
            key = id(request) if request.recording.key is None else request.recording.key
            by_recording.setdefault(key, []).append(request)
        with self._cache.lock:
            for n_before, (key, requests) in enumerate(by_recording.items()):
                n_left = len(by_recording) - n_before
                forget = requests[0].recording.key is None or n_left > self._cache.max_recordings
                self._serve(key, requests, forget=forget)
                self._cache.trim()
        return _as_columns(by_row, channels=self.other_channels)

    def _recordings_of(self, row: dict[str, Any]) -> dict[str, Recording]:
        try:
            if not self.other_channels:
                return {"": self.table.find(row[self.key]) if self.table else own_recording(row)}
            if self.table is None:
                return sibling_recordings(row)
            return self.table.find_channels(row)
        except JoinError as error:
            raise JoinError(f"{_name(row)}: {error}") from None
        except ValueError as error:
            raise ValueError(f"{_name(row)}: {error}") from error

    def _serve(self, key: Hashable, requests: list[_Request], *, forget: bool) -> None:
        """Read what the rows of a batch need of one recording, each sample once.

        Args:
            key: the recording's.
            requests: the rows' wishes.
            forget: the next batch will not find it in the cache anyway, so that its buffer can become the
                longest prefix, uncopied.
        """
        recording, row = requests[0].recording, requests[0].row
        try:
            opened = self._cache.get(
                key, lambda: recording.open(backend=self.backend, sampling_rate=self.sampling_rate)
            )
            for request in requests:
                row = request.row
                at_s = row[self.at].item() if hasattr(row[self.at], "item") else row[self.at]
                request.start, request.stop = prefix_range(opened.reader, at_s, window_s=self.window_s)
            for group in _overlapping(requests):
                first, last = group[0].start, max(group, key=lambda request: request.stop)
                row = last.row
                stretch = opened.cover(first, last.stop, max_bytes=self._cache.max_bytes, spare=not forget)
                for request in group:
                    samples = stretch[request.start - first : request.stop - first]
                    if not (forget and request is last):
                        samples = samples.copy()
                    request.samples, request.rate = resample(
                        samples, opened.reader.sampling_rate, self.sampling_rate
                    )
        except (TypeError, ValueError) as error:
            self._cache.drop(key)
            kind = type(error) if isinstance(error, DecodeError) else ValueError
            raise kind(f"{_name(row)}: {error}") from error
        if forget:
            self._cache.drop(key)


def _overlapping(wanted: list[_Request]) -> Iterator[list[_Request]]:
    """Split requests into groups whose ranges overlap or touch, each sorted by start."""
    group: list[_Request] = []
    stop = 0
    for request in sorted(wanted, key=lambda request: (request.start, request.stop)):
        if group and request.start > stop:
            yield group
            group = []
        group.append(request)
        stop = max(stop, request.stop)
    yield group


def _as_columns(by_row: list[list[_Request]], *, channels: bool) -> dict[str, list[Any]]:
    audio, others = [], []
    for requests in by_row:
        row = requests[0].row
        lengths = {request.speaker: len(request.samples) for request in requests}
        rates = {request.rate for request in requests}
        if len(rates) > 1 or len(set(lengths.values())) > 1:
            raise ValueError(
                f"{_name(row)}: the channels are not aligned: {lengths} samples at {sorted(rates)} Hz"
            )
        own = next(request for request in requests if request.speaker == (row["speaker"] if channels else ""))
        audio.append({"array": own.samples, "sampling_rate": own.rate})
        others.append({request.speaker: request.samples for request in requests})
    return {"audio": audio, "channels": others} if channels else {"audio": audio}


def _name(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {row[name]!r}" for name in _NAMING_COLUMNS if name in row) or "a row"
