"""A tree against its `SHA256SUMS`."""

from __future__ import annotations

import hashlib
import os

from .corpus import Corpus
from .errors import CorpusError
from .manifest import safe_path
from .report import Report

SUMS = "SHA256SUMS"


def read_checksums(corpus: Corpus, report: Report) -> dict[str, str]:
    """The expected SHA-256 of every path, none where the tree has no such file.

    Lines that cannot be understood, and files of the tree that have no line, are reported.
    """
    if not corpus.exists(SUMS):
        return {}
    sums: dict[str, str] = {}
    text = corpus.read(SUMS).decode("utf-8", errors="replace")
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        digest, _, path = line.strip().partition(" ")
        where = f"{SUMS}, line {number}"
        if len(digest) != 64 or not path:
            report.add(SUMS, f"{where}: expected a SHA-256 and a path, got {line!r}")
            continue
        try:
            sums[safe_path(path.lstrip(" *"), where, "path")] = digest.lower()
        except CorpusError as error:
            report.add(SUMS, str(error))
    report.add_all(SUMS, "files without a checksum", sorted(_files(corpus.root) - set(sums) - {SUMS}))
    return sums


def check_checksum(corpus: Corpus, path: str, expected: str, report: Report) -> None:
    """Compare a file with its line."""
    report.count("checksums")
    digest = hashlib.sha256()
    try:
        with open(corpus.url(path), "rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    except OSError as error:
        report.add(path, f"listed in {SUMS}, but {error.strerror or error}")
        return
    if digest.hexdigest() != expected:
        report.add(path, f"its SHA-256 is not the one that {SUMS} lists")


def _files(root: str) -> set[str]:
    """All files below a folder but hidden ones, which tools leave behind: the Hub's download cache."""
    found = set()
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found |= {os.path.join(folder, name) for name in names if not name.startswith(".")}
    return {os.path.relpath(path, root).replace(os.sep, "/") for path in found}
