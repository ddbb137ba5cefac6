"""The `evaluate` module: a thin class that hands rows to pure functions next door.

`evaluate` copies this file and the siblings that it names, not what these name in turn. So every sibling that
is needed at all is named here, one line each and without a comment, which would be taken for an address.
"""

# ruff: noqa: F401
from __future__ import annotations

import inspect
import os
from typing import Any

import datasets
import evaluate

from .adapters import ADAPTERS, Adapter
from .bootstrap import bootstrap
from .curves import roc_auc
from .decisions import decide
from .endpoint_tables import read_turns
from .endpoints import compute_endpoints
from .frozen import read_frozen
from .intervals import intervals
from .matching import match
from .paired import paired_bootstrap
from .percentiles import bootstrap_percentiles
from .predictions import checked_rows
from .report import Report
from .resampling import resample
from .scoring import score_floor
from .sums import Sums
from .tables import read_columns
from .turn_end import compute_turn_end

_DESCRIPTION = """\
Scores end-of-turn and interruption detectors: `floor` on the floor-control tracks of MultiPartyTurnBench,
`turn_end` on labelled prefixes and `endpoints` on declared turn ends of turn-end-detection.
"""

_CITATION = """\
@misc{multipartyturnbench2026,
  title  = {MultiPartyTurnBench: Benchmarking Floor Control in Multi-Party Spoken Dialogues},
  author = {Puneet Mathur, Dinesh Manocha},
  year   = {2026},
  note   = {Dataset: https://huggingface.co/datasets/puneetUMD/MultiPartyTurnBench}
}
@misc{turn_end_detection,
  title  = {Turn-end detection from real ASR prefixes},
  author = {Kroman, Alex},
  year   = {2026},
  url    = {https://huggingface.co/datasets/mazesmazes/turn-end-detection}
}
"""

_INPUTS_DESCRIPTION = """
Rows are joined by their ids, never by position. Tables may be `Dataset` objects, lists of dicts, pandas or
Arrow; columns that are not named here are ignored, and audio is never decoded. Times are in seconds.

Configuration `floor` (default):
    predictions: a row {conversation_id, speaker, eot, int} per channel, with lists of decision times; with
        `thresholds` a row {conversation_id, speaker, eot_scores, int_scores, frame_rate}, a score per frame.
    references: the same rows of the `channels` table, as loaded; `conversation_type`, `num_speakers`,
        `domain` and `tone` serve `by`.
    Options: protocol, by, budget, thresholds, n_resamples, confidence_level, method, seed, strata.

Configuration `turn_end`:
    predictions: labels or scores in the order of the references, or rows {key, prediction} or {key, score}.
    references: rows of `observations`.
    Options: theta, budget, by, n_resamples, confidence_level, method, seed.

Configuration `endpoints`:
    predictions: the time of the first fire, None for never, or rows {turn_key, first_endpoint_s}.
    references: rows of `turns` or `endpoints`.
    Options: published, late_report_s, by, n_resamples, confidence_level, method, seed.

Returns a flat dict of plain numbers; undefined figures are nan. The metric card lists them.

Examples:

    >>> metric = evaluate.load("mptb_metric")
    >>> gold = {"positives": [2.0], "negative_spans": [{"start": 5.0, "end": 6.0}], "excluded_spans": []}
    >>> nothing = {"positives": [], "negative_spans": [], "excluded_spans": []}
    >>> channel = {"conversation_id": "dev_00001", "speaker": "speaker_1"}
    >>> result = metric.compute(
    ...     predictions=[{**channel, "eot": [2.3], "int": []}],
    ...     references=[{**channel, "eot": gold, "int": nothing}],
    ... )
    >>> result["eot_recall"], result["eot_fpr"], result["eot_latency_p50_s"], result["int_recall"]
    (1.0, 0.0, 0.3, nan)
"""

_NUMBER = datasets.Value("float64")
_SPANS = [{"start": _NUMBER, "end": _NUMBER}]
_FEATURES = {
    "text": datasets.Value("string"),
    "number": _NUMBER,
    "whole": datasets.Value("int64"),
    "numbers": datasets.Sequence(_NUMBER),
    "texts": datasets.Sequence(datasets.Value("string")),
    "gold": {
        "positives": datasets.Sequence(_NUMBER),
        "negative_spans": _SPANS,
        "excluded_spans": _SPANS,
    },
}


class MptbMetric(evaluate.Metric):
    """Pooled figures of turn-taking detectors; see `inputs_description`."""

    config_name: str
    file_paths: list[str] | None
    filelocks: list[Any] | None

    def _info(self) -> evaluate.MetricInfo:
        if self.config_name == "default":
            self.config_name = "floor"
        if self.config_name not in ADAPTERS:
            raise ValueError(
                f"configuration {self.config_name!r} is unknown; expected one of {', '.join(ADAPTERS)}"
            )
        adapter = self._adapter
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation=_CITATION,
            inputs_description=_INPUTS_DESCRIPTION,
            features=datasets.Features(
                {
                    "predictions": {name: _FEATURES[kind] for name, kind in adapter.predictions.items()},
                    "references": {name: _FEATURES[kind] for name, kind in adapter.references.items()},
                }
            ),
            reference_urls=[
                "https://huggingface.co/datasets/puneetUMD/MultiPartyTurnBench",
                "https://huggingface.co/datasets/mazesmazes/turn-end-detection",
            ],
        )

    @property
    def _adapter(self) -> Adapter:
        return ADAPTERS[self.config_name]

    def add(self, *, prediction: Any = ..., reference: Any = ...) -> None:
        """Add one row of predictions, or one prediction, and one row of references."""
        given = {"predictions": prediction, "references": reference}
        self.add_batch(**{name: [row] for name, row in given.items() if row is not ...})  # None can be meant

    def add_batch(self, *, predictions: Any = None, references: Any = None) -> None:
        """Add equally many rows of predictions and references, in any order; they are checked at once."""
        rows, gold = self._adapter.stored(predictions, references)
        super().add_batch(predictions=rows, references=gold)

    def compute(self, *, predictions: Any = None, references: Any = None, **options: Any) -> Any:
        """Score what was added, or the given rows."""
        known = inspect.signature(self._adapter.compute).parameters
        unknown = [name for name in options if name not in known]
        if unknown:
            raise TypeError(
                f"configuration {self.config_name!r}: unknown option {', '.join(unknown)}; "
                f"expected any of {', '.join(list(known)[2:])}"
            )
        try:
            return super().compute(predictions=predictions, references=references, **options)
        finally:
            self._release()

    def _compute(
        self,
        *,
        predictions: list[dict[str, Any]],
        references: list[dict[str, Any]],
        by: Any = None,
        n_resamples: int | None = None,
        confidence_level: float | None = None,
        method: str | None = None,
        seed: int | None = None,
        protocol: str | None = None,
        budget: float | None = None,
        thresholds: Any = None,
        strata: str | None = None,
        theta: Any = None,
        published: Any = None,
        late_report_s: float | None = None,
    ) -> dict[str, Any]:
        """Score stored rows; an option that is None has the default of the configuration."""
        given = {
            "by": by,
            "n_resamples": n_resamples,
            "confidence_level": confidence_level,
            "method": method,
            "seed": seed,
            "protocol": protocol,
            "budget": budget,
            "thresholds": thresholds,
            "strata": strata,
            "theta": theta,
            "published": published,
            "late_report_s": late_report_s,
        }
        options = {name: value for name, value in given.items() if value is not None}
        return self._adapter.score(predictions, references, **options)

    def _release(self) -> None:
        """Give back the file and lock that `evaluate` keeps when `_compute` raises."""
        if self.writer is not None:
            return  # rows were refused before anything was computed; what was added before is still there
        self.data = None
        for path, lock in zip(self.file_paths or (), self.filelocks or (), strict=False):
            if os.path.exists(path):
                os.remove(path)
            lock.release()
        self.file_paths = self.filelocks = None
