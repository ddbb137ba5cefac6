"""The texts of an exported repository: its dataset card and, for a benchmark, `eval.yaml`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml
from huggingface_hub import DatasetCardData

from .anchors import TRACKS
from .hub import REPOSITORIES
from .schemas import MPTB_CONFIGS
from .shards import LABELS

EXPORT_TAG = "mptb-export"
"""Marks a card as written here, so that an export replaces nothing but an export."""

BENCHMARK_SPLIT = "test"


@dataclass(frozen=True)
class _Corpus:
    name: str
    license: str
    tags: list[str]
    about: str
    terms: str
    citation: str


_MPTB = _Corpus(
    name="MultiPartyTurnBench",
    license="cc-by-4.0",
    tags=["turn-taking", "multi-party", "end-of-turn", "interruption", "spoken-dialogue", "benchmark"],
    about="""\
Synthetic conversations of 2-5 speakers, one channel each, with the moments at which the floor is yielded
(`eot`) or taken (`int`), and the moments built to fool a detector. Times are seconds.""",
    terms="CC BY 4.0, as the original.",
    citation="""\
@misc{multipartyturnbench2026,
  title  = {MultiPartyTurnBench: Benchmarking Floor Control in Multi-Party Spoken Dialogues},
  author = {Puneet Mathur, Dinesh Manocha},
  year   = {2026},
  note   = {Dataset: https://huggingface.co/datasets/puneetUMD/MultiPartyTurnBench}
}""",
)

_TURN_END = _Corpus(
    name="turn-end-detection",
    license="other",
    tags=["turn-taking", "end-of-turn", "voice-agents"],
    about="""\
Prefixes of synthesized customer-service turns, labelled finished or not. A row of `observations` describes
`turns.audio[:at_s]` of its `turn_key`, not the whole file. Times are seconds.""",
    terms="""\
The licence is `other`, as in the original: the terms for synthesized speech depend on its provider. Check
those that apply to your use before you redistribute the audio.""",
    citation="""\
@misc{turn_end_detection,
  title  = {Turn-end detection from real ASR prefixes},
  author = {Kroman, Alex},
  year   = {2026},
  url    = {https://huggingface.co/datasets/mazesmazes/turn-end-detection}
}""",
)

_AUDIO = """\
Audio is the original files{scene}. `datasets` decodes it with torchcodec; without that,
`cast_column(..., Audio(decode=False))` gives the bytes."""

_SCENES = {"noisy": ", the noisy scene", "clean": ", the clean scene", "both": ", noisy and clean"}

_CARD = """\
---
{header}
---
# {name} as Parquet

{about}

Made from [{published}](https://huggingface.co/datasets/{published}).

{audio}

```python
from datasets import load_dataset

load_dataset("<this repository>", "{config}")
```

{labels}| config | split | rows |
|---|---|---:|
{table}

## Licence and citation

{terms}

```bibtex
{citation}
```
"""

_BENCHMARK = """\
Floor control in conversations of 2-5 speakers. Task eot: find when a speaker yields the floor, without
firing in pauses. Task int: find when a listener takes the floor, without firing on backchannels or
laughter. The value is recall on test at the threshold that has the highest recall on dev with a false
positive rate of at most 0.10."""


def card_text(rows: Mapping[str, Mapping[str, int]], *, audio: str) -> str:
    """The README.md of an export.

    Args:
        rows: for every config, the number of rows of each split; tables of one corpus.
        audio: what the audio columns hold: "noisy", "clean", "both" or "none".

    Returns:
        The YAML header, which declares every config and split, and the text.
    """
    first = next(iter(rows))
    corpus = _MPTB if first in MPTB_CONFIGS else _TURN_END
    labels = [
        f"`{config}.label`: 0 is {no}, 1 is {yes}, -1 (if there is any) is ignored by scoring.\n\n"
        for config, (no, yes) in LABELS.items()
        if config in rows
    ]
    has_audio = audio != "none" and (corpus is _MPTB or "turns" in rows)
    scene = _SCENES[audio] if has_audio and corpus is _MPTB else ""
    return _CARD.format(
        header=_header(rows, corpus, REPOSITORIES[first]).to_yaml(),
        name=corpus.name,
        about=corpus.about,
        published=REPOSITORIES[first],
        audio=_AUDIO.format(scene=scene) if has_audio else "There is no audio in it.",
        config=first,
        labels="".join(labels),
        table="\n".join(
            f"| {config} | {split} | {n} |" for config, n_rows in rows.items() for split, n in n_rows.items()
        ),
        terms=corpus.terms,
        citation=corpus.citation,
    )


def eval_yaml(config: str) -> str:
    """The `eval.yaml` that makes a dataset repository a benchmark: tasks `eot` and `int`.

    Format: https://huggingface.co/docs/hub/eval-results. The Hub keeps the list of evaluation frameworks
    (huggingface.js, packages/tasks/src/eval.ts); a leaderboard needs `mptb` to be on it.

    Args:
        config: the table that holds what is scored.
    """
    content: dict[str, Any] = {
        "name": _MPTB.name,
        "description": _BENCHMARK.replace("\n", " "),
        "evaluation_framework": "mptb",
        "tasks": [{"id": track, "config": config, "split": BENCHMARK_SPLIT} for track in TRACKS],
    }
    return yaml.safe_dump(content, sort_keys=False, width=100)


def _header(rows: Mapping[str, Mapping[str, int]], corpus: _Corpus, published: str) -> DatasetCardData:
    return DatasetCardData(
        pretty_name=f"{corpus.name} as Parquet",
        license=corpus.license,
        language=["en"],
        task_categories=["audio-classification", "voice-activity-detection"],
        tags=[*corpus.tags, EXPORT_TAG],
        size_categories=[_size_category(max(sum(n_rows.values()) for n_rows in rows.values()))],
        source_datasets=[published],
        configs=[
            {
                "config_name": config,
                "data_files": [{"split": split, "path": f"{config}/{split}-*.parquet"} for split in n_rows],
            }
            for config, n_rows in rows.items()
        ],
    )


def _size_category(n_rows: int) -> str:
    """The Hub's name for an order of magnitude."""
    for limit, name in ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K")):
        if n_rows < limit:
            return name
    return "100K<n<1M"
