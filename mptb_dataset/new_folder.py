"""A folder that appears whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout


class FolderBusyError(OSError, RuntimeError):
    """Another process writes the same folder."""


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """A folder beside `target` that takes its place at the end, or goes without a trace.

    What a killed process left behind is cleared away first; a lock tells it from what another process is
    writing now. A folder that is there already is replaced: whether it may be is for the caller to say.

    Raises:
        FolderBusyError: another process writes this folder.
        OSError: it cannot be written.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    if not os.access(target.parent, os.W_OK):
        raise PermissionError(f"{target}: its folder cannot be written to")
    folder = target.with_name(f".{target.name}.partial")
    lock = FileLock(target.with_name(f".{target.name}.lock"))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise FolderBusyError(f"{target}: another process is writing it") from None
    try:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        yield folder
        _replace(target, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):
            os.unlink(lock.lock_file)
        lock.release()


def _replace(target: Path, folder: Path) -> None:
    old = target.with_name(f".{target.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if target.is_dir():
        target.rename(old)
    try:
        folder.rename(target)
    except OSError:
        if old.is_dir():
            old.rename(target)
        raise
    shutil.rmtree(old, ignore_errors=True)
