"""What a detector may hear: audio cut exactly where its knowledge ends.

Importing this package loads NumPy and nothing heavier: each public name is imported when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

# `replay` is a module and a function of it. Bound here, so that the name is the function whatever a
# caller imports first.
from .replay import replay

if TYPE_CHECKING:
    from .batching import TurnBatchSampler, collate_prefixes
    from .causality import check_causal
    from .decoding import read_prefix
    from .readers import DecodeError
    from .slicing import n_samples
    from .transform import JoinError, PrefixTransform

_HOMES = {
    "DecodeError": "readers",
    "JoinError": "transform",
    "PrefixTransform": "transform",
    "TurnBatchSampler": "batching",
    "check_causal": "causality",
    "collate_prefixes": "batching",
    "n_samples": "slicing",
    "read_prefix": "decoding",
}
"""The public names that are imported at first use, each with its module."""

__all__ = [
    "DecodeError",
    "JoinError",
    "PrefixTransform",
    "TurnBatchSampler",
    "check_causal",
    "collate_prefixes",
    "n_samples",
    "read_prefix",
    "replay",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
