"""Reading turns, one system's first fires and the published arms, checked and in whole microseconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .tables import align, check_same, check_unique, group_rows, read_columns, to_numbers

# What a quoted or bracketed sentence may end with after its punctuation.
_CLOSING = "\"'\u201d\u2019\u00bb)]}"

# Longer than any recording; what is longer was not meant as seconds.
_LONGEST_S = 1e6


@dataclass(frozen=True)
class Chunks:
    """The spoken chunks of one turn: their ends, int64 [n] microseconds, and whether each ends a sentence."""

    ends_us: NDArray[np.int64]
    ends_sentence: tuple[bool, ...]


@dataclass(frozen=True)
class Turns:
    """The turns that systems are judged on.

    Attributes:
        keys: ``turn_key`` of each turn.
        durations_us: length of the audio, int64 [n], microseconds.
        chunks: per turn its chunks, None where they are not given; None if the table has none at all.
        columns: the columns that were asked for besides.
        repeated: whether the table had several rows per turn (one per arm).
    """

    keys: list[Any]
    durations_us: NDArray[np.int64]
    chunks: list[Chunks | None] | None
    columns: dict[str, list[Any]]
    repeated: bool


@dataclass(frozen=True)
class Fires:
    """When one system first fired, per turn.

    Attributes:
        fired: whether it fired at all, bool [n].
        at_us: when, int64 [n], microseconds; 0 where it never fired.
    """

    fired: NDArray[np.bool_]
    at_us: NDArray[np.int64]


def read_turns(references: Any, columns: Sequence[str]) -> Turns:
    """Read turns from rows of ``turns``, or of ``endpoints``, where each turn counts once.

    Args:
        references: any table.
        columns: columns to read besides.

    Raises:
        ValueError: a column is missing; a turn is repeated (or, over arms, has several durations); a duration
            is no finite number >= 0; chunks do not match their ends.
    """
    table = read_columns(
        references,
        ["turn_key", "audio_duration_s", *columns],
        optional=["chunks", "chunk_ends_s", "arm"],
        name="references",
    )
    keys, durations_s = table["turn_key"], table["audio_duration_s"]
    repeated = False
    if "arm" in table:
        first: dict[Any, int] = {}
        for row, key in enumerate(keys):
            if durations_s[first.setdefault(key, row)] != durations_s[row]:
                raise ValueError(
                    f"references: row {row} (turn_key {key!r}): audio_duration_s {durations_s[row]!r}, but "
                    f"{durations_s[first[key]]!r} in row {first[key]}"
                )
        repeated = len(first) < len(keys)
        table = {name: [values[row] for row in first.values()] for name, values in table.items()}
        keys = table["turn_key"]
    check_unique(keys, name="references", key="turn_key")
    durations_us = _to_us(table["audio_duration_s"], keys, name="references", field="audio_duration_s")
    chunks = None
    if "chunks" in table and "chunk_ends_s" in table:
        pairs = zip(keys, table["chunks"], table["chunk_ends_s"], strict=True)
        chunks = [_chunks(key, texts, ends_s) for key, texts, ends_s in pairs]
    return Turns(keys, durations_us, chunks, {name: table[name] for name in columns}, repeated)


def read_fires(predictions: Any, turns: Turns) -> Fires:
    """Read one system's first fires, in the order of the turns.

    Args:
        predictions: a sequence in that order, or rows {``turn_key``, ``first_endpoint_s``}.
        turns: the references.

    Raises:
        ValueError: turns that are missing, unknown or repeated; a time that is neither None nor a finite
            number >= 0; a flat sequence for references with several rows per turn, whose order says
            nothing.
    """
    values, column = align(
        predictions, turns.keys, key="turn_key", fields=("first_endpoint_s",), n_rows=len(turns.keys)
    )
    if column is None and turns.repeated:
        raise ValueError("predictions: the references have several rows per turn: give rows with 'turn_key'")
    return _fires(values, turns.keys, name="predictions")


def read_arms(published: Any, turns: Turns) -> dict[str, Fires]:
    """Read the published endpoints of each arm, in the order of the turns.

    Args:
        published: rows of ``endpoints``.
        turns: the references, which every arm must cover exactly.

    Raises:
        ValueError: as ``read_fires``, for each arm; a duration or ``cut_early`` that contradicts the times.
    """
    table = read_columns(
        published,
        ["turn_key", "arm", "first_endpoint_s"],
        optional=["audio_duration_s", "cut_early"],
        name="published",
    )
    arms = {}
    for arm, rows in group_rows(table["arm"], name="published", column="arm").items():
        name = f"published, arm {arm!r}"
        own = {column: [values[row] for row in rows] for column, values in table.items()}
        check_same(own["turn_key"], turns.keys, name=name, key="turn_key")
        place = {key: row for row, key in enumerate(own["turn_key"])}
        own = {column: [values[place[key]] for key in turns.keys] for column, values in own.items()}
        arms[arm] = _fires(own["first_endpoint_s"], turns.keys, name=name)
        _check_arm(own, arms[arm], turns, name)
    return arms


def is_early(fires: Fires, turns: Turns) -> NDArray[np.bool_]:
    """Tell which turns were cut off: fired strictly before the end of the audio."""
    return fires.fired & (fires.at_us < turns.durations_us)


def _check_arm(own: dict[str, list[Any]], fires: Fires, turns: Turns, name: str) -> None:
    if "audio_duration_s" in own:
        durations_us = _to_us(own["audio_duration_s"], turns.keys, name=name, field="audio_duration_s")
        for row in np.flatnonzero(durations_us != turns.durations_us)[:1]:
            raise ValueError(
                f"{name}: turn_key {turns.keys[row]!r}: audio_duration_s {own['audio_duration_s'][row]!r}, "
                f"but {float(turns.durations_us[row]) / 1e6!r} in the references"
            )
    for row, early in enumerate(is_early(fires, turns)):
        stated = own["cut_early"][row] if "cut_early" in own else None
        if stated is not None and bool(stated) != early:
            raise ValueError(
                f"{name}: turn_key {turns.keys[row]!r}: cut_early is {stated!r}, but first_endpoint_s is "
                f"{own['first_endpoint_s'][row]!r} in audio of {float(turns.durations_us[row]) / 1e6!r} s"
            )


def _fires(values: list[Any], keys: list[Any], *, name: str) -> Fires:
    fired = np.array([value is not None for value in values])
    filled = [0.0 if value is None else value for value in values]
    return Fires(
        fired, _to_us(filled, keys, name=name, field="first_endpoint_s", extra=", or None (never fired)")
    )


def _to_us(
    values: list[Any], keys: list[Any], *, name: str, field: str, extra: str = ""
) -> NDArray[np.int64]:
    """Return times in whole microseconds, rounded half to even."""
    expected = f"{field} in seconds, from 0 to {_LONGEST_S:g}{extra}"

    def row_name(row: int) -> str:
        return f"row {row} (turn_key {keys[row]!r})"

    for row, value in enumerate(values):
        if isinstance(value, (bool, np.bool_)):
            raise ValueError(f"{name}: {row_name(row)}: expected {expected}, got {value!r}")
    seconds = to_numbers(values, name=name, row_name=row_name, expected=expected)
    for row in np.flatnonzero((seconds < 0) | (seconds > _LONGEST_S))[:1]:
        raise ValueError(f"{name}: {row_name(int(row))}: expected {expected}, got {values[row]!r}")
    return np.rint(seconds * 1e6).astype(np.int64)


def _chunks(key: Any, texts: Any, ends_s: Any) -> Chunks | None:
    texts = [] if texts is None else list(texts)
    ends_s = [] if ends_s is None else list(ends_s)
    where = f"references: turn_key {key!r}"
    if len(texts) != len(ends_s):
        raise ValueError(f"{where}: {len(texts)} chunks, but {len(ends_s)} chunk_ends_s")
    if not texts:
        return None
    ends_us = _to_us(ends_s, [key] * len(ends_s), name=where, field="chunk_ends_s")
    if (np.diff(ends_us) < 0).any():
        raise ValueError(f"{where}: chunk_ends_s must not fall, got {ends_s!r}")
    return Chunks(ends_us, tuple(_ends_sentence(text, where) for text in texts))


def _ends_sentence(text: Any, where: str) -> bool:
    """Tell whether a chunk ends a sentence; an ellipsis trails off and does not."""
    if not isinstance(text, str):
        raise ValueError(f"{where}: expected a chunk's text, got {text!r}")
    bare = text.rstrip().rstrip(_CLOSING).rstrip()
    return bare.endswith((".", "!", "?")) and not bare.endswith("..")
