"""What is in the corpora: MultiPartyTurnBench and turn-end-detection as Hugging Face datasets.

Importing this package also registers its builder with `datasets`, so that in the same process
`datasets.load_dataset("mptb", "channels", data_dir=...)` works too.
"""

from .anchors import derive_anchors, read_anchors
from .corpus import Corpus
from .errors import CorpusError
from .loading import load_dataset, register
from .mptb_dataset import MPTB
from .sample import sample_dir
from .verify import verify

__version__ = "0.1.0"

__all__ = [
    "MPTB",
    "Corpus",
    "CorpusError",
    "derive_anchors",
    "load_dataset",
    "read_anchors",
    "sample_dir",
    "verify",
]

register()
