"""Thresholds that dev chose and that test is scored with, and the decisions that scores give at them."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .decisions import REFRACTORY_S, decide
from .predictions import TRACKS, is_number, read_rows


@dataclass(frozen=True)
class Frozen:
    """Frozen thresholds.

    Attributes:
        theta: by track; None where dev had no operating point, so that nothing is decided on it.
        dev_fpr: by track, where the file says.
        protocol: by which they were chosen, where the file says.
    """

    theta: dict[str, float | None]
    dev_fpr: dict[str, float]
    protocol: str | None


def read_frozen(source: str | os.PathLike[str] | Mapping[str, Any]) -> Frozen:
    """Read thresholds from the JSON file that `mptb select --out` writes, its content, or a plain mapping.

    Args:
        source: a path; or ``{"tracks": {"eot": point, "int": point}, "protocol": ...}`` where a point is what
            `Sweep.operating_point` returns, or None; or ``{"eot": 0.5, "int": 0.7}``.

    Raises:
        ValueError: a missing or unknown track, or a threshold that is no number.
        OSError: the file cannot be read.
    """
    where, content = _content(source)
    tracks = content.get("tracks", content) if isinstance(content, Mapping) else None
    if not isinstance(tracks, Mapping) or set(tracks) != set(TRACKS):
        raise ValueError(f"{where}: expected a threshold for each of {', '.join(TRACKS)}, got {tracks!r:.80}")
    theta: dict[str, float | None] = {}
    dev_fpr = {}
    for track, point in tracks.items():
        value: Any = point.get("theta") if isinstance(point, Mapping) else point
        if point is not None and (not is_number(value) or math.isnan(value)):
            raise ValueError(f"{where}: {track}: theta: expected a number, got {value!r}")
        theta[track] = None if point is None else float(value)
        if isinstance(point, Mapping) and is_number(point.get("fpr")):
            dev_fpr[track] = float(point["fpr"])
    return Frozen(theta, dev_fpr, content.get("protocol"))


def _content(source: str | os.PathLike[str] | Mapping[str, Any]) -> tuple[str, Any]:
    if isinstance(source, Mapping):
        return "thresholds", source
    try:
        return os.fspath(source), json.loads(Path(source).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{os.fspath(source)}: invalid JSON: {error}") from error


def decide_rows(predictions: Any, frozen: Frozen) -> list[dict[str, Any]]:
    """Turn rows of scores into rows of decisions at frozen thresholds.

    Args:
        predictions: rows {conversation_id, speaker, eot_scores, int_scores, frame_rate} and optionally
            lookahead_s.
        frozen: the thresholds; a track without one gets no decisions.

    Raises:
        ValueError: as `decide`, naming conversation, speaker and track.
    """
    names = [f"{track}_scores" for track in TRACKS]
    ids = ("conversation_id", "speaker")
    rows = read_rows(predictions, (*ids, *names, "frame_rate"), optional=("lookahead_s",), name="predictions")
    return [{**{name: row[name] for name in ids}, **_decided(row, frozen)} for row in rows]


def _decided(row: Mapping[str, Any], frozen: Frozen) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {}
    for track in TRACKS:
        theta = frozen.theta[track]
        try:
            times[track] = decide(
                row[f"{track}_scores"],
                row["frame_rate"],
                math.inf if theta is None else theta,
                refractory_s=REFRACTORY_S,
                lookahead_s=row.get("lookahead_s") or 0.0,
            ).tolist()
        except ValueError as error:
            where = f"predictions: {row['conversation_id']} {row['speaker']} {track}"
            raise ValueError(f"{where}: {error}") from error
    return times
