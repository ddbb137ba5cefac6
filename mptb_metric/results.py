"""Results as plain values: what goes into JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np


def to_json(result: Any) -> Any:
    """Make a result safe for strict JSON: `json.dumps(to_json(result), allow_nan=False)` always works.

    NaN and infinite numbers become None, NumPy scalars and arrays plain numbers and lists, keys text. The
    result itself is not changed.

    Raises:
        ValueError: a value of another type.
    """
    if isinstance(result, Mapping):
        return {str(key): to_json(value) for key, value in result.items()}
    if isinstance(result, np.ndarray | np.generic):
        return to_json(result.tolist())
    if isinstance(result, list | tuple):
        return [to_json(value) for value in result]
    if isinstance(result, float):
        return float(result) if math.isfinite(result) else None
    if result is None or isinstance(result, bool | int | str):
        return result
    raise ValueError(f"cannot be written as JSON: {type(result).__name__} {result!r:.80}")
