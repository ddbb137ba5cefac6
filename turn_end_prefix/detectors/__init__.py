"""Detectors that hear a conversation hop by hop, never the future, found by name.

A name is an entry point of the group ``mptb.detectors``: any installed package can add its own. Anything
else is reached as ``module:object``. Either way the object is a detector, or makes one when called with the
options.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import Any, cast

from ..replay import Detector
from .extras import MissingExtraError
from .prefix import first_endpoint, pipeline_model, prefix_detector, score_prefixes

__all__ = [
    "GROUP",
    "MissingExtraError",
    "available_detectors",
    "first_endpoint",
    "load_detector",
    "pipeline_model",
    "prefix_detector",
    "score_prefixes",
]

GROUP = "mptb.detectors"
"""The entry-point group in which packages offer detectors."""


def available_detectors() -> dict[str, str]:
    """Return ``{name: "module:object"}`` of every detector that an installed package offers.

    That a name is here does not mean that its models are installed: `load_detector` says so.
    """
    return {point.name: point.value for point in sorted(entry_points(group=GROUP))}


def load_detector(name: str, **options: Any) -> Detector:
    """Return a new detector by its name or by ``module:object``.

    ``functools.partial(load_detector, name, **options)`` is a factory that can be pickled, whatever the
    detector.

    Args:
        name: see `available_detectors`, or ``package.module:object``: a detector, what makes one, or a
            function ``f(samples, rate)``, of which `prefix_detector` makes one.
        **options: handed to the detector's class or factory.

    Raises:
        ValueError: an unknown name, or options for an object that is no factory.
        MissingExtraError: the detector's package is not installed.
        ImportError: no such module or object.
        TypeError: an option that the detector does not know, or an object that makes no detector.
    """
    made = _resolve(name)
    if inspect.isfunction(made) and not options and _asks_for_two(made):
        return prefix_detector(made)
    if isinstance(made, type) or not hasattr(made, "push"):
        if not callable(made):
            raise TypeError(f"{name} is neither a detector nor a function that makes one, but {made!r}")
        made = cast(Callable[..., Any], made)(**options)
    elif options:
        raise ValueError(f"{name} is a detector already: it takes no options, got {', '.join(options)}")
    missing = [part for part in ("reset", "push") if not callable(getattr(made, part, None))]
    if missing:
        raise TypeError(f"{name} makes a {type(made).__name__}, which has no {' and no '.join(missing)}")
    return cast(Detector, made)


def _asks_for_two(function: Callable[..., Any]) -> bool:
    """Whether a function cannot be called without two arguments, as ``f(samples, rate)`` cannot."""
    required = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind is not parameter.VAR_POSITIONAL
        and parameter.kind is not parameter.VAR_KEYWORD
    ]
    return len(required) == 2


def _resolve(name: str) -> Any:
    """Return the object behind a name."""
    offered: dict[str, EntryPoint] = {point.name: point for point in entry_points(group=GROUP)}
    if name in offered:
        return offered[name].load()
    module, colon, attribute = name.partition(":")
    if not colon or not module or not attribute:
        raise ValueError(
            f"no detector {name!r}: expected one of {', '.join(sorted(offered))}, or module:object"
        )
    found = importlib.import_module(module)
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise ImportError(f"module {module!r} has no {attribute!r}")
        found = getattr(found, part)
    return found
