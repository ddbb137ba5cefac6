"""One conversation as a picture: who spoke, what was to be found, and what the detector did."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mptb_dataset.anchors import TRACKS
from mptb_dataset.corpus import Conversation
from mptb_metric.outcomes import outcomes

COLOURS = {
    "yield": "#4477aa",
    "hold": "#77aadd",
    "interrupted": "#99bbcc",
    "interruption": "#cc6677",
    "failed_claim": "#ddaaaa",
    "backchannel": "#ddcc77",
    "laughter": "#eeddaa",
}
"""A colour per kind of event; told apart by people who do not see red and green alike."""

MARKS: dict[str, dict[str, Any]] = {
    "hit": {"marker": "o", "color": "#117733"},
    "false positive": {"marker": "X", "color": "#aa1111"},
    "elsewhere": {"marker": "|", "color": "#888888"},
    "miss": {"marker": "o", "facecolors": "none", "edgecolors": "#aa1111"},
}
_ROW = {"eot": 0.26, "int": -0.26}


def draw(
    conversation: Conversation,
    decisions: Mapping[str, Mapping[str, Any]],
    path: Path,
    *,
    protocol: str = "mptb",
) -> None:
    """Draw a lane per speaker to a PNG, whole or not at all.

    Bars are events coloured by kind, vertical ticks are gold positives (EOT above, INT below), and marks are
    decisions as they were scored: hits, false positives, elsewhere (they count nowhere), and misses.

    Args:
        conversation: its events and anchors.
        decisions: `{speaker: {"eot": times in s, "int": times in s}}`.
        path: the PNG.
        protocol: as for `mptb_metric.match`.

    Raises:
        ImportError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch
    except ImportError:
        raise ImportError("the picture needs matplotlib: pip install 'mptb[plot]'") from None
    lanes = list(reversed(conversation.speakers))
    figure = Figure(figsize=(14, 1.1 * len(lanes) + 1.8), layout="constrained")
    axes = figure.add_subplot()
    for lane, speaker in enumerate(lanes):
        for _, _, kind, _, _, event in conversation.log_anchors:
            if event["speaker"] == speaker:
                height = 0.34 if event["label"] == "TURN" else 0.2
                span = [(event["onset"], event["offset"] - event["onset"])]
                axes.broken_barh(span, (lane - height / 2, height), facecolors=COLOURS[str(kind)])
        for track in TRACKS:
            gold = conversation.anchors[speaker][track]
            marks = outcomes(gold, decisions[speaker][track], protocol=protocol)
            row = lane + _ROW[track]
            axes.vlines(gold["positives"], row - 0.11, row + 0.11, color="black", linewidth=1.2, zorder=2)
            for name, times in marks.items():
                axes.scatter(times, [row] * len(times), s=42, zorder=3, linewidths=1.4, **MARKS[name])
    axes.set_yticks(range(len(lanes)), [f"{speaker}\nEOT above, INT below" for speaker in lanes], fontsize=8)
    axes.set_ylim(-0.6, len(lanes) - 0.4)
    axes.set_xlim(0, conversation.duration_s)
    axes.set_xlabel("seconds")
    axes.set_title(f"{conversation.conversation_id}: {conversation.conversation_type}, {len(lanes)} speakers")
    kinds = [Patch(color=colour, label=kind.replace("_", " ")) for kind, colour in COLOURS.items()]
    gold_mark = Line2D([], [], color="black", marker="|", linestyle="", markersize=11, label="gold positive")
    marks_shown = [
        axes.scatter([], [], s=42, linewidths=1.4, label=name, **style) for name, style in MARKS.items()
    ]
    figure.legend(handles=[*kinds, gold_mark, *marks_shown], loc="outside lower center", ncols=6, fontsize=8)
    part = path.with_name(path.name + ".part")
    figure.savefig(part, format="png", dpi=110)
    os.replace(part, path)
