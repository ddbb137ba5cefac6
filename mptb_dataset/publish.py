"""Results on model cards: write `.eval_results/mptb.yaml`, and offer it to a model in a pull request."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from huggingface_hub import CommitOperationAdd, HfApi, ModelCard, ModelCardData
from huggingface_hub.errors import EntryNotFoundError

from .eval_results import Source, eval_results_yaml, model_card_data
from .hub import REPOSITORIES

RESULTS_FILE = ".eval_results/mptb.yaml"


@dataclass(frozen=True)
class Published:
    """What `publish` made.

    Attributes:
        text: the content of `.eval_results/mptb.yaml`.
        path: the file that was written; None for a dry run.
        pull_request: its address; None where none was asked for, or the model has this very file already.
    """

    text: str
    path: Path | None = None
    pull_request: str | None = None


def publish(
    result: str | os.PathLike[str] | Mapping[str, Any],
    model_id: str,
    *,
    folder: str | os.PathLike[str] = ".",
    push: bool = False,
    dry_run: bool = False,
    model_index: bool = False,
    dataset_id: str = REPOSITORIES["channels"],
    revision: str | None = None,
    date: str | None = None,
    source: Source | None = None,
    notes: str | None = None,
    tracks: Sequence[str] | None = None,
    token: str | bool | None = None,
) -> Published:
    """Write a result as the Hub shows it on a model's page, and offer it to the model.

    Args:
        result: a result of the metric, or the JSON file that holds it.
        model_id: the model, `<org>/<name>`.
        folder: below it, `.eval_results/mptb.yaml` is written.
        push: also open a pull request with the file.
        dry_run: neither write nor push.
        model_index: the pull request also adds the figures to the `model-index` of the model's card.
        dataset_id: as in `eval_results_yaml`.
        revision: as in `eval_results_yaml`.
        date: as in `eval_results_yaml`; None for the result's own, or else the day its file was written.
        source: as in `eval_results_yaml`.
        notes: as in `eval_results_yaml`.
        tracks: as in `eval_results_yaml`.
        token: access token of the Hub.

    Returns:
        The text, and what became of it.

    Raises:
        ValueError: a result that cannot be published; nothing is written then.
        huggingface_hub.errors.HfHubHTTPError: the Hub refused.
    """
    if isinstance(result, (str, os.PathLike)):
        written = datetime.fromtimestamp(os.stat(result).st_mtime, timezone.utc)
        result = read_result(result)
        date = date or result.get("date") or written.date().isoformat()
    told: dict[str, Any] = {
        "dataset_id": dataset_id,
        "revision": revision,
        "source": source,
        "tracks": tracks,
    }
    text = eval_results_yaml(result, date=date, notes=notes, **told)
    card = model_card_data(result, model_id.split("/")[-1], **told) if model_index else None
    if dry_run:
        return Published(text)
    path = Path(folder) / RESULTS_FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    url = open_pull_request(model_id, text, card=card, token=token) if push else None
    return Published(text, path, url)


def read_result(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a result file.

    Raises:
        ValueError: it is not a JSON object.
    """
    try:
        content = json.loads(Path(path).read_bytes())
    except ValueError as error:
        raise ValueError(f"{path}: expected a result as JSON: {error}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path}: expected a JSON object, got {type(content).__name__}")
    return content


def open_pull_request(
    model_id: str, text: str, *, card: ModelCardData | None = None, token: str | bool | None = None
) -> str | None:
    """Open a pull request that adds `.eval_results/mptb.yaml` to a model.

    Args:
        model_id: the model, `<org>/<name>`.
        text: the file's content.
        card: figures to add to the `model-index` of its card; other entries there stay.
        token: access token of the Hub.

    Returns:
        Its address; None where the model has all of it already.

    Raises:
        huggingface_hub.errors.HfHubHTTPError: the Hub refused.
    """
    api = HfApi(token=token)
    added = {RESULTS_FILE: text}
    if card is not None:
        added["README.md"] = _merged_card(model_id, card, token)
    done = api.create_commit(
        model_id,
        operations=[
            CommitOperationAdd(path_in_repo=path, path_or_fileobj=content.encode())
            for path, content in added.items()
        ],
        commit_message="Add MultiPartyTurnBench results",
        create_pr=True,
    )
    return done.pr_url


def _merged_card(model_id: str, data: ModelCardData, token: str | bool | None) -> str:
    """The model's card with these results in its index, in place of older values of the same figures."""
    try:
        card = ModelCard.load(model_id, token=token)  # type: ignore[arg-type]
    except EntryNotFoundError:
        return f"---\n{data.to_yaml()}\n---\n"
    new = data.eval_results or []
    kept = [
        old for old in card.data.eval_results or [] if not any(old.is_equal_except_value(one) for one in new)
    ]
    card.data.eval_results = kept + new
    card.data.model_name = card.data.model_name or data.model_name
    return str(card)
