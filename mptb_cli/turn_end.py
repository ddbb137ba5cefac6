"""turn-end-detection at the command line: prediction files, running a detector, scoring.

A prediction file is JSON, `{"schema_version": 1, "detector": ..., "predictions": [row, ...]}` or the bare
list of rows; JSON Lines and Parquet of the same rows are read too. A row is `{key, score}` or
`{key, prediction}` for an observation, `{turn_key, first_endpoint_s}` (null: never fired) for a turn.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from datasets import disable_progress_bars

from mptb_dataset import load_dataset
from mptb_dataset.schemas import TURN_END_CONFIGS
from turn_end_prefix import n_samples, read_prefix
from turn_end_prefix.causality import name_of
from turn_end_prefix.detectors import load_detector
from turn_end_prefix.detectors.prefix import first_endpoint, score_prefixes
from turn_end_prefix.replay import ReplayTimer

from .files import write_json
from .render import console, milliseconds, percent, table
from .running import code_of, run_parts

CHUNK_TURNS = 32
"""Turns of a part: what a killed run hears again at most, per process."""


def is_turn_end(root: str) -> bool:
    """Whether a folder is a turn-end-detection tree."""
    return any(os.path.isdir(os.path.join(root, config)) for config in TURN_END_CONFIGS)


@dataclass(frozen=True)
class Predictions:
    """A prediction file: the system's name, its rows, and whether they are about turns or observations."""

    detector: str
    rows: list[dict[str, Any]]
    about_turns: bool


def read_predictions(path: Path) -> Predictions:
    """Read a prediction file.

    Raises:
        ValueError: it cannot be parsed, or its rows have neither `key` nor `turn_key` with
            `first_endpoint_s`; the message names the file and the row.
        OSError: it cannot be read.
    """
    content = _parse(path)
    detector = content.get("detector") if isinstance(content, dict) else None
    rows = content.get("predictions") if isinstance(content, dict) else content
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise ValueError(f"{path}: field 'predictions': expected a list of rows, and at least one")
    about_turns = "first_endpoint_s" in rows[0]
    fields = ("turn_key", "first_endpoint_s") if about_turns else ("key",)
    for index, row in enumerate(rows):
        missing = [field for field in fields if field not in row]
        if missing or not (about_turns or {"score", "prediction"} & set(row)):
            raise ValueError(
                f"{path}: row {index}: expected {{key, score}}, {{key, prediction}} or "
                f"{{turn_key, first_endpoint_s}}, got fields {', '.join(map(str, row))}"
            )
    return Predictions(detector if isinstance(detector, str) else path.stem, rows, about_turns)


def _parse(path: Path) -> Any:
    try:
        if path.suffix == ".parquet":
            return pq.read_table(path).to_pylist()
        data = path.read_bytes()
        if path.suffix == ".jsonl":
            return [orjson.loads(line) for line in data.splitlines() if line.strip()]
        return orjson.loads(data)
    except (orjson.JSONDecodeError, pa.ArrowException) as error:
        raise ValueError(f"{path}: expected JSON, JSON Lines or Parquet: {error}") from None


@dataclass(frozen=True)
class Chunk:
    """Some turns of a split and how to hear them; it must survive a trip to another process."""

    root: str
    split: str
    first: int
    detector: str
    theta: float | None
    hop_s: float
    part: Path


def run_turn_end(
    root: str,
    split: str,
    detector: str,
    out: Path,
    *,
    theta: float | None,
    hop_s: float,
    jobs: int | None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[int, ReplayTimer]:
    """Let a detector hear every observation's prefix, or with `theta` every turn until it fires.

    Writes a prediction file of scores, or of first endpoints. An interrupted run goes on where it was.

    Returns:
        The number of rows, and where the time of this run went.
    """
    heard = load_detector(detector)
    turns = load_dataset("turns", split=split, data_dir=root, decode=False)
    parts = out.with_name(out.name + ".parts")
    made_by = {
        "detector": detector,
        "code": code_of(detector, heard),
        "theta": theta,
        "hop_s": hop_s,
        "split": split,
        "turns": turns._fingerprint,
    }
    work = [
        Chunk(root, split, first, detector, theta, hop_s, parts / f"{first:08d}.json")
        for first in range(0, len(turns), CHUNK_TURNS)
    ]
    timer = run_parts(parts, made_by, work, _hear, workers=jobs, progress=progress)
    rows = [row for chunk in work for row in orjson.loads(chunk.part.read_bytes())]
    record: dict[str, Any] = {"schema_version": 1, "detector": name_of(heard), "split": split, "hop_s": hop_s}
    if theta is not None:
        record["theta"] = theta
    write_json(out, {**record, "predictions": rows})
    shutil.rmtree(parts)
    return len(rows), timer


def _hear(chunk: Chunk) -> ReplayTimer:
    began = time.perf_counter()
    disable_progress_bars()
    detector = load_detector(chunk.detector)
    turns = load_dataset("turns", split=chunk.split, data_dir=chunk.root, decode=False)
    turns = turns.select(range(chunk.first, min(chunk.first + CHUNK_TURNS, len(turns))))
    asked = _asked_by_turn(chunk) if chunk.theta is None else {}
    rows: list[dict[str, Any]] = []
    audio_s = 0.0
    for turn in turns:
        key = turn["turn_key"]
        samples, rate = read_prefix(turn["audio"], turn["audio_duration_s"])
        audio_s += len(samples) / rate
        if chunk.theta is None:
            points = asked.get(key, [])
            prefixes = [(samples[: n_samples(at_s, rate)], rate) for _, at_s in points]
            scores = score_prefixes(detector, prefixes, hop_s=chunk.hop_s)
            rows += [{"key": name, "score": score} for (name, _), score in zip(points, scores, strict=True)]
        else:
            at_s = first_endpoint(detector, samples, rate, theta=chunk.theta, hop_s=chunk.hop_s)
            rows.append({"turn_key": key, "first_endpoint_s": at_s})
    write_json(chunk.part, rows)
    spent_s = time.perf_counter() - began
    return ReplayTimer(audio_s=audio_s, detector_s=spent_s, total_s=spent_s)


def _asked_by_turn(chunk: Chunk) -> dict[str, list[tuple[str, float]]]:
    columns = ["key", "turn_key", "at_s"]
    observations = load_dataset("observations", split=chunk.split, data_dir=chunk.root, columns=columns)[:]
    asked: dict[str, list[tuple[str, float]]] = {}
    for key, turn_key, at_s in zip(*(observations[name] for name in columns), strict=True):
        asked.setdefault(turn_key, []).append((key, at_s))
    return asked


def score_turn_end(
    root: str,
    split: str,
    path: Path,
    *,
    theta: float | str | None,
    budget: float,
    by: list[str],
    n_resamples: int,
    confidence_level: float,
) -> dict[str, Any]:
    """Score a prediction file by its rows' kind, and print it; endpoints stand beside the published arms.

    Raises:
        CorpusError, ValueError: the corpus, or predictions that do not fit it.
    """
    from mptb_metric.endpoints import compute_endpoints
    from mptb_metric.turn_end import compute_turn_end

    predictions = read_predictions(path)
    options: dict[str, Any] = {"n_resamples": n_resamples, "confidence_level": confidence_level}
    if predictions.about_turns:
        references = load_dataset("turns", split=split, data_dir=root, audio="none")
        published = load_dataset("endpoints", split=split, data_dir=root) if split == "test" else None
        result = compute_endpoints(
            predictions.rows, references, published=published, by=by or None, **options
        )
        _print_endpoints(predictions.detector, split, result)
        return result
    references = load_dataset("observations", split=split, data_dir=root)
    chosen: dict[str, Any] = {"theta": theta, "budget": budget} if theta == "select" else {"theta": theta}
    result = compute_turn_end(predictions.rows, references, by=by or ["kind"], **chosen, **options)
    _print_turn_end(predictions.detector, split, result)
    if theta == "select":
        console.print(
            f"The threshold was chosen on {split} itself: freeze it (--theta {result['theta']!r}) to score "
            "another split."
        )
    return result


def _print_turn_end(name: str, split: str, result: Mapping[str, Any]) -> None:
    figures = ("recall", "fpr", "precision", "accuracy", "f1", "roc_auc", "average_precision")
    rows = [
        [figure, percent(result[figure]), _interval(result, figure)] for figure in figures if figure in result
    ]
    if "theta" in result:
        rows.insert(0, ["threshold", f"{result['theta']:.9g}", ""])
    table(
        f"{name}, {split}: {result['n']} observations of {result['n_turns']} turns",
        ["", "all", "interval"],
        rows,
    )
    for column, groups in result.get("by", {}).items():
        table(
            f"errors by {column}",
            [column, "n", "error rate", "interval", ""],
            [
                [
                    value,
                    str(group["n"]),
                    percent(group["error_rate"]),
                    _interval(group, "error_rate"),
                    "indicative" if group["indicative"] else "",
                ]
                for value, group in groups.items()
            ],
        )


_PLACES = {
    "cut_early": "cut early",
    "cut_early_sentence_end": "after a sentence",
    "cut_early_mid_sentence": "mid-sentence",
    "cut_early_inside_chunk": "inside a chunk",
    "missed": "missed",
}
"""Rates over all turns: what fired before the end, of that where it fell, and what never fired."""


def _print_endpoints(name: str, split: str, result: Mapping[str, Any]) -> None:
    systems = {name: result, **result.get("published", {})}
    shown = {figure: title for figure, title in _PLACES.items() if figure in result}
    table(
        f"first endpoints, {split}: {result['n']} turns",
        ["", *shown.values()],
        [
            [system, *(percent(found[figure]) + _below(found, figure) for figure in shown)]
            for system, found in systems.items()
        ],
    )
    table(
        "latency after the turn's end, over the turns that fired and were not early",
        ["", "turns", "p10", "p50", "p90"],
        [
            [
                system,
                str(found["n_fired"] - found["n_cut_early"]),
                *(milliseconds(found[f"latency_{p}_s"]) for p in ("p10", "p50", "p90")),
            ]
            for system, found in systems.items()
        ],
    )


def _below(result: Mapping[str, Any], name: str) -> str:
    text = _interval(result, name)
    return f"\n{text}" if text else ""


def _interval(result: Mapping[str, Any], name: str) -> str:
    if f"{name}_low" not in result:
        return ""
    low, high = percent(result[f"{name}_low"]), percent(result[f"{name}_high"])
    return f"{low.removesuffix(' %')} to {high}"
