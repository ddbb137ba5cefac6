"""How figures and a stranger's words look on the page."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from typing import Any

TRACK_NAMES = {"eot": "End of turn (EOT)", "int": "Interruption (INT)"}
UNDEFINED = "n/a"
MINUS = "\u2212"
MAX_NAME = 60


def short(name: str) -> str:
    """Cut a long name in its middle, where it says least."""
    half = MAX_NAME // 2
    return name if len(name) <= MAX_NAME else f"{name[:half]}…{name[-half:]}"


def shown(figure: str, value: float, *, signed: bool = False) -> str:
    """Show a rate in percent or a latency in milliseconds; an undefined one is said to be so."""
    if math.isnan(value):
        return UNDEFINED
    sign = "+" if signed else ""
    if "latency" in figure:
        text = f"{1000 * value:{sign}.0f} ms"
    else:
        text = f"{100 * value:{sign}.1f} {'points' if signed else '%'}"
    return text.replace("-", MINUS)


def interval(result: Mapping[str, Any], figure: str, *, signed: bool = False) -> str:
    """Show the ends of a figure's interval, without their unit."""
    ends = [
        shown(figure, result[f"{figure}_{end}"], signed=signed).removesuffix(" points").rstrip(" %ms")
        for end in ("low", "high")
    ]
    return UNDEFINED if UNDEFINED in ends else f"{ends[0]} to {ends[1]}"


def download(text: str, *, file: str, label: str, kind: str = "application/json") -> str:
    """A link that saves a text: it travels in the page, so that no file is left on the server."""
    data = base64.b64encode(text.encode()).decode()
    return f'<a class="download" download="{file}" href="data:{kind};base64,{data}">{label}</a>'
