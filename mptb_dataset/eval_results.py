"""A result -> the Hub's `.eval_results/mptb.yaml`, and the older `model-index` metadata of a model card.

Format: https://huggingface.co/docs/hub/eval-results. Each track is an entry of its own: its task is the
`eot` or `int` of the benchmark's `eval.yaml`, its value the recall. Its notes say what the recall means
little without: the false positive rate, the latency, the protocol.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import yaml
from huggingface_hub import EvalResult, ModelCardData

from .anchors import TRACKS
from .card import BENCHMARK_SPLIT
from .hub import REPOSITORIES

try:
    from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml
except ImportError:  # loading works with much older releases
    raise ImportError("publishing needs huggingface_hub>=1.4: pip install -U huggingface_hub") from None

_MEASURES = {"recall": "recall", "fpr": "false positive rate", "latency_p50_s": "median latency, s"}
"""The figures of the index, with their names there."""

_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:\d{2})?)?")


@dataclass(frozen=True)
class Source:
    """Where a result comes from.

    Attributes:
        url: an address with logs, code or a paper.
        name: what to call it.
        user: the Hub user behind it.
        org: the Hub organization behind it.
    """

    url: str
    name: str | None = None
    user: str | None = None
    org: str | None = None

    def __post_init__(self) -> None:
        """Refuse what is no web address.

        Raises:
            ValueError: `url` is none.
        """
        if not re.match(r"https?://\w", self.url):
            raise ValueError(f"source url: {self.url!r}: expected an address that begins with https://")


def eval_results_yaml(
    result: Mapping[str, Any],
    *,
    dataset_id: str = REPOSITORIES["channels"],
    revision: str | None = None,
    date: str | None = None,
    source: Source | None = None,
    notes: str | None = None,
    tracks: Sequence[str] | None = None,
) -> str:
    """The content of `.eval_results/mptb.yaml`: an entry per track.

    Args:
        result: a flat result of the metric's floor configuration. Of it are used `{track}_recall`,
            `{track}_fpr`, `{track}_latency_p50_s`, `{track}_within_budget`, `protocol`, `split`, `corpus`
            (a checksum), `corpus_revision` and `date`.
        dataset_id: the benchmark's repository.
        revision: its commit; None for the result's.
        date: when the system was evaluated, ISO 8601; None for the result's. Without one the Hub takes the
            commit's.
        source: where the result comes from; without one there is no `source` key.
        notes: more words about the system or its setting.
        tracks: "eot", "int" or both; None for those that the result has.

    Returns:
        YAML that `huggingface_hub.parse_eval_result_entries` reads; all its values are plain.

    Raises:
        ValueError: no track, a recall that is undefined or no rate, another split than test, or an
            option of the wrong form; the message names it.
    """
    day = date if date is not None else result.get("date")
    if day is not None and not (isinstance(day, str) and _ISO_DATE.fullmatch(day)):
        raise ValueError(f"date: {day!r}: expected ISO 8601, such as 2026-01-31")
    from_ = {f"source_{key}": value for key, value in vars(source).items()} if source else {}
    entries = [
        EvalResultEntry(
            dataset_id=dataset_id,
            task_id=track,
            value=_rate(result, f"{track}_recall"),
            dataset_revision=_revision(result, revision),
            date=day,
            notes=_notes(result, track, notes),
            **from_,
        )
        for track in _checked_tracks(result, tracks)
    ]
    return yaml.safe_dump(
        eval_result_entries_to_yaml(entries), sort_keys=False, allow_unicode=True, width=1000
    )


def model_card_data(
    result: Mapping[str, Any],
    model_name: str,
    *,
    dataset_id: str = REPOSITORIES["channels"],
    revision: str | None = None,
    source: Source | None = None,
    tracks: Sequence[str] | None = None,
) -> ModelCardData:
    """The same result as `model-index` metadata: recall, FPR and median latency of each track.

    Args:
        result: as in `eval_results_yaml`.
        model_name: the model's name in the index.
        dataset_id: as in `eval_results_yaml`.
        revision: as in `eval_results_yaml`.
        source: as in `eval_results_yaml`.
        tracks: as in `eval_results_yaml`.

    Returns:
        Card data whose `to_dict()["model-index"]` is the metadata. A figure other than the recall that is
        undefined is left out.

    Raises:
        ValueError: as in `eval_results_yaml`.
    """
    found = []
    for track in _checked_tracks(result, tracks):
        figures = {measure: _number(result.get(f"{track}_{measure}")) for measure in _MEASURES}
        figures["recall"] = _rate(result, f"{track}_recall")
        found += [
            EvalResult(
                task_type="audio-classification",
                task_name="Floor control",
                dataset_type=dataset_id,
                dataset_name="MultiPartyTurnBench",
                dataset_config="channels",
                dataset_split=BENCHMARK_SPLIT,
                dataset_revision=_revision(result, revision),
                metric_type=measure,
                metric_name=f"{track.upper()} {_MEASURES[measure]}",
                metric_value=value,
                metric_args={"track": track, "protocol": str(result.get("protocol", "mptb"))},
                source_url=source.url if source else None,
                source_name=source.name if source else None,
            )
            for measure, value in figures.items()
            if value is not None
        ]
    return ModelCardData(model_name=model_name, eval_results=found)


def _checked_tracks(result: Mapping[str, Any], tracks: Sequence[str] | None) -> list[str]:
    split = result.get("split", BENCHMARK_SPLIT)
    if split != BENCHMARK_SPLIT:
        raise ValueError(f"split: {split!r}: the benchmark's tasks are on {BENCHMARK_SPLIT}")
    found = [track for track in TRACKS if f"{track}_recall" in result] if tracks is None else list(tracks)
    unknown = [track for track in found if track not in TRACKS]
    if unknown or not found:
        raise ValueError(
            f"tracks: {unknown or found}: expected a result with {' or '.join(f'{t}_recall' for t in TRACKS)}"
        )
    return found


def _rate(result: Mapping[str, Any], key: str) -> float:
    value = _number(result.get(key))
    if value is None:
        raise ValueError(
            f"{key}: {result.get(key)!r}: an undefined value is not published; leave the track out"
        )
    if not 0 <= value <= 1:
        raise ValueError(f"{key}: {value}: expected a rate from 0 to 1")
    return value


def _number(value: Any) -> float | None:
    """A plain float, None for whatever is not a finite number; NumPy's scalars are numbers too."""
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        return None
    return float(value)


def _revision(result: Mapping[str, Any], revision: str | None) -> str | None:
    found = revision if revision is not None else result.get("corpus_revision")
    if found is not None and not (isinstance(found, str) and re.fullmatch(r"[0-9a-f]{7,40}", found)):
        raise ValueError(f"revision: {found!r}: expected the commit of the benchmark's repository")
    return found


def _notes(result: Mapping[str, Any], track: str, notes: str | None) -> str:
    """What must be known about a recall: its price in false positives, its delay, its rules, its data."""
    fpr, latency_s = _number(result.get(f"{track}_fpr")), _number(result.get(f"{track}_latency_p50_s"))
    within = result.get(f"{track}_within_budget")
    said = [
        "FPR undefined" if fpr is None else f"FPR {fpr:.4f}",
        None if within is None else "within budget" if within else "out of budget",
        None if latency_s is None else f"median latency {latency_s:.3f} s",
        f"protocol {result.get('protocol', 'mptb')}",
        f"corpus {str(result['corpus'])[:16]}" if result.get("corpus") else None,
        notes,
    ]
    return "; ".join(part for part in said if part)
