"""The page: what is asked for, what becomes of it, and how it is served."""

from __future__ import annotations

import json
import warnings
from html import escape
from pathlib import Path
from typing import Any

import gradio as gr

from ..intervals import BootstrapWarning
from ..matching import PROTOCOLS
from ..predictions import SubmissionError
from . import figures, tables
from .gold import Gold, Split
from .marks import marks_of, tally
from .scoring import MAX_BYTES, Scored, compare_two, record, score, split_meant
from .text import download
from .uploads import UploadGuard

KEPT_S = 1740
"""How long an uploaded file and a visitor's result stay at least."""

SWEPT_S = 60
"""How often what is older is deleted: so nothing stays for more than half an hour."""

MAX_WAITING = 40
MAX_VISITORS = 100
"""Results that are kept: a few megabytes each where files are as large as they may be."""


_PROTOCOL_NAMES = {"mptb": "MPTB (the benchmark's own)", "turnbench": "TurnBench"}

_TO_STATUS = "() => document.getElementById('status').scrollIntoView({block: 'nearest'})"
"""On a phone the answer is below the button's screen."""

_NAME_PARTS = """() => {
  const nameFile = (part) => {
    const label = part.querySelector('label')?.innerText.trim();
    part.querySelectorAll('button[aria-label]').forEach((button) => {
      const name = button.getAttribute('aria-label');
      if (label && !name.startsWith(label)) button.setAttribute('aria-label', `${label}: ${name}`);
    });
  };
  const nameGroup = (part) => {
    const label = part.querySelector('[data-testid="block-info"]')?.innerText.trim();
    if (label && part.getAttribute('aria-label') !== label) part.setAttribute('aria-label', label);
  };
  const name = () => {
    document.querySelectorAll('#first, #second').forEach(nameFile);
    document.querySelectorAll('#split, #protocol, #which').forEach(nameGroup);
  };
  new MutationObserver(name).observe(document.body, {childList: true, subtree: true});
  name();
}"""
"""Gradio names the buttons of all files alike, and groups of choices not at all: who does not see the labels
could not tell them apart."""

_INTRODUCTION = """\
# MultiPartyTurnBench scorer

How well does a detector know **when a turn ends** (EOT) and **when somebody takes the floor** (INT)? Upload
its decisions for every channel of a split, or those of two detectors to compare them. Files are read as JSON,
never run, and deleted within half an hour.

"""

_FORMAT = """\
```json
{"schema_version": 1, "detector": "my-detector", "predictions": [
  {"conversation_id": "test_00001",
   "speaker_1": {"eot": [4.2, 17.9], "int": []},
   "speaker_2": {"eot": [], "int": [12.35]}}
]}
```

Every conversation and speaker of the split once; times in seconds, ascending; `[]` where nothing was decided.
At most 5 MB. `mptb run` writes such files.
"""


class _Page:
    """The components that events change."""

    def __init__(self, gold: Gold) -> None:
        self.gold = gold
        gr.Markdown(_INTRODUCTION + _corpus(gold))
        with gr.Row():
            self.first = gr.File(label="Submission (JSON)", elem_id="first", height=150)
            self.second = gr.File(label="A second one, to compare (optional)", elem_id="second", height=150)
        with gr.Row():
            names = list(gold.splits)
            self.split = gr.Radio(names, value=names[0], label="Split", elem_id="split")
            protocols = [(_PROTOCOL_NAMES[protocol], protocol) for protocol in PROTOCOLS]
            self.protocol = gr.Radio(protocols, value="mptb", label="Protocol", elem_id="protocol")
        self.button = gr.Button("Score", variant="primary", elem_id="score")
        with gr.Accordion("What a submission looks like", open=False):
            gr.Markdown(_FORMAT)
            gr.HTML(" ".join(map(_template, gold.splits.values())))
        self.status = gr.HTML(elem_id="status", min_height=48)
        with gr.Column(visible=False, elem_id="results") as self.results:
            self._build_results()
        self.state = gr.State(None, time_to_live=KEPT_S)

    def _build_results(self) -> None:
        with gr.Tabs(overflow_behavior="wrap"):
            with gr.Tab("Scores"):
                self.scores = gr.HTML(elem_id="scores")
            with gr.Tab("Groups"):
                self.groups = gr.HTML(elem_id="groups")
            with gr.Tab("Recall vs FPR"):
                self.plane = gr.HTML(elem_id="plane")
            with gr.Tab("Latency"):
                self.latency = gr.HTML(elem_id="latency")
            with gr.Tab("Timeline"):
                self.which = gr.Radio(["A", "B"], value="A", label="Submission", elem_id="which")
                self.conversation = gr.Dropdown([], label="Conversation", elem_id="conversation")
                self.timeline = gr.HTML(elem_id="timeline")

    def connect(self) -> None:
        """Say what happens when."""
        shown = [self.scores, self.groups, self.plane, self.latency, self.timeline]
        self.button.click(
            self._score,
            [self.first, self.second, self.split, self.protocol],
            [self.status, self.results, *shown, self.which, self.conversation, self.state],
            api_name="score",
            concurrency_limit=2,
            show_progress_on=self.status,
        ).then(None, js=_TO_STATUS)
        for choice in (self.which, self.conversation):
            choice.input(
                _draw,
                [self.conversation, self.which, self.state],
                self.timeline,
                api_visibility="private",
                trigger_mode="always_last",
            )

    def _score(self, first: str | None, second: str | None, split_name: str, protocol: str) -> dict[Any, Any]:
        split = self.gold.splits[split_name]
        paths = [path for path in (first, second) if path]
        if not paths:
            return self._refused(tables.told("Choose a file first."))
        systems, wrong = [], []
        for letter, path in zip("AB" if len(paths) > 1 else ("",), paths, strict=False):
            name = Path(path).name
            try:
                systems.append(score(path, split, protocol=protocol, name=name, letter=letter))
            except SubmissionError as error:
                wrong.append(tables.faults(error.faults, name=name, hint=self._hint(path, split)))
            except FileNotFoundError:
                wrong.append(tables.told(f"{escape(name)} is no longer here: choose it again."))
        return self._refused("".join(wrong)) if wrong else self._found(systems, split)

    def _hint(self, path: str, split: Split) -> str:
        meant = split_meant(path, self.gold)
        if meant is None or meant == split.name:
            return ""
        return f"Its conversations are those of split <strong>{meant}</strong>: choose that one."

    def _refused(self, message: str) -> dict[Any, Any]:
        return {self.status: message, self.results: gr.Column(visible=False), self.state: None}

    def _found(self, systems: list[Scored], split: Split) -> dict[Any, Any]:
        differences = compare_two(*systems) if len(systems) > 1 else None
        letters = [one.letter for one in systems]
        state = (split, systems)
        first = next(iter(split.conversations))
        choices = [(_choice(row, systems[0]), name) for name, row in split.conversations.items()]
        return {
            self.status: tables.summary(
                systems, split, self.gold, record(systems, split, self.gold, differences)
            ),
            self.results: gr.Column(visible=True),
            self.scores: tables.scores(systems, differences),
            self.groups: tables.groups(systems),
            self.plane: figures.plane(systems, budget=split.budget),
            self.latency: figures.latencies(systems),
            self.which: gr.Radio(letters, value=letters[0], visible=len(systems) > 1),
            self.conversation: gr.Dropdown(choices, value=first),
            self.timeline: _draw(first, letters[0], state),
            self.state: state,
        }


def build(gold: Gold) -> gr.Blocks:
    """Build the page; `launch` serves it."""
    with gr.Blocks(
        title="MultiPartyTurnBench scorer", delete_cache=(SWEPT_S, KEPT_S), analytics_enabled=False
    ) as demo:
        _Page(gold).connect()
    return demo.queue(max_size=MAX_WAITING, default_concurrency_limit=4)


def launch(demo: gr.Blocks, uploads: Path) -> None:
    """Serve the page until the process ends; address and port are Gradio's own environment variables.

    Args:
        demo: the page.
        uploads: the folder of uploads, from `own_folder`.
    """
    warnings.simplefilter("ignore", BootstrapWarning)  # the page shows what they say, to whom it concerns
    guard = (UploadGuard, (), {"folder": uploads, "max_bytes": MAX_BYTES + (64 << 10)})
    demo.launch(
        css_paths=Path(__file__).with_name("page.css"),
        theme=_theme(),
        js=_NAME_PARTS,
        max_file_size=MAX_BYTES,
        state_session_capacity=MAX_VISITORS,
        app_kwargs={"middleware": [guard]},
        footer_links=[],
        run_history=False,
        enable_monitoring=False,
        ssr_mode=False,
    )


def _theme() -> gr.Theme:
    """The fonts that every system has, and a button whose text stands out by more than 4.5 to 1."""
    theme = gr.themes.Default(
        primary_hue="blue",
        secondary_hue="blue",
        font=["system-ui", "sans-serif"],
        font_mono=["ui-monospace", "monospace"],
    )
    return theme.set(
        button_primary_background_fill="*primary_600", button_primary_background_fill_hover="*primary_700"
    )


def _draw(conversation_id: str, letter: str, state: tuple[Split, list[Scored]] | None) -> str:
    """One conversation as a picture and, in words, what went wrong in it."""
    if state is None:
        return tables.told("This result is no longer here: press Score again.")
    split, systems = state
    one = next((one for one in systems if one.letter == letter), systems[0])
    conversation = split.conversations[conversation_id]
    marks = marks_of(conversation, one)
    picture = figures.timeline(
        conversation, marks, title=escape(f"Timeline of {conversation_id}"), caption=tables.counted(marks)
    )
    return picture + tables.moments(marks, conversation_id)


def _choice(row: dict[str, Any], scored: Scored) -> str:
    misses, false_positives = tally(row["conversation_id"], scored)
    kind = row["conversation_type"] or "unknown type"
    wrong = f"{misses} missed, {false_positives} false"
    return f"{row['conversation_id']}: {wrong} ({kind}, {row['num_speakers']} speakers)"


def _corpus(gold: Gold) -> str:
    sizes = " and ".join(
        f"{name} ({len(split.conversations)} conversations)" for name, split in gold.splits.items()
    )
    if gold.source is None:
        return f"Gold: the **embedded sample**, {sizes}: for trying things out, its figures mean nothing."
    return f"Gold: **{gold.source}**, {sizes}."


def _template(split: Split) -> str:
    entries = [
        {"conversation_id": name, **{speaker: {"eot": [], "int": []} for speaker in row["speakers"]}}
        for name, row in split.conversations.items()
    ]
    lines = ",\n".join(map(json.dumps, entries))
    text = f'{{"schema_version": 1, "predictions": [\n{lines}\n]}}\n'
    return download(text, file=f"silent_{split.name}.json", label=f"Save an empty one for {split.name}")
