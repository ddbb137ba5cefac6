"""What the page says in words and tables, as HTML."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from ..predictions import KEPT_FAULTS, TRACKS
from ..scoring import COUNTS
from .gold import Gold, Split
from .marks import MARKS, Marks
from .scoring import GROUPS, Scored
from .text import MINUS, TRACK_NAMES, UNDEFINED, download, interval, short, shown

FIGURES = {
    "recall": "Recall",
    "fpr": "False-positive rate",
    "latency_p10_s": "Latency, p10",
    "latency_p50_s": "Latency, median",
    "latency_p90_s": "Latency, p90",
}
COUNT_NAMES = {
    "tp": "Found (TP)",
    "fn": "Missed (FN)",
    "fp": "Fired at a trap (FP)",
    "tn": "Left a trap alone (TN)",
}
GROUP_NAMES = {"num_speakers": "By number of speakers", "conversation_type": "By conversation type"}
MAX_FAULTS = 50

Cells = Sequence[str]


def table(caption: str, head: Cells, rows: Iterable[Cells], *, words: bool = False) -> str:
    """A table of figures, or of words, that scrolls within itself on a narrow screen; cells are HTML."""
    heads = "".join(f'<th scope="col">{cell}</th>' for cell in head)
    body = "".join(
        f'<tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in rest)}</tr>'
        for first, *rest in rows
    )
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{caption}">'
        f'<table class="{"words" if words else "figures"}">'
        f"<caption>{caption}</caption><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def faults(found: Sequence[str], *, name: str, hint: str = "") -> str:
    """What is wrong with a file."""
    more = len(found) - MAX_FAULTS
    items = "".join(f"<li>{escape(fault)}</li>" for fault in found[:MAX_FAULTS])
    rest = ""
    if more > 0:
        save = download(
            "\n".join(found) + "\n", file="faults.txt", label="Save all of them", kind="text/plain"
        )
        rest = f"<p>and {more:,} more. {save}</p>"
    count = f"{len(found):,} fault{'s' * (len(found) != 1)}"
    if len(found) > KEPT_FAULTS:
        count = f"more than {KEPT_FAULTS:,} faults"
    return (
        f'<div class="faults" role="alert"><p><strong>{escape(short(name))} cannot be scored: {count}'
        f"</strong></p>{f'<p>{hint}</p>' if hint else ''}<ol>{items}</ol>{rest}</div>"
    )


def told(message: str) -> str:
    """A short message about what was asked."""
    return f'<p class="told" role="alert">{message}</p>'


def summary(systems: Sequence[Scored], split: Split, gold: Gold, record: str) -> str:
    """What was scored against what, the verdict per track, and the result to save."""
    result = systems[0].result
    names = " and ".join(_titled(one) for one in systems)
    corpus = f"{escape(gold.source)}, split" if gold.source else "the embedded sample, split"
    about = (
        f"{names}: scored against {corpus} <strong>{split.name}</strong>, {result['n_conversations']} "
        f"conversations, {result['n_channels']} channels, protocol <strong>{result['protocol']}</strong>."
    )
    verdicts = "".join(f"<li>{_verdict(one, track)}</li>" for one in systems for track in TRACKS)
    save = download(record, file="result.json", label="Save the result (JSON)")
    return f'<div role="status"><p>{about}</p><ul>{verdicts}</ul><p>{save}</p></div>'


def scores(systems: Sequence[Scored], differences: Mapping[str, Any] | None) -> str:
    """A table per track: each figure with its interval, and how two submissions differ."""
    parts = []
    for track in TRACKS:
        head = ["Figure"]
        for one in systems:
            head += [one.letter or "Value", "95 % interval"]
        head += [f"A {MINUS} B", "95 % interval", "p"] if differences else []
        rows = []
        for figure, label in FIGURES.items():
            row = [label]
            for one in systems:
                row += [shown(figure, one.result[f"{track}_{figure}"])]
                row += [interval(one.result, f"{track}_{figure}")]
            rows.append(row + (_difference(differences[track], figure) if differences else []))
        for count in COUNTS:
            row = [COUNT_NAMES[count]]
            for one in systems:
                row += [str(one.result[f"{track}_{count}"]), ""]
            rows.append(row + ["", "", ""] * bool(differences))
        parts.append(table(TRACK_NAMES[track], head, rows))
    return "".join(parts) + _notes(systems, differences)


def groups(systems: Sequence[Scored]) -> str:
    """The breakdown by number of speakers and by conversation type: a table per track and submission."""
    head = ["Group", "Conv.", "Recall", "95 % int.", "FPR", "95 % int.", "Median latency"]
    parts = []
    for column in GROUPS:
        parts.append(f"<h3>{GROUP_NAMES[column]}</h3>")
        for track in TRACKS:
            for one in systems:
                caption = TRACK_NAMES[track] + (f", submission {one.letter}" if one.letter else "")
                rows = [
                    [_group_name(column, group), *_group_cells(entries, track)]
                    for group, entries in one.result["by"][column].items()
                ]
                counted = [*head, *(count.upper() for count in COUNTS)]
                parts.append(table(caption, counted, rows))
    return "".join(parts)


def counted(marks: Mapping[tuple[str, str], Marks]) -> str:
    """What became of a conversation's decisions, in one sentence per track."""
    told = []
    for track in TRACKS:
        numbers = {
            name: sum(len(found[name]) for key, found in marks.items() if key[1] == track) for name in MARKS
        }
        parts = [f"{number} {MARKS[name][number != 1]}" for name, number in numbers.items()]
        told.append(f"{track.upper()}: {', '.join(parts)}.")
    return " ".join(told)


def moments(marks: Mapping[tuple[str, str], Marks], conversation_id: str) -> str:
    """What went wrong in a conversation, in the order of time."""
    wrong = sorted(
        (time_s, speaker, track, name)
        for (speaker, track), found in marks.items()
        for name in ("miss", "false positive")
        for time_s in found[name]
    )
    if not wrong:
        return "<p>Nothing was missed here, and there is no false positive.</p>"
    rows = [
        [f"{time_s:.3f} s", escape(speaker), track.upper(), name] for time_s, speaker, track, name in wrong
    ]
    caption = f"Misses and false positives of {escape(conversation_id)}"
    return table(caption, ["Time", "Speaker", "Track", "What"], rows, words=True)


def _group_name(column: str, group: str) -> str:
    return f"N = {escape(group)}" if column == "num_speakers" else escape(group)


def _group_cells(entries: Mapping[str, Any], track: str) -> list[str]:
    cells = [str(entries["n_conversations"])]
    for figure in ("recall", "fpr"):
        name = f"{track}_{figure}"
        cells += [shown(figure, entries[name]), interval(entries, name)]
    cells.append(shown("latency", entries[f"{track}_latency_p50_s"]))
    return cells + [str(entries[f"{track}_{count}"]) for count in COUNTS]


def _difference(pair: Mapping[str, Any], figure: str) -> list[str]:
    name, p_value = f"{figure}_difference", pair[f"{figure}_p_value"]
    return [
        shown(figure, pair[name], signed=True),
        interval(pair, name, signed=True),
        UNDEFINED if p_value != p_value else f"{p_value:.4f}",
    ]


def _verdict(one: Scored, track: str) -> str:
    result = one.result
    fpr, recall = (shown(rate, result[f"{track}_{rate}"]) for rate in ("fpr", "recall"))
    within = "within" if result[f"{track}_within_budget"] else "not within"
    named = f"{one.letter}, " if one.letter else ""
    return (
        f"{named}{TRACK_NAMES[track]}: recall {recall}, false-positive rate {fpr}: "
        f"<strong>{within} the budget</strong> of {100 * result['budget']:.0f} %"
    )


def _notes(systems: Sequence[Scored], differences: Mapping[str, Any] | None) -> str:
    notes = []
    for one in systems:
        notes += [f"{one.letter}: {note}" if one.letter else note for note in one.result["notes"]]
    for track, pair in (differences or {}).items():
        notes += [f"{track}: {note}" for note in pair["notes"]]
    if not notes:
        return ""
    items = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return f"<details><summary>Notes on the intervals ({len(notes)})</summary><ul>{items}</ul></details>"


def _titled(one: Scored) -> str:
    by = f" by {escape(short(one.detector))}" if one.detector else ""
    return f"{f'{one.letter} = ' if one.letter else ''}<strong>{escape(short(one.name))}</strong>{by}"
