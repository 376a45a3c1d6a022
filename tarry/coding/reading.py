"""The tool `read`: the lines of a text file from an offset on, within what a model can be shown (spec §14.5)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, BinaryIO

from pydantic import Field

from tarry.api import ToolApi
from tarry.coding.results import refused
from tarry.core.text import MAX_MODEL_BYTES, MAX_MODEL_LINES, bound_text
from tarry.environment import Environment, FileInfo
from tarry.tools import ToolResult, tool

COUNTED_BYTES = 64 * 1024 * 1024
"""Lines behind the ones that are shown are counted as far as this into the file."""

PROBE_BYTES = 8 * 1024
IMAGES = {b"\x89PNG\r\n": "PNG", b"\xff\xd8\xff": "JPEG", b"GIF8": "GIF", b"II*\0": "TIFF"}
BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Excerpt:
    """Some lines of a file. `following`: whether there are more; `total` when they were counted."""

    text: str
    first: int
    count: int
    following: bool
    total: int | None
    cut_line: int = 0


@tool(replay="safe")
def read(
    path: Annotated[str, Field(description="The file, relative to the working directory or absolute")],
    api: ToolApi,
    offset: Annotated[int, Field(ge=1, description="The first line to read, counted from 1")] = 1,
    limit: Annotated[int | None, Field(ge=1, description="The most lines to read")] = None,
) -> str | ToolResult:
    """Read a text file. At most 2,000 lines or 50 KB are shown at a time; go on with `offset` where it says so."""
    env = api.env
    before = env.stat(path)
    with env.open(path) as file:
        probe = file.read(PROBE_BYTES)
    if (image := image_kind(probe)) is not None:
        return refused(api, "unsupported_image", f"{path} is a {image} image. Images cannot be shown to you.")
    if b"\0" in probe:
        return refused(api, "binary_file", f"{path} is no text file: {before.size} bytes. Use bash to look into it.")
    excerpt = _steady_excerpt(env, path, offset, limit)
    if offset > 1 and not excerpt.count:
        return refused(api, "past_end", f"Offset {offset} is past the end of {path}, which has {excerpt.total} lines.")
    _remark(api, excerpt)
    return excerpt.text


def image_kind(head: bytes) -> str | None:
    """The kind of image that a file with this head is; None: it is none."""
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "WebP"
    if head.startswith(b"BM") and head[6:10] == bytes(4):  # texts begin with these letters, too
        return "BMP"
    return next((kind for magic, kind in IMAGES.items() if head.startswith(magic)), None)


def _steady_excerpt(env: Environment, path: str, offset: int, limit: int | None) -> Excerpt:
    """Lines of a file that nobody else changes meanwhile; one that only grows is as good.

    Raises:
        OSError: it changed, and once more at a second look.
    """
    before = env.stat(path)
    for _ in range(2):
        with env.open(path) as file:
            excerpt = excerpt_of(file, before.size, offset, limit)
        after = env.stat(path)
        if not _has_changed(before, after):
            return excerpt
        before = after
    raise OSError(f"{path} keeps changing while it is read; wait for whoever writes it, then read it again")


def _has_changed(before: FileInfo, after: FileInfo) -> bool:
    return after.version != before.version and after.size <= before.size


def excerpt_of(file: BinaryIO, size: int, offset: int, limit: int | None) -> Excerpt:
    """Of the first `size` bytes the lines from `offset` on: `limit` of them, and no more than a model is shown."""
    most = min(limit or MAX_MODEL_LINES, MAX_MODEL_LINES)
    shown: list[str] = []
    shown_bytes, number, at, is_full, cut_line = 0, 0, 0, False, 0
    for line, length in _lines(file, size):
        number += 1
        at += length
        if number < offset:
            continue
        is_full = is_full or len(shown) == most
        if is_full:
            if at > COUNTED_BYTES:
                return Excerpt("".join(shown), offset, len(shown), following=True, total=None, cut_line=cut_line)
            continue
        text = line.removeprefix(BOM if number == 1 else b"").decode("utf-8", "replace")
        shown_bytes += len(text.encode())
        if shown_bytes > MAX_MODEL_BYTES:
            is_full = True
            if shown:
                continue
            text, cut_line = bound_text(text).text, length
        shown.append(text)
    following = number >= offset + len(shown)
    return Excerpt("".join(shown), offset, len(shown), following, total=number, cut_line=cut_line)


def _lines(file: BinaryIO, size: int) -> Iterator[tuple[bytes, int]]:
    """The lines of the first `size` bytes, each with its length; of a long one only what could be shown."""
    left = size
    head, length = b"", 0
    while left > 0 and (piece := file.readline(min(left, 2 * MAX_MODEL_BYTES))):
        left -= len(piece)
        head, length = head or piece, length + len(piece)
        if piece.endswith(b"\n"):
            yield head, length
            head, length = b"", 0
    if head:
        yield head, length


def _remark(api: ToolApi, excerpt: Excerpt) -> None:
    last = excerpt.first + excerpt.count - 1
    if excerpt.cut_line:
        shown = len(excerpt.text.encode())
        api.diagnostic(
            f"Line {last} has {excerpt.cut_line} bytes, of which the first {shown} are shown; use bash for the rest.",
            severity="warn",
            code="long_line",
        )
    if excerpt.following:
        total = "more" if excerpt.total is None else excerpt.total
        api.diagnostic(
            f"Lines {excerpt.first} to {last} of {total}. Go on with offset={last + 1}.",
            code="more_lines",
        )
    if not excerpt.count:
        api.diagnostic("The file is empty.", code="empty_file")
