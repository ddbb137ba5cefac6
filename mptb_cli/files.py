"""JSON files that are written whole or not at all."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


def write_json(path: Path, content: Any) -> None:
    """Write strict JSON through a temporary file beside it; NaN must have become null before."""
    text = json.dumps(content, indent=1, allow_nan=False) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    try:
        part.write_text(text, encoding="utf-8")
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def read_json(path: Path) -> Any:
    """Read a JSON file.

    Raises:
        ValueError: it is not UTF-8 or not JSON; the message names the file, the line and the column.
        OSError: it cannot be read.
    """
    try:
        return json.loads(path.read_bytes())
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{path}: not valid JSON at line {error.lineno}, column {error.colno}: {error.msg}"
        ) from None
    except (UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{path}: not valid JSON: {error}") from None
