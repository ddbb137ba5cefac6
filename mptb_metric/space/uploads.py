"""What strangers send: bounded before it is read, and never more of it on disk than a cap."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from pathlib import Path
from stat import S_ISREG
from typing import Any

MAX_FOLDER_BYTES = 100 << 20
"""Twenty files of the largest size; the oldest give way to new ones."""

MAX_IGNORED_BYTES = 200 << 20
"""Of a request that is refused; then the connection is cut."""

BLOCK_BYTES = 4096
"""What a file takes on disk at least."""

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class _TooLargeError(Exception):
    """A request went on past the limit."""


def own_folder() -> Path:
    """Make a folder of this process's own for what is uploaded, and tell Gradio; before Gradio is set up."""
    parent = os.environ.get("GRADIO_TEMP_DIR")
    if parent:
        os.makedirs(parent, exist_ok=True)
    folder = tempfile.mkdtemp(prefix="mptb_space_", dir=parent)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ["GRADIO_TEMP_DIR"] = folder
    return Path(folder)


def keep_below(folder: Path, max_bytes: int) -> None:
    """Delete a folder's oldest files until the others together have at most `max_bytes`."""
    files = []
    for path in folder.rglob("*"):
        # Another request may move or delete a file at any time.
        with suppress(FileNotFoundError):
            stat = path.stat()
            if S_ISREG(stat.st_mode):
                files.append((stat.st_mtime_ns, max(stat.st_size, BLOCK_BYTES), path))
    total = sum(size for _, size, _ in files)
    for _, size, path in sorted(files):
        if total <= max_bytes:
            break
        path.unlink(missing_ok=True)
        with suppress(OSError):
            path.parent.rmdir()  # Gradio makes a folder per file
        total -= size


class UploadGuard:
    """ASGI middleware: answers 413 to a large request, and clears the folder of uploads after each other one.

    Gradio limits each file but not their number in a request, and deletes files by age but not by size.
    """

    def __init__(self, app: Any, *, folder: Path, max_bytes: int) -> None:
        """Set up.

        Args:
            app: what answers requests.
            folder: where uploads lie.
            max_bytes: the largest request, whatever its kind.
        """
        self._app = app
        self._folder = folder
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http" or scope["method"] not in ("POST", "PUT", "PATCH"):
            await self._app(scope, receive, send)
            return
        announced = dict(scope["headers"]).get(b"content-length", b"0")
        if announced.isdigit() and int(announced) > self._max_bytes:
            await self._refuse(receive, send)
            return
        started = False

        async def noting(message: MutableMapping[str, Any]) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, self._limited(receive), noting)
        except _TooLargeError:
            if not started:
                await self._refuse(receive, send)
        finally:
            keep_below(self._folder, MAX_FOLDER_BYTES)

    def _limited(self, receive: Receive) -> Receive:
        """Count what arrives: a request need not say how large it is, nor tell the truth."""
        received = 0

        async def limited() -> MutableMapping[str, Any]:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self._max_bytes:
                raise _TooLargeError
            return message

        return limited

    async def _refuse(self, receive: Receive, send: Send) -> None:
        # Most clients listen only when all is sent: what still comes is let through, into nothing.
        ignored = 0
        more = True
        while more and ignored < MAX_IGNORED_BYTES:
            message = await receive()
            ignored += len(message.get("body", b""))
            more = message.get("more_body", False)
        body = f"The request is too large: at most {self._max_bytes:,} bytes.".encode()
        headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
        await send({"type": "http.response.start", "status": 413, "headers": headers})
        await send({"type": "http.response.body", "body": body})
