"""From a moment in seconds to a number of samples: the one place where the two meet.

``n = floor(at_s * sampling_rate + 1e-6)``. Sample ``i`` covers ``[i / rate, (i + 1) / rate)``, so the
first ``n`` samples are exactly those that are over by ``at_s``. The millionth of a sample is the slack for
products that binary floats put just below a whole number: ``0.29 * 24000`` is 6959.999..., and is 6960
samples. It is a thousand times wider than that error and far too narrow to let a later sample in.

``int(at_s * rate)`` loses that sample, and rounding gains one: counts made here differ from such code by
at most one sample.
"""

from __future__ import annotations

import math
import numbers

SLACK_SAMPLES = 1e-6
"""What a product of seconds and rate may lack to a whole number and still be it."""


def n_samples(at_s: float, sampling_rate: int) -> int:
    """Count the samples that are over by a moment: ``floor(at_s * sampling_rate + 1e-6)``.

    Args:
        at_s (s, >= 0): the moment, from the start of the audio; any real number, NumPy's included.
        sampling_rate (Hz, > 0): samples per second, a whole number.

    Returns:
        The number of samples, >= 0.

    Raises:
        TypeError: an argument is not a number of that kind (a string, a bool, None).
        ValueError: ``at_s`` is NaN, infinite or negative; ``sampling_rate`` is not positive.

    Examples:
        >>> n_samples(0.29, 24000), n_samples(1.001, 16000), n_samples(0.000875, 16000)
        (6960, 16016, 14)
    """
    check_rate(sampling_rate)
    if isinstance(at_s, bool) or not isinstance(at_s, numbers.Real):
        raise TypeError(f"at_s: expected a number of seconds, got {at_s!r}")
    product = float(at_s) * int(sampling_rate)
    if not math.isfinite(product) or product < 0:
        raise ValueError(f"at_s: expected finite seconds >= 0, got {at_s!r}")
    return math.floor(product + SLACK_SAMPLES)


def check_rate(sampling_rate: int) -> None:
    """Refuse what is no sampling rate.

    Raises:
        TypeError: not a whole number.
        ValueError: not positive.
    """
    if isinstance(sampling_rate, bool) or not isinstance(sampling_rate, numbers.Integral):
        raise TypeError(f"sampling_rate: expected a whole number of Hz, got {sampling_rate!r}")
    if sampling_rate <= 0:
        raise ValueError(f"sampling_rate: expected Hz > 0, got {sampling_rate!r}")
