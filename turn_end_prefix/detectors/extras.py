"""What to say when a detector's package is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class MissingExtraError(ImportError):
    """A detector's package is not installed; the message says how to install it."""


@contextmanager
def importing(detector: str, *, needs: str, extra: str = "detectors") -> Iterator[None]:
    """Turn a failing import inside the block into one line that says what to install.

    Raises:
        MissingExtraError: the block raised ImportError.
    """
    try:
        yield
    except ImportError as error:
        raise MissingExtraError(
            f"the detector '{detector}' needs {needs}: pip install 'mptb[{extra}]' ({error})"
        ) from error
