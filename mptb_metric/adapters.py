"""Between what users hand to the `evaluate` module and what it stores: rows with fixed columns.

`evaluate` keeps predictions and references as rows of one Arrow table, drops nothing, and would turn "1.5"
into a number. So each batch is checked and brought into fixed columns before it is stored, and read back as
columns when it is scored. A column that was not given is null (text: empty) in every row, and absent again
afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .decisions import check_timing, score_trace
from .endpoint_tables import read_turns
from .endpoints import compute_endpoints
from .predictions import TRACKS, Faults, channel_durations, checked_rows, is_number, read_rows
from .scoring import checked_gold, score_floor
from .tables import check_same, is_table, read_columns, to_list, to_numbers
from .turn_end import compute_turn_end

_WHOLE_TYPES = (bool, int, np.bool_, np.integer)
Rows = list[dict[str, Any]]
TEXT, NUMBER, WHOLE, NUMBERS, TEXTS, GOLD = "text", "number", "whole", "numbers", "texts", "gold"


@dataclass(frozen=True)
class Adapter:
    """One configuration of the module.

    Attributes:
        predictions: kind of each column that is stored.
        references: likewise.
        always: columns that are read back even where they are null throughout.
        read: checks one batch and gives equally long rows of predictions and references.
        compute: scores all rows.
    """

    predictions: Mapping[str, str]
    references: Mapping[str, str]
    always: frozenset[str]
    read: Callable[[Any, Any], tuple[Rows, Rows]]
    compute: Callable[..., dict[str, Any]]

    def stored(self, predictions: Any, references: Any) -> tuple[Rows, Rows]:
        """Check a batch and give the rows to store."""
        if predictions is None or references is None:
            raise ValueError("expected predictions and references, both of the same channels or turns")
        rows, gold = self.read(predictions, references)
        if len(rows) != len(gold):
            raise ValueError(f"{len(rows)} predictions, but {len(gold)} references")
        return _filled(rows, self.predictions), _filled(gold, self.references)

    def score(self, predictions: Rows, references: Rows, **options: Any) -> dict[str, Any]:
        """Score stored rows."""
        given: Any = self._columns(predictions, self.predictions)
        if not given.keys() & {"conversation_id", "key", "turn_key"}:
            given = [_first(values) for values in zip(*given.values(), strict=True)]  # a flat sequence
        return self.compute(given, self._columns(references, self.references), **options)

    def _columns(self, rows: Rows, kinds: Mapping[str, str]) -> dict[str, list[Any]]:
        columns = {name: [None if row[name] == "" else row[name] for row in rows] for name in kinds}
        return {
            name: values
            for name, values in columns.items()
            if name in self.always or any(value is not None for value in values)
        }


def _first(values: Sequence[Any]) -> Any:
    return next((value for value in values if value is not None), None)


def _filled(rows: Rows, kinds: Mapping[str, str]) -> Rows:
    return [{name: _stored_value(row.get(name), kind, name) for name, kind in kinds.items()} for row in rows]


def _stored_value(value: Any, kind: str, name: str) -> Any:
    if kind == TEXT:
        return "" if value is None else str(value)
    if kind == WHOLE and value is not None:
        if not isinstance(value, bool | np.bool_) and not (is_number(value) and value == int(value)):
            raise ValueError(f"{name}: expected a whole number, got {value!r}")
        return int(value)
    return value


def _read_floor(predictions: Any, references: Any) -> tuple[Rows, Rows]:
    ids = ("conversation_id", "speaker")
    optional = [name for name in _FLOOR_REFERENCES if name not in (*ids, *TRACKS)]
    gold = read_rows(references, (*ids, *TRACKS), optional=optional, name="references")
    durations_s = channel_durations(gold, name="references")
    for row in gold:
        for track in TRACKS:
            where = f"references: {row['conversation_id']} {row['speaker']} {track}"
            row[track] = checked_gold(row[track], where)
    rows = read_rows(predictions, ids, optional=list(_FLOOR_PREDICTIONS), name="predictions")
    if any(f"{track}_scores" in rows[0] for track in TRACKS):
        rows = [_checked_scores(row) for row in rows]
        decisions = [{**row, **dict.fromkeys(TRACKS, ())} for row in rows]
    else:
        decisions = rows
    # Batches of predictions and references need not hold the same channels, but be equally long: then the
    # missing ones can be named.
    faults = Faults()
    checked = checked_rows(decisions, durations_s if len(rows) != len(gold) else None, faults)
    faults.raise_any("predictions")
    return checked if decisions is rows else rows, gold


def _checked_scores(row: dict[str, Any]) -> dict[str, Any]:
    traces = {}
    try:
        check_timing(row.get("frame_rate", 0), 0.0, row.get("lookahead_s") or 0.0)
        for name in (f"{track}_scores" for track in TRACKS):
            traces[name] = score_trace(row.get(name), name).tolist()
    except ValueError as error:
        raise ValueError(f"predictions: {row['conversation_id']} {row['speaker']}: {error}") from error
    return {**{name: value for name, value in row.items() if name not in TRACKS}, **traces}


def _read_turn_end(predictions: Any, references: Any) -> tuple[Rows, Rows]:
    optional = [name for name in _TURN_END_REFERENCES if name != "label"]
    if not is_table(references):
        references = {"label": to_list(references)}
    gold = read_rows(references, ("label",), optional=optional, name="references")
    rows = _keyed_or_flat(predictions, "key", ("prediction", "score"))
    if "key" not in rows[0] and not all(isinstance(row["prediction"], _WHOLE_TYPES) for row in rows):
        rows = [{"score": row["prediction"]} for row in rows]
    _check_same_ids(rows, gold, "key")
    for name in ("prediction", "score"):
        values = [row[name] for row in rows if name in row]
        to_numbers(values, name="predictions", row_name=lambda i: f"row {i}", expected="a label or a score")
    labels = [row["label"] for row in gold]
    to_numbers(labels, name="references", row_name=lambda i: f"row {i}", expected="a label 0 or 1")
    return rows, gold


def _read_endpoints(predictions: Any, references: Any) -> tuple[Rows, Rows]:
    read_turns(references, [])
    optional = [name for name in _ENDPOINT_REFERENCES if name not in ("turn_key", "audio_duration_s")]
    every = read_rows(references, ("turn_key", "audio_duration_s"), optional=optional, name="references")
    gold = list({row["turn_key"]: row for row in reversed(every)}.values())[::-1]  # each turn once
    rows = _keyed_or_flat(predictions, "turn_key", ("first_endpoint_s",))
    if len(gold) < len(every) and "turn_key" not in rows[0]:
        raise ValueError("predictions: the references have several rows per turn: give rows with 'turn_key'")
    _check_same_ids(rows, gold, "turn_key")
    for i, row in enumerate(rows):
        fire = row.get("first_endpoint_s")
        if fire is not None and not (is_number(fire) and math.isfinite(fire)):
            raise ValueError(f"predictions: row {i}: expected seconds, or None for never, got {fire!r}")
    return rows, gold


def _keyed_or_flat(predictions: Any, key: str, fields: Sequence[str]) -> Rows:
    """Read rows {key, field}, or a flat sequence as rows of the first field without a key."""
    if is_table(predictions):
        columns = read_columns(predictions, [key], optional=fields, name="predictions")
        return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    if isinstance(predictions, str | bytes) or not hasattr(predictions, "__iter__"):
        raise ValueError(f"predictions: expected a sequence or rows with {key!r}, got {predictions!r:.80}")
    return [{fields[0]: value} for value in to_list(predictions)]


def _check_same_ids(rows: Rows, gold: Rows, key: str) -> None:
    """Name the ids where batches differ in length; otherwise ids are joined when all batches are there."""
    if len(rows) != len(gold) and key in rows[0] and key in gold[0]:
        check_same([row[key] for row in rows], [row[key] for row in gold], name="predictions", key=key)


_FLOOR_PREDICTIONS = {
    "conversation_id": TEXT,
    "speaker": TEXT,
    **dict.fromkeys(TRACKS, NUMBERS),
    **{f"{track}_scores": NUMBERS for track in TRACKS},
    "frame_rate": NUMBER,
    "lookahead_s": NUMBER,
}
_FLOOR_REFERENCES = {
    "conversation_id": TEXT,
    "speaker": TEXT,
    **dict.fromkeys(TRACKS, GOLD),
    "duration_s": NUMBER,
    "num_speakers": WHOLE,
    "conversation_type": TEXT,
    "domain": TEXT,
    "tone": TEXT,
}
_TURN_END_PREDICTIONS = {"key": TEXT, "prediction": WHOLE, "score": NUMBER}
_TURN_END_REFERENCES = {
    "key": TEXT,
    "turn_key": TEXT,
    "label": NUMBER,
    "kind": TEXT,
    "domain": TEXT,
    "style": TEXT,
}
_ENDPOINT_PREDICTIONS = {"turn_key": TEXT, "first_endpoint_s": NUMBER}
_ENDPOINT_REFERENCES = {
    "turn_key": TEXT,
    "audio_duration_s": NUMBER,
    "chunks": TEXTS,
    "chunk_ends_s": NUMBERS,
    "domain": TEXT,
    "style": TEXT,
}

ADAPTERS = {
    "floor": Adapter(_FLOOR_PREDICTIONS, _FLOOR_REFERENCES, frozenset(), _read_floor, score_floor),
    "turn_end": Adapter(
        _TURN_END_PREDICTIONS, _TURN_END_REFERENCES, frozenset({"label"}), _read_turn_end, compute_turn_end
    ),
    "endpoints": Adapter(
        _ENDPOINT_PREDICTIONS,
        _ENDPOINT_REFERENCES,
        frozenset({"first_endpoint_s"}),
        _read_endpoints,
        compute_endpoints,
    ),
}
