"""Systems side by side: submissions, turn-end predictions or endpoint files on the same units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mptb_metric import load_submission
from mptb_metric.compare import compare
from mptb_metric.scoring import RATES, floor_counts
from mptb_metric.sums import Ratio, UnitCounts

from .gold import read_split
from .render import DASH, TRACK_NAMES, console, milliseconds, percent, table
from .scores import TRACKS
from .turn_end import is_turn_end, read_predictions

Named = dict[str, Path]

FEW_UNITS = 10
"""Below this, resampling knows too little of the spread between units."""


def name_systems(texts: Sequence[str], *, least: int = 2) -> Named:
    """Systems by name: `NAME=FILE`, or a file, which is named after itself.

    Raises:
        ValueError: fewer than `least` systems, or two of one name.
    """
    named: Named = {}
    for text in texts:
        name, separator, path = text.partition("=")
        if not separator or Path(text).exists():
            name, path = Path(text).stem, text
        if name in named:
            raise ValueError(f"two systems are called {name!r}: give names, as in a={named[name]} b={path}")
        named[name] = Path(path)
    if len(named) < least:
        raise ValueError("expected two or more systems to compare")
    return named


def compare_files(
    root: str,
    split: str,
    systems: Named,
    *,
    protocol: str = "mptb",
    theta: float | None = None,
    by: Sequence[str] = (),
    n_resamples: int = 9999,
    confidence_level: float = 0.95,
    stratify: str | None = None,
    published: bool = False,
) -> dict[str, Any]:
    """Compare systems pairwise, with intervals over conversations or turns.

    Args:
        root: an MPTB or a turn-end-detection tree.
        split: the split that the files are about.
        systems: submissions, or prediction files of one kind.
        protocol: for submissions.
        theta: the threshold, for turn-end predictions that are scores.
        by: columns to repeat everything within.
        n_resamples: bootstrap replicates.
        confidence_level: of the intervals.
        stratify: a column within whose values units are drawn.
        published: endpoints: also the published arms.

    Returns:
        What `mptb_metric.compare.compare` returns.

    Raises:
        CorpusError, SubmissionError, ValueError: what is wrong with which file, and units that only one
            system covers.
    """
    wanted = [*by, stratify]
    if is_turn_end(root):
        counts, rates, columns = _turn_end_systems(
            root, split, systems, theta=theta, wanted=wanted, published=published
        )
    elif published:
        raise ValueError("published arms are there for endpoints of turn-end-detection only")
    else:
        counts, rates, columns = _floor_systems(root, split, systems, protocol=protocol, wanted=wanted)
    return compare(
        counts,
        rates,
        by={column: columns[column] for column in by},
        strata=columns[stratify] if stratify else None,
        n_resamples=n_resamples,
        confidence_level=confidence_level,
    )


Loaded = tuple[dict[str, UnitCounts], dict[str, Ratio], dict[str, dict[Any, Any]]]


def _floor_systems(
    root: str, split: str, systems: Named, *, protocol: str, wanted: Sequence[str | None]
) -> Loaded:
    gold = read_split(root, split)
    counts = {}
    for name, path in systems.items():
        tracks = floor_counts(load_submission(path, gold.references), gold.references, protocol=protocol)
        counts[name] = UnitCounts(
            units=tracks["eot"].units,
            counts=np.hstack([tracks[track].counts for track in TRACKS]),
            latencies_s={f"{track}_latency": tracks[track].latencies_s["latency"] for track in TRACKS},
        )
    rates = {
        f"{track}_{rate}": Ratio(
            tuple(4 * index + column for column in ratio.numerator),
            tuple(4 * index + column for column in ratio.denominator),
        )
        for index, track in enumerate(TRACKS)
        for rate, ratio in RATES.items()
    }
    return counts, rates, _unit_columns(gold.references, "conversation_id", wanted)


def _turn_end_systems(
    root: str,
    split: str,
    systems: Named,
    *,
    theta: float | None,
    wanted: Sequence[str | None],
    published: bool,
) -> Loaded:
    from mptb_dataset import load_dataset
    from mptb_metric import endpoints, turn_end

    read = {name: read_predictions(path) for name, path in systems.items()}
    if len({one.about_turns for one in read.values()}) > 1:
        kinds = ", ".join(
            f"{name}: {'turns' if p.about_turns else 'observations'}" for name, p in read.items()
        )
        raise ValueError(f"the files are about different things, which cannot be compared ({kinds})")
    table_name = "turns" if next(iter(read.values())).about_turns else "observations"
    references = load_dataset(table_name, split=split, data_dir=root, audio="none")
    rates: Mapping[str, Ratio]
    if table_name == "turns":
        fires = {name: one.rows for name, one in read.items()}
        if published:
            for row in load_dataset("endpoints", split=split, data_dir=root).to_list():
                fires.setdefault(row["arm"], []).append(row)
        counts = {name: endpoints.endpoint_counts(rows, references) for name, rows in fires.items()}
        rates = endpoints.RATES | endpoints.PLACE_RATES
    elif published:
        raise ValueError("published arms are there for endpoints only, not for observations")
    else:
        counts = {
            name: turn_end.turn_end_counts(one.rows, references, theta=theta) for name, one in read.items()
        }
        rates = turn_end.COMPARED_RATES
    rows = references.select_columns(["turn_key", *filter(None, wanted)]).to_list() if any(wanted) else []
    return counts, dict(rates), _unit_columns(rows, "turn_key", wanted)


def _unit_columns(
    rows: Sequence[Mapping[str, Any]], unit: str, wanted: Sequence[str | None]
) -> dict[str, dict[Any, Any]]:
    """Each wanted column's value of every unit."""
    columns: dict[str, dict[Any, Any]] = {}
    for column in filter(None, wanted):
        if rows and column not in rows[0]:
            raise ValueError(f"no column {column!r}: expected one of {', '.join(rows[0])}")
        columns[column] = {row[unit]: row[column] for row in rows}
    return columns


def show(result: Mapping[str, Any]) -> None:
    """Print the figures of each system and the differences of each pair, then the same per group."""
    _show_part(result, "")
    for column, groups in result.get("by", {}).items():
        for value, part in groups.items():
            _show_part(part, f"{column} = {value}: ")


def _show_part(part: Mapping[str, Any], where: str) -> None:
    systems = part["systems"]
    if part["n_units"] < FEW_UNITS:
        console.print(f"{where}{part['n_units']} units: intervals and p-values of so few are indicative only")
    one = next(iter(systems.values()))
    figures = [name for name in one if f"{name}_low" in one]
    for prefix, title in _TITLES.items():
        own = [name for name in figures if name.startswith(prefix)]
        if not own:
            continue
        figures = [name for name in figures if name not in own]
        heads = [name.removeprefix(prefix).replace("_", " ").removesuffix(" s") for name in own]
        rows = [
            [head, *(_cell(found, name) for found in systems.values())]
            for name, head in zip(own, heads, strict=True)
        ]
        table(f"{where}{title} ({part['n_units']} units)", ["", *systems], rows)
        rows = [
            [f"{pair['a']} - {pair['b']}: {head}", *_difference(pair, name)]
            for pair in part["pairs"]
            for name, head in zip(own, heads, strict=True)
        ]
        table(f"{where}{title}, differences", ["", "difference", "interval", "p", "p (Holm)"], rows)


_TITLES = {**{f"{track}_": name for track, name in TRACK_NAMES.items()}, "": "systems"}
"""Figures by the track that their names begin with, then those that belong to none."""


def _shown(figure: str, value: float) -> str:
    return milliseconds(value) if "latency" in figure else percent(value)


def _cell(found: Mapping[str, Any], figure: str) -> str:
    low, high = (_shown(figure, found[f"{figure}_{end}"]).split(" ")[0] for end in ("low", "high"))
    return f"{_shown(figure, found[figure])} ({DASH if low == DASH else f'{low}{DASH}{high}'})"


def _difference(pair: Mapping[str, Any], figure: str) -> list[str]:
    name = f"{figure}_difference"
    low, high = (_shown(figure, pair[f"{name}_{end}"]) for end in ("low", "high"))
    p, holm = (
        DASH if pair[key] != pair[key] else f"{pair[key]:.4f}"
        for key in (f"{figure}_p_value", f"{figure}_p_value_holm")
    )
    return [_shown(figure, pair[name]), DASH if low == DASH else f"{low} to {high}", p, holm]
