"""The page's pictures: the recall-FPR plane, latencies and one conversation's timeline, as SVG images.

Colours can be told apart by people who do not see red and green alike, and shape says the same again.
"""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from ..matching import EARLY_US, LATE_US
from ..predictions import TRACKS
from .marks import MARKS, Marks
from .scoring import Scored
from .text import TRACK_NAMES

ROW_S = 60.0
"""Seconds per row of a timeline: a minute across the page leaves marks 0.3 s apart distinct."""

MARK_S = 0.1
"""Marks that are nearer than this lie upon each other."""

BIN_US = 125_000
"""Width of a bar of latencies: it divides the window of a positive."""

_COLOURS = {"": "#4477aa", "A": "#4477aa", "B": "#cc6677"}
_SHAPES = {"eot": "o", "int": "s"}
_STYLES: dict[str, dict[str, Any]] = {
    "hit": {"marker": "o", "color": "#117733"},
    "miss": {"marker": "o", "facecolors": "none", "edgecolors": "#aa1111"},
    "false positive": {"marker": "X", "color": "#aa1111"},
    "elsewhere": {"marker": "|", "color": "#666666"},
}
_SPEECH = {
    "TURN": ("#b8d0e8", "turn"),
    "CLAIM_FLOOR": ("#e8c4c9", "claim of the floor"),
    "VOCALIZE_NO_CLAIM": ("#efe3a8", "backchannel, laughter"),
}
_LINE = {"eot": 0.24, "int": -0.24}
_TRAP, _EXCLUDED = "#e6873c", "#777777"

_drawing = Lock()  # matplotlib does not promise that figures may be drawn in several threads at once


def plane(systems: Sequence[Scored], *, budget: float) -> str:
    """Recall over false-positive rate, with intervals and the budget's line."""
    figure = Figure(figsize=(5.0, 4.3), layout="constrained")
    axes = figure.add_subplot()
    axes.axvspan(100 * budget, 105, color="#f1f1f1", zorder=0)
    axes.axvline(100 * budget, color="#444444", linestyle="--", linewidth=1.2)
    axes.text(100 * budget + 1.5, 2, f"budget {100 * budget:.0f} %", fontsize=9, color="#444444")
    absent = []
    for one in systems:
        for track in TRACKS:
            label = " ".join(filter(None, [track.upper(), one.letter]))
            if not _point(axes, one, track, label):
                absent.append(label)
    axes.set(xlim=(-3, 105), ylim=(-3, 105), xlabel="false-positive rate, %", ylabel="recall, %")
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    if len(absent) < len(systems) * len(TRACKS):
        axes.legend(loc="lower right", fontsize=9)
    note = f" Not shown, since undefined: {', '.join(absent)}." if absent else ""
    return _html(
        figure,
        "Recall over false-positive rate",
        "Up and to the left is better; right of the dashed line is over budget. Bars are 95 % intervals."
        + note,
    )


def latencies(systems: Sequence[Scored]) -> str:
    """How late the hits were: a histogram per track with its percentiles."""
    edges = [time_us / 1e6 for time_us in range(-EARLY_US, LATE_US + 1, BIN_US)]
    figure = Figure(figsize=(5.0, 4.6), layout="constrained")
    panels = figure.subplots(len(TRACKS), sharex=True)
    told = []
    for axes, track in zip(panels, TRACKS, strict=True):
        for one in systems:
            _histogram(axes, one, track, edges)
            told.append(_percentiles(one, track))
        axes.axvline(0, color="#444444", linewidth=0.8)
        axes.set_title(TRACK_NAMES[track], fontsize=10, loc="left")
        axes.set_ylabel("hits")
        axes.yaxis.get_major_locator().set_params(integer=True)
        axes.set_xlim(edges[0], edges[-1])
        if len(systems) > 1:
            axes.legend(fontsize=9)
    panels[-1].set_xlabel("latency, s (negative: early)")
    return _html(figure, "Latency of the hits", f"Dotted lines are medians. {' '.join(told)}")


def timeline(
    conversation: Mapping[str, Any], marks: Mapping[tuple[str, str], Marks], *, title: str, caption: str
) -> str:
    """A conversation in rows of a minute, with a lane per speaker: speech, gold, and what was decided.

    Args:
        conversation: a row of the table `conversations`.
        marks: by speaker and track, the decisions sorted by what scoring made of them.
        title: what the picture is, for those who do not see it.
        caption: what it shows, in words.
    """
    marked_s = [time_s for found in marks.values() for times_s in found.values() for time_s in times_s]
    end_s = max([conversation["duration_s"], *marked_s])  # a decision may come after the conversation's end
    n_rows = max(1, math.ceil(end_s / ROW_S))
    lanes = {speaker: lane for lane, speaker in enumerate(reversed(conversation["speakers"]))}
    figure = Figure(figsize=(11, 0.9 + n_rows * (0.55 * len(lanes) + 0.55)), layout="constrained")
    rows = figure.subplots(n_rows, squeeze=False)[:, 0]
    for row, axes in enumerate(rows):
        for speaker, lane in lanes.items():
            _lane(axes, conversation, marks, speaker, lane)
        axes.set_yticks(range(len(lanes)), list(lanes), fontsize=9)
        axes.set_ylim(-0.6, len(lanes) - 0.4)
        start_s = row * ROW_S
        axes.set_xlim(start_s, max(start_s + min(ROW_S, end_s), 1e-3))
        axes.spines[["top", "right"]].set_visible(False)
    rows[-1].set_xlabel("seconds; in each lane end of turn (EOT) above, interruption (INT) below", fontsize=9)
    figure.legend(handles=_key(), loc="outside upper left", ncols=5, fontsize=9, frameon=False)
    return _html(figure, title, caption, wide=True)


def _point(axes: Axes, one: Scored, track: str, label: str) -> bool:
    """Draw a system's place on the plane; tells whether it has one."""
    names = [f"{track}_fpr", f"{track}_recall"]
    x, y = (100 * one.result[name] for name in names)
    if math.isnan(x) or math.isnan(y):
        return False
    bars = []
    for name in names:
        value = one.result[name]
        ends = [abs(value - one.result[f"{name}_{end}"]) for end in ("low", "high")]
        bars.append([[0.0 if math.isnan(end) else 100 * end] for end in ends])
    colour = _COLOURS[one.letter]
    axes.errorbar(
        [x],
        [y],
        xerr=bars[0],
        yerr=bars[1],
        fmt=_SHAPES[track],
        color=colour,
        markerfacecolor=colour if track == "eot" else "white",
        markeredgewidth=1.8,
        markersize=9,
        elinewidth=1.2,
        capsize=3,
        label=label,
    )
    return True


def _histogram(axes: Axes, one: Scored, track: str, edges: list[float]) -> None:
    values = [time for unit in one.counts[track].latencies_s["latency"] for time in unit]
    colour = _COLOURS[one.letter]
    axes.hist(values, edges, histtype="stepfilled", alpha=0.35, color=colour)
    axes.hist(values, edges, histtype="step", color=colour, linewidth=1.4, label=one.letter)
    median = one.result[f"{track}_latency_p50_s"]
    if not math.isnan(median):
        axes.axvline(median, color=colour, linestyle=":", linewidth=1.8)


def _percentiles(one: Scored, track: str) -> str:
    name = " ".join(filter(None, [track.upper(), one.letter]))
    found = [one.result[f"{track}_latency_p{percent}_s"] for percent in (10, 50, 90)]
    if any(map(math.isnan, found)):
        return f"{name}: no hits."
    p10, p50, p90 = (f"{1000 * value:.0f}" for value in found)
    return f"{name}: median {p50} ms, 80 % of the hits from {p10} to {p90} ms."


def _lane(
    axes: Axes,
    conversation: Mapping[str, Any],
    marks: Mapping[tuple[str, str], Marks],
    speaker: str,
    lane: int,
) -> None:
    for event in conversation["events"]:
        if event["speaker"] == speaker and event["label"] in _SPEECH:
            span = [(event["onset"], event["offset"] - event["onset"])]
            axes.broken_barh(span, (lane - 0.13, 0.26), facecolors=_SPEECH[event["label"]][0])
    gold = {anchor["track"]: anchor for anchor in conversation["anchors"] if anchor["speaker"] == speaker}
    for track in TRACKS:
        line = lane + _LINE[track]
        for key, colour, alpha in (("negative_spans", _TRAP, 0.75), ("excluded_spans", _EXCLUDED, 0.3)):
            spans = [(span["start"], span["end"] - span["start"]) for span in gold[track][key]]
            axes.broken_barh(spans, (line - 0.06, 0.12), facecolors=colour, alpha=alpha)
        axes.vlines(
            gold[track]["positives"], line - 0.13, line + 0.13, color="black", linewidth=1.5, zorder=2
        )
        for name in MARKS:
            times_s = _distinct(marks[speaker, track][name])
            axes.scatter(times_s, [line] * len(times_s), s=44, zorder=3, linewidths=1.5, **_STYLES[name])


def _distinct(times_s: Sequence[float]) -> list[float]:
    """Leave out what could not be told apart: a file may hold hundreds of thousands of decisions."""
    return list({round(time_s / MARK_S): time_s for time_s in times_s}.values())


def _key() -> list[Any]:
    handles: list[Any] = [
        Line2D([], [], linestyle="", marker=style["marker"], markersize=7, markeredgewidth=1.5, label=name)
        for name, style in _STYLES.items()
    ]
    for handle, style in zip(handles, _STYLES.values(), strict=True):
        handle.set_markeredgecolor(style.get("edgecolors") or style["color"])
        handle.set_markerfacecolor(style.get("facecolors") or style["color"])
    handles.append(Line2D([], [], color="black", marker="|", linestyle="", markersize=10, label="gold"))
    handles.append(Patch(color=_TRAP, alpha=0.75, label="trap (negative span)"))
    handles.append(Patch(color=_EXCLUDED, alpha=0.3, label="excluded"))
    return handles + [Patch(color=colour, label=label) for colour, label in _SPEECH.values()]


def _html(figure: Figure, title: str, caption: str, *, wide: bool = False) -> str:
    """The picture as an image element: what it contains cannot touch the page."""
    buffer = io.BytesIO()
    with _drawing:
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    source = f"data:image/svg+xml;base64,{base64.b64encode(buffer.getvalue()).decode()}"
    image = f'<img src="{source}" alt="{title}. {caption}">'
    if wide:
        image = f'<div class="scroll" tabindex="0" role="region" aria-label="{title}">{image}</div>'
    return f'<figure class="{"wide" if wide else "plain"}">{image}<figcaption>{caption}</figcaption></figure>'
