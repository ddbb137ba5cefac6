"""A split's gold as the metric takes it, and a checksum that says which gold it was."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from mptb_dataset.corpus import Conversation, Corpus
from mptb_dataset.errors import CorpusError
from mptb_dataset.tables import channel_rows


@dataclass(frozen=True)
class Split:
    """A split of a local MultiPartyTurnBench tree.

    Attributes:
        corpus: the tree.
        name: "dev" or "test".
        conversations: all of them, in the manifest's order.
        references: rows of the `channels` table, without audio.
        checksum: SHA-256 of the split's event logs and anchors, in the manifest's order.
    """

    corpus: Corpus
    name: str
    conversations: list[Conversation]
    references: list[dict[str, Any]]
    checksum: str


def read_split(root: str, name: str) -> Split:
    """Read the annotations of a split.

    Raises:
        CorpusError: the tree is missing, malformed or has no such split.
    """
    corpus = Corpus(root)
    digest = sha256()
    conversations = []
    for entry in corpus.entries(name):
        for path in (entry.events, entry.anchors):
            if path is not None:
                digest.update(corpus.read(path))
        conversations.append(corpus.conversation(entry))
    if not conversations:
        raise CorpusError(f"{corpus.root}: split {name!r} has no conversations")
    references = [row for one in conversations for row in channel_rows(corpus, one, audio="none")]
    return Split(corpus, name, conversations, references, digest.hexdigest())
