"""The one error for a corpus that cannot be understood."""

from datasets.exceptions import DatasetGenerationError


class CorpusError(DatasetGenerationError, ValueError):
    """A corpus file that is missing, malformed or at odds with the dataset card.

    The message names the file, the field and what was expected. It is a
    `DatasetGenerationError`, so that `datasets` hands it to the caller as it is instead of
    wrapping it, and a `ValueError`, as other checks of input are.
    """
