"""What is in the corpora: MultiPartyTurnBench and turn-end-detection as Hugging Face datasets."""

__version__ = "0.1.0"
