"""The repositories of the loopback Hub: files at commits, branches, pull requests. No network here."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

LFS_SUFFIXES = (".flac", ".parquet", ".wav", ".mp3", ".npz")
"""What the `.gitattributes` of a new dataset repository sends to large file storage."""

Content = bytes | str | Path
"""A file's content: bytes, text, or the local file that holds it."""


class HubRefusalError(Exception):
    """What the Hub refuses, with the status and the headers by which clients tell refusals apart."""

    def __init__(self, status: int, code: str, message: str):
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


@dataclass(frozen=True)
class Blob:
    """One file's content, hashed when somebody asks."""

    source: bytes | Path
    is_lfs: bool

    @cached_property
    def size(self) -> int:
        return len(self.source) if isinstance(self.source, bytes) else self.source.stat().st_size

    def read(self) -> bytes:
        return self.source if isinstance(self.source, bytes) else self.source.read_bytes()

    @cached_property
    def sha256(self) -> str:
        return hashlib.sha256(self.read()).hexdigest()

    @cached_property
    def oid(self) -> str:
        """The git id: of the content, or of the pointer that stands for it."""
        content = self.read()
        if self.is_lfs:
            content = (
                f"version https://git-lfs.github.com/spec/v1\noid sha256:{self.sha256}\nsize {self.size}\n"
            ).encode()
        return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()

    @property
    def etag(self) -> str:
        return self.sha256 if self.is_lfs else self.oid

    def listing(self, path: str) -> dict[str, Any]:
        found: dict[str, Any] = {"type": "file", "oid": self.oid, "size": self.size, "path": path}
        if self.is_lfs:
            found["lfs"] = {"oid": self.sha256, "size": self.size, "pointerSize": 134}
        return found


def blob(path: str, content: Content) -> Blob:
    data = content.encode() if isinstance(content, str) else content
    return Blob(data, path.endswith(LFS_SUFFIXES))


def folder_files(folder: Path) -> dict[str, Content]:
    """Every file below a local folder, by its path in a repository."""
    return {str(p.relative_to(folder).as_posix()): p for p in sorted(folder.rglob("*")) if p.is_file()}


@dataclass
class PullRequest:
    """A pull request: what a commit with `create_pr` would change."""

    number: int
    title: str
    description: str
    commit: str
    added: dict[str, Blob]


@dataclass
class Repo:
    """A git repository as the Hub's API shows it."""

    repo_type: str
    repo_id: str
    private: bool = False
    trees: dict[str, dict[str, Blob]] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)
    pull_requests: list[PullRequest] = field(default_factory=list)
    large_files: dict[str, bytes] = field(default_factory=dict)

    def commit(self, files: Mapping[str, Blob], *, ref: str = "main", message: str = "") -> str:
        """Make a commit of exactly these files, and let `ref` name it."""
        parent = self.refs.get(ref, "")
        text = json.dumps([parent, message, len(self.trees), sorted((p, b.oid) for p, b in files.items())])
        sha = hashlib.sha1(text.encode()).hexdigest()
        self.trees[sha] = dict(files)
        self.refs[ref] = sha
        return sha

    def resolve(self, revision: str) -> str:
        """The commit that a branch, a tag, a pull request's ref or a commit names."""
        if revision in self.trees:
            return revision
        if revision not in self.refs:
            raise HubRefusalError(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        return self.refs[revision]

    def file(self, revision: str, path: str) -> tuple[str, Blob]:
        sha = self.resolve(revision)
        if path not in self.trees[sha]:
            raise HubRefusalError(404, "EntryNotFound", "Entry not found")
        return sha, self.trees[sha][path]

    def info(self, revision: str) -> dict[str, Any]:
        sha = self.resolve(revision)
        return {
            "_id": self.repo_id,
            "id": self.repo_id,
            "sha": sha,
            "private": self.private,
            "tags": [],
            "downloads": 0,
            "likes": 0,
            "siblings": [{"rfilename": path} for path in sorted(self.trees[sha])],
        }

    def listing(self, revision: str, folder: str, *, recursive: bool) -> list[dict[str, Any]]:
        """The entries of a folder in the order of their paths, folders among them."""
        files = self.trees[self.resolve(revision)]
        prefix = f"{folder}/" if folder else ""
        below = [path for path in files if path.startswith(prefix)]
        if folder and not below:
            raise HubRefusalError(404, "EntryNotFound", f"{folder} does not exist on {revision!r}")
        found: dict[str, dict[str, Any]] = {}
        for path in below:
            parts = path[len(prefix) :].split("/")
            for depth in range(1, len(parts)):
                name = prefix + "/".join(parts[:depth])
                if recursive or depth == 1:
                    oid = hashlib.sha1(name.encode()).hexdigest()
                    found[name] = {"type": "directory", "oid": oid, "size": 0, "path": name}
            if recursive or len(parts) == 1:
                found[path] = files[path].listing(path)
        return [found[name] for name in sorted(found)]

    def paths_info(self, revision: str, paths: Iterable[str]) -> list[dict[str, Any]]:
        everything = {entry["path"]: entry for entry in self.listing(revision, "", recursive=True)}
        return [everything[path] for path in paths if path in everything]

    def apply(self, lines: Iterable[bytes], revision: str, *, create_pr: bool) -> dict[str, Any]:
        """Take a commit as `huggingface_hub` sends it: a JSON object per line."""
        head = self.resolve(revision)
        files, added, header = dict(self.trees[head]), {}, {}
        for line in lines:
            operation = json.loads(line)
            kind, value = operation["key"], operation["value"]
            path = value.get("path", "").rstrip("/")
            if kind == "header":
                header = value
            elif kind == "file":
                added[path] = Blob(base64.b64decode(value["content"]), is_lfs=False)
            elif kind == "lfsFile":
                added[path] = Blob(self.large_files[value["oid"]], is_lfs=True)
            elif kind == "deletedFile":
                del files[path]
            elif kind == "deletedFolder":
                files = {name: kept for name, kept in files.items() if not name.startswith(f"{path}/")}
            else:
                raise HubRefusalError(400, "BadRequest", f"unknown operation {kind}")
        if header.get("parentCommit") not in (None, head):
            raise HubRefusalError(412, "PreconditionFailed", "A commit has happened since. Please refresh.")
        files.update(added)
        number = len(self.pull_requests) + 1
        ref = f"refs/pr/{number}" if create_pr else revision
        sha = self.commit(files, ref=ref, message=header.get("summary", ""))
        if create_pr:
            self.pull_requests.append(
                PullRequest(number, header.get("summary", ""), header.get("description", ""), sha, added)
            )
        return {"commitOid": sha, "number": number if create_pr else None}
