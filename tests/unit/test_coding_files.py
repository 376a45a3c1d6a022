"""The tools read, write and edit, as a model reads their results."""

from __future__ import annotations

import threading
import time
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from tarry.coding import LocalDirectory, edit, read, write
from tarry.coding.reading import excerpt_of
from tarry.coding.writing import _happened
from tarry.environment import FileInfo
from tests.support.coding import Recorder, use


@pytest.fixture
def env(tmp_path: Path) -> LocalDirectory:
    return LocalDirectory(tmp_path)


def harness(*lines: str) -> str:
    """The remarks after a result."""
    return "\n".join(("<harness>", *lines, "</harness>"))


def numbered(first: int, last: int) -> str:
    return "".join(f"{number}\n" for number in range(first, last + 1))


LONG = "y" * 49_999 + "\n"


@pytest.mark.parametrize(
    ("content", "arguments", "shown"),
    [
        ("a\nb\n", {}, "a\nb\n"),
        ("a\nb", {}, "a\nb"),
        ("a\nb\nc\n", {"offset": 2}, "b\nc\n"),
        ("a\nb\nc\n", {"offset": 3}, "c\n"),
        ("a\nb\nc\n", {"limit": 2}, "a\nb\n" + harness("[info] Lines 1 to 2 of 3. Go on with offset=3. (more_lines)")),
        (
            "a\nb\nc\nd\n",
            {"offset": 2, "limit": 1},
            "b\n" + harness("[info] Lines 2 to 2 of 4. Go on with offset=3. (more_lines)"),
        ),
        ("", {}, harness("[info] The file is empty. (empty_file)")),
        ("\n", {}, "\n" + harness("[info] There was no output.")),
        ("\ufeffa\r\nb\r\n", {}, "a\r\nb\r\n"),
        ("BMI,age\n22,40\n", {}, "BMI,age\n22,40\n"),
        (
            numbered(1, 2_500),
            {},
            numbered(1, 2_000) + harness("[info] Lines 1 to 2000 of 2500. Go on with offset=2001. (more_lines)"),
        ),
        (numbered(1, 2_500), {"offset": 2_001, "limit": 5_000}, numbered(2_001, 2_500)),
        (LONG * 2, {}, LONG + harness("[info] Lines 1 to 1 of 2. Go on with offset=2. (more_lines)")),
        (
            f"{'z' * 60_000}\nend\n",
            {},
            "z" * 51_200
            + "\n"
            + harness(
                "[warn] Line 1 has 60001 bytes, of which the first 51200 are shown; use bash for the rest. (long_line)",
                "[info] Lines 1 to 1 of 2. Go on with offset=2. (more_lines)",
            ),
        ),
    ],
)
def test_read_shows_lines_from_an_offset_and_says_how_to_go_on(
    env: LocalDirectory, content: str, arguments: dict[str, int], shown: str
) -> None:
    env.write("f", content.encode())

    outcome = use(read, env, path="f", **arguments)

    assert (outcome.text, outcome.is_error) == (shown, False)


@pytest.mark.parametrize(
    ("content", "arguments", "says"),
    [
        (b"a\nb\n", {"offset": 3}, "Offset 3 is past the end of f, which has 2 lines. (past_end)"),
        (b"", {"offset": 2}, "Offset 2 is past the end of f, which has 0 lines. (past_end)"),
        (b"a\0b", {}, "f is no text file: 3 bytes. Use bash to look into it. (binary_file)"),
        (b"\x89PNG\r\n\x1a\n", {}, "f is a PNG image. Images cannot be shown to you. (unsupported_image)"),
        (b"\xff\xd8\xff\xe0", {}, "f is a JPEG image. Images cannot be shown to you. (unsupported_image)"),
        (b"GIF89a", {}, "f is a GIF image. Images cannot be shown to you. (unsupported_image)"),
        (b"BM\x46\0\0\0\0\0\0\0\x36\0\0\0", {}, "f is a BMP image. Images cannot be shown to you. (unsupported_image)"),
        (b"RIFF\0\0\0\0WEBP", {}, "f is a WebP image. Images cannot be shown to you. (unsupported_image)"),
    ],
)
def test_read_refuses_what_it_cannot_show(
    env: LocalDirectory, content: bytes, arguments: dict[str, int], says: str
) -> None:
    env.write("f", content)

    outcome = use(read, env, path="f", **arguments)

    assert (outcome.text, outcome.is_error) == (harness(f"[error] {says}"), True)


@pytest.mark.parametrize("arguments", [{"offset": 0}, {"offset": -1}, {"limit": 0}])
def test_read_takes_lines_from_one_on(env: LocalDirectory, arguments: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="greater than or equal to 1"):
        use(read, env, path="f", **arguments)


def test_read_of_nothing_is_an_error_that_names_it(env: LocalDirectory) -> None:
    assert "FileNotFoundError: src/f: no such file or directory" in use(read, env, path="src/f").text
    assert "OutsideRoot: ../f leads out of" in use(read, env, path="../f").text


def test_lines_far_behind_what_is_shown_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tarry.coding.reading.COUNTED_BYTES", 10)

    excerpt = excerpt_of(BytesIO(numbered(1, 1_000).encode()), 3_893, 1, 2)

    assert (excerpt.count, excerpt.following, excerpt.total) == (2, True, None)


class Changing(LocalDirectory):
    """Somebody writes the file each time that it is opened, as often as there are contents."""

    def __init__(self, root: Path, *contents: str) -> None:
        super().__init__(root)
        self.contents = [*contents]
        self.looks = 0

    def stat(self, path: str) -> FileInfo:
        self.looks += 1
        return super().stat(path)

    def open(self, path: str) -> BinaryIO:
        file = super().open(path)
        # The first look is at what kind of file it is.
        if self.contents and self.looks > 1:
            (self.root / path).write_text(self.contents.pop(0))
        return file


def test_file_that_changes_while_it_is_read_is_read_once_again_and_then_is_an_error(tmp_path: Path) -> None:
    once, often = Changing(tmp_path, "two!"), Changing(tmp_path, "two!", "3")
    once.write("f", b"one..")
    assert use(read, once, path="f").text == "two!"
    once.write("f", b"one..")

    outcome = use(read, often, path="f")

    assert outcome.is_error
    assert "f keeps changing while it is read" in outcome.text


def test_file_that_only_grows_while_it_is_read_is_read_as_it_was(tmp_path: Path) -> None:
    env = Changing(tmp_path, "one\ntwo\n")
    env.write("f", b"one\n")

    assert use(read, env, path="f").text == "one\n"


def test_write_makes_files_with_their_directories_and_replaces_them(env: LocalDirectory) -> None:
    assert use(write, env, path="a/b/c.txt", content="é\n").text == "Wrote 3 bytes to a/b/c.txt."
    assert use(write, env, path="a/b/c.txt", content="").text == "Wrote 0 bytes to a/b/c.txt."

    assert env.open("a/b/c.txt").read() == b""


def test_edit_changes_a_file_and_keeps_what_changed_for_people(env: LocalDirectory) -> None:
    env.write("f.py", b"\xef\xbb\xbfa = 1\r\nb = 2\r\n")
    changes = [{"oldText": "a = 1\nb", "newText": "a = 3\nb"}]

    outcome = use(edit, env, path="f.py", edits=changes)

    assert (outcome.text, outcome.is_error) == ("Replaced 1 piece of f.py.", False)
    assert env.open("f.py").read() == b"\xef\xbb\xbfa = 3\r\nb = 2\r\n"
    assert outcome.facts.details["first_changed_line"] == 1
    assert outcome.facts.details["patch"].startswith("--- a/f.py\n+++ b/f.py\n@@ -1,2 +1,2 @@\n")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"b", "f was not changed. edits[0].oldText is not in the file."),
        (b"a\xff", "f is not UTF-8 text: byte 1. Use bash to change it. (not_utf8)"),
    ],
)
def test_edit_that_cannot_be_made_leaves_the_file_alone(env: LocalDirectory, content: bytes, says: str) -> None:
    env.write("f", content)

    outcome = use(edit, env, path="f", edits=[{"oldText": "a", "newText": "c"}])

    assert outcome.is_error
    assert says in outcome.text
    assert env.open("f").read() == content


class Slow(LocalDirectory):
    """Takes its time between reading and writing."""

    def write(self, path: str, data: bytes) -> None:
        time.sleep(0.002)
        super().write(path, data)


def test_edits_of_one_file_come_one_after_the_other_by_whatever_path(tmp_path: Path) -> None:
    env = Slow(tmp_path)
    (tmp_path / "link").symlink_to("f")
    env.write("f", "".join(f"<{number}>\n" for number in range(20)).encode())

    def change(number: int) -> None:
        path = "link" if number % 2 else f"{tmp_path}/f"
        use(edit, Slow(tmp_path), path=path, edits=[{"oldText": f"<{number}>", "newText": f"{number}"}])

    threads = [threading.Thread(target=change, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert env.open("f").read().decode() == numbered(0, 19)


def test_write_that_was_cut_off_happened_when_the_file_has_its_content(env: LocalDirectory) -> None:
    env.write("f", b"new")

    api: Any = Recorder(env)

    assert _happened("f", "new", api) == "Wrote 3 bytes to f."
    assert _happened("f", "old", api) is None
    assert _happened("g", "new", api) is None
    assert _happened("../f", "new", api) is None
