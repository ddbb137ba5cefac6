"""The `evaluate` module of this very folder, from anywhere."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import evaluate


def load(config_name: str | None = None, **options: Any) -> evaluate.EvaluationModule:
    """Load the metric as `evaluate.load` does from a checkout; no network, whatever the working folder.

    Where the Hugging Face cache cannot be written, which `evaluate.load` needs for a copy of the code, the
    same class is made without it and keeps its rows in a temporary folder.

    Args:
        config_name: "floor" (default), "turn_end" or "endpoints".
        **options: as for `evaluate.load`: `num_process`, `process_id`, `cache_dir`, `experiment_id`,
            `keep_in_memory`.

    Raises:
        ValueError: an unknown configuration.
        ImportError: `evaluate` is not installed.
    """
    import evaluate

    try:
        return evaluate.load(str(Path(__file__).parent), config_name, **options)
    except OSError:
        from .mptb_metric import MptbMetric

        folder = tempfile.mkdtemp(prefix="mptb_metric_")
        return MptbMetric(config_name=config_name, **{"cache_dir": folder, **options})
