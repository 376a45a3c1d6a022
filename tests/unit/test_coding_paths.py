"""No path leads out of an environment's root: not by parts, links, or what others put there meanwhile."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tarry.coding.confined import Confined
from tarry.environment import OutsideRoot

AT_FDCWD, RENAME_EXCHANGE = -100, 2


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with a secret beside it."""
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "outside").mkdir()
    root = tmp_path / "root"
    (root / "src").mkdir(parents=True)
    (root / "src" / "a.py").write_text("a = 1\n")
    (root / "up").symlink_to("..")
    (root / "out").symlink_to(tmp_path / "secret")
    (root / "src" / "home").symlink_to("/")
    (root / "chain").symlink_to("out")
    (root / "code").symlink_to("src")
    (root / "here").symlink_to(root / "src" / "a.py")
    (root / "round").symlink_to("round")
    return root


OUTSIDE = [
    "..",
    "../secret",
    "src/../../secret",
    "./././../secret",
    "/etc/passwd",
    "/",
    "up/secret",
    "up",
    "out",
    "chain",
    "src/home/etc/passwd",
    "code/../../secret",
    "src/home/../etc/passwd",
]


@pytest.mark.parametrize("path", OUTSIDE)
def test_nothing_outside_is_read_listed_asked_about_or_written(root: Path, path: str) -> None:
    files = Confined(root)

    for use in (files.canonical, files.stat, files.open, files.list):
        with pytest.raises(OutsideRoot):
            use(path)
    with pytest.raises(OutsideRoot):
        files.write(path, b"changed")
    assert (root.parent / "secret").read_text() == "secret"
    assert sorted(found.name for found in root.parent.iterdir()) == ["outside", "root", "secret"]


@pytest.mark.parametrize(
    ("path", "canonical"),
    [
        (".", "."),
        ("", "."),
        ("src", "src"),
        ("src/", "src"),
        ("src//./a.py", "src/a.py"),
        ("src/../src/a.py", "src/a.py"),
        ("code/a.py", "src/a.py"),
        ("here", "src/a.py"),
        ("src/new.py", "src/new.py"),
        ("code/new.py", "src/new.py"),
        ("src/..", "."),
        ("none/deep/new.py", "none/deep/new.py"),
        ("none/deep/../../src/../code/a.py", "src/a.py"),
        ("~", "~"),
    ],
)
def test_paths_inside_are_followed_to_where_they_end(root: Path, path: str, canonical: str) -> None:
    assert Confined(root).canonical(path) == canonical


def test_absolute_paths_below_the_root_are_paths_of_it_by_either_name_of_the_root(root: Path) -> None:
    alias = root.parent / "alias"
    alias.symlink_to(root)
    files = Confined(alias)

    assert files.canonical(f"{root}/src/a.py") == "src/a.py"
    assert files.canonical(f"{alias}/src/a.py") == "src/a.py"
    assert files.open(f"{alias}/here").read() == b"a = 1\n"


def test_relative_paths_begin_at_the_working_directory_which_is_inside_too(root: Path) -> None:
    files = Confined(root, "code")

    assert (files.canonical("a.py"), files.canonical(".."), files.canonical("../here")) == ("src/a.py", ".", "src/a.py")
    with pytest.raises(OutsideRoot):
        files.canonical("../../secret")
    with pytest.raises(OutsideRoot):
        Confined(root, "..")


@pytest.mark.parametrize(
    ("path", "error", "says"),
    [
        ("src/none", FileNotFoundError, "src/none: no such file or directory"),
        ("none/none", FileNotFoundError, "none/none: no such file or directory"),
        ("src/a.py/x", NotADirectoryError, "src/a.py/x: not a directory"),
        ("src", IsADirectoryError, "src is a directory"),
        ("round", OSError, "goes through more than 40 links"),
        ("pipe", OSError, "pipe is no file"),
        ("a\0b", ValueError, "null"),
    ],
)
def test_errors_name_the_path_that_was_asked_for(root: Path, path: str, error: type[Exception], says: str) -> None:
    os.mkfifo(root / "pipe")

    with pytest.raises(error, match=says.replace(".", r"\.")):
        Confined(root).open(path)


def test_write_makes_parents_keeps_modes_goes_through_links_and_leaves_nothing_else(root: Path) -> None:
    files = Confined(root)
    (root / "src" / "a.py").chmod(0o750)

    files.write("new/deep/b.txt", b"b")
    files.write("here", b"c")

    assert (root / "new" / "deep" / "b.txt").read_bytes() == b"b"
    assert (root / "src" / "a.py").read_bytes() == b"c"
    assert (root / "src" / "a.py").stat().st_mode & 0o777 == 0o750
    assert (root / "here").is_symlink()
    assert sorted(found.name for found in (root / "src").iterdir()) == ["a.py", "home"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_write_keeps_the_owner_of_a_file(root: Path) -> None:
    os.chown(root / "src" / "a.py", 1_000, 1_001)
    (root / "src" / "a.py").chmod(0o640)

    Confined(root).write("src/a.py", b"x")

    found = (root / "src" / "a.py").stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (1_000, 1_001, 0o640)


@pytest.mark.parametrize("path", ["src", ".", "pipe"])
def test_write_replaces_files_only(root: Path, path: str) -> None:
    os.mkfifo(root / "pipe")

    with pytest.raises(OSError, match=r"is a directory|is no file"):
        Confined(root).write(path, b"x")


def test_reader_sees_the_old_file_or_the_new_one_never_a_part(root: Path) -> None:
    files = Confined(root)
    one, other = b"1" * 200_000, b"2" * 300_000
    files.write("big", one)
    seen = set()

    def rewrite() -> None:
        files.write("big", one)
        files.write("big", other)

    with _meanwhile(rewrite):
        for _ in range(200):
            with files.open("big") as file:
                seen.add(file.read())

    assert seen <= {one, other}


@contextmanager
def _meanwhile(step: Callable[[], object]) -> Iterator[None]:
    """Do `step` again and again in a thread of its own."""
    over = threading.Event()

    def go() -> None:
        while not over.is_set():
            with suppress(FileNotFoundError, FileExistsError):
                step()

    thread = threading.Thread(target=go)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _exchange(one: Path, other: Path) -> None:
    """Swap two names at once, so that neither is ever missing."""
    if ctypes.CDLL(None, use_errno=True).renameat2(AT_FDCWD, bytes(one), AT_FDCWD, bytes(other), RENAME_EXCHANGE):
        raise OSError(ctypes.get_errno(), "renameat2")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux swaps two names at once")
@pytest.mark.parametrize("what", ["directory", "file"])
def test_link_that_takes_a_places_name_in_the_middle_of_a_walk_is_never_followed_out(root: Path, what: str) -> None:
    """A thread swaps a directory, or a file, with a link to the outside as fast as it can, while files are used."""
    files, outside = Confined(root), root.parent / "outside"
    (outside / "f").write_text("secret")
    place, path = (root / "swap", "swap/f") if what == "directory" else (root / "f", "f")
    target = outside if what == "directory" else outside / "f"
    bait = root / "bait"
    bait.symlink_to(target)
    if what == "directory":
        place.mkdir()
    files.write(path, b"inside")

    def swap() -> None:
        _exchange(bait, place)
        if not bait.is_symlink() and not place.is_symlink():  # a write took the link's place
            bait.unlink()
            bait.symlink_to(target)

    ends = {"inside": 0, "refused": 0, "written": 0}
    with _meanwhile(swap):
        while min(ends.values()) < 100:
            try:
                with files.open(path) as file:
                    ends[file.read().decode()] += 1
                files.write(path, b"inside")
                ends["written"] += 1
            except OSError:
                ends["refused"] += 1

    assert (outside / "f").read_text() == "secret"
    assert [found.name for found in outside.iterdir()] == ["f"]
