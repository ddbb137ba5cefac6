"""What the commands print: rich tables, progress bars, and a dash where a figure is undefined."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from .scores import TRACKS

# Names and messages are the user's: none of their brackets is a style.
console = Console(markup=False)
errors = Console(stderr=True, markup=False)

DASH = "\u2013"
"""Stands for an undefined figure: never 0, never the nearest."""

TRACK_NAMES = {"eot": "end of turn", "int": "interruption"}


def percent(share: float | None) -> str:
    """A share as a percentage; a dash where it is undefined."""
    return DASH if share is None or math.isnan(share) else f"{100 * share:.1f} %"


def milliseconds(time_s: float | None) -> str:
    """Seconds as whole milliseconds; a dash where they are undefined."""
    return DASH if time_s is None or math.isnan(time_s) else f"{1000 * time_s:.0f} ms"


def number(value: float | None) -> str:
    """A threshold or count; a dash where it is undefined."""
    return DASH if value is None or (isinstance(value, float) and math.isnan(value)) else f"{value:.4g}"


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar on standard error until the work is done; gives the function that moves it."""
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=errors,
        transient=True,
    )
    with bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def counting(what: str) -> Iterator[Callable[[str, int], None]]:
    """Show what is being done and how many rows are done, where nobody knows how many there will be."""
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        TextColumn("{task.completed} rows"),
        console=errors,
        transient=True,
    )
    with bar:
        task = bar.add_task(what, total=None)
        yield lambda part, rows: bar.update(task, description=f"{what} {part}", completed=rows)


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table; the first column is text, the others are figures."""
    console.print(title, style="bold", highlight=False, soft_wrap=True)
    drawn = Table(header_style="", box=box.SIMPLE_HEAD)
    for index, column in enumerate(columns):
        drawn.add_column(column, justify="left" if index == 0 else "right", no_wrap=True)
    for row in rows:
        drawn.add_row(*row)
    # A figure that is broken or cut is no figure: where a table is too wide, the terminal wraps its lines.
    needed = Measurement.get(console, console.options.update(width=1000), drawn).maximum
    Console(markup=False, width=max(console.width, needed)).print(drawn)


MEASURES = ("recall", "FPR", "TP", "FN", "FP", "TN", "p10", "p50", "p90")


def measures(result: Mapping[str, Any], track: str) -> list[str]:
    """The figures of a track, as strings, in the order of `MEASURES`; an interval stands below its figure."""
    return [
        _with_interval(result, f"{track}_recall", percent),
        _with_interval(result, f"{track}_fpr", percent),
        *(str(result[f"{track}_{count}"]) for count in ("tp", "fn", "fp", "tn")),
        *(_with_interval(result, f"{track}_latency_{p}_s", milliseconds) for p in ("p10", "p50", "p90")),
    ]


def _with_interval(result: Mapping[str, Any], name: str, shown: Callable[[Any], str]) -> str:
    if f"{name}_low" not in result:
        return shown(result[name])
    low, high = (shown(result[f"{name}_{end}"]).split(" ")[0] for end in ("low", "high"))
    return f"{shown(result[name])}\n{low}{DASH}{high}" if low != DASH else f"{shown(result[name])}\n{DASH}"


def print_score(result: Mapping[str, Any], *, title: str, tracks: Sequence[str] = TRACKS) -> None:
    """Print a result of the metric: a table per track, the whole first, then every group."""
    for track in tracks:
        rows = [["all", *measures(result, track)]]
        for column, groups in (result.get("by") or {}).items():
            name = "N = " if column == "num_speakers" else ""
            rows += [[f"{name}{value}", *measures(group, track)] for value, group in groups.items()]
        table(f"{title}, {TRACK_NAMES[track]} ({track.upper()})", ["", *MEASURES], rows)
