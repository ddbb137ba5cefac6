"""The `evaluate` module of this very folder, from anywhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import evaluate


def load(config_name: str | None = None, **options: Any) -> evaluate.EvaluationModule:
    """Load the metric as `evaluate.load` does from a checkout; no network, whatever the working folder.

    Args:
        config_name: "floor" (default), "turn_end" or "endpoints".
        **options: what else `evaluate.load` takes, such as `experiment_id` or `keep_in_memory`.

    Raises:
        ValueError: an unknown configuration.
        ImportError: `evaluate` is not installed.
    """
    import evaluate

    return evaluate.load(str(Path(__file__).parent), config_name, **options)
