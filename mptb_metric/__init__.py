"""How well a detector did: matching, decisions, sweeps, intervals and submissions (NumPy only)."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

# A function that shares its module's name is imported at once: were it fetched on demand, importing the
# module later would put the module in its place.
from .bootstrap import bootstrap
from .sweep import sweep

if TYPE_CHECKING:
    from .decisions import decide
    from .loading import load
    from .matching import match
    from .paired import paired_bootstrap
    from .predictions import SubmissionError
    from .results import to_json
    from .scoring import score_floor
    from .submission import load_submission, write_submission
    from .tradeoff import Sweep

_MODULE_OF = {
    "SubmissionError": "predictions",
    "Sweep": "tradeoff",
    "decide": "decisions",
    "load": "loading",
    "load_submission": "submission",
    "match": "matching",
    "paired_bootstrap": "paired",
    "score_floor": "scoring",
    "to_json": "results",
    "write_submission": "submission",
}

__all__ = [
    "SubmissionError",
    "Sweep",
    "bootstrap",
    "decide",
    "load",
    "load_submission",
    "match",
    "paired_bootstrap",
    "score_floor",
    "sweep",
    "to_json",
    "write_submission",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_MODULE_OF[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
