"""The tools grep, find and ls: what they show, in which order, and what they leave out."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tarry.coding import LocalDirectory, find, grep, ls, searching
from tarry.coding.matcher import glob_regex
from tests.support.coding import use

FILES = {
    ".git/config": "needle\n",
    ".gitignore": "*.log\nbuild/\n/only\n!keep.log\n# comment\n[z-a]\n!\n",
    ".hidden": "needle\n",
    "a.py": "first\nneedle = 1\nlast needle\n",
    "b/.gitignore": "secret\n!important.log\n*.tmp\n",
    "b/deep/secret": "needle\n",
    "b/deep/x.tmp": "needle\n",
    "b/important.log": "needle\n",
    "b/only": "needle\n",
    "b/z.py": "NEEDLE\r\n",
    "bin": "needle\0needle\n",
    "build/out.py": "needle\n",
    "debug.log": "needle\n",
    "keep.log": "needle\n",
    "only": "needle\n",
}


@pytest.fixture
def env(tmp_path: Path) -> LocalDirectory:
    env = LocalDirectory(tmp_path)
    for path, content in FILES.items():
        env.write(path, content.encode())
    (tmp_path / "link").symlink_to("b")
    return env


def lines(*shown: str, remarks: tuple[str, ...] = ()) -> str:
    text = "\n".join(shown)
    if not remarks:
        return text
    return "\n".join(([text] if text else []) + ["<harness>", *remarks, "</harness>"])


IGNORED = "[info] {} ignored entries are left out; ignored=true shows them. (ignored)"
NOTHING = "[info] Nothing was found. (nothing_found)"
LARGE = "[warn] Files not searched, since unreadable or over 5000 bytes: 1. Use bash for them. (not_searched)"
FIVE, THREE, TWO = (IGNORED.format(count) for count in (5, 3, 2))


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (
            {"pattern": "needle"},
            lines(
                ".hidden:1: needle",
                "a.py:2: needle = 1",
                "a.py:3: last needle",
                "b/important.log:1: needle",
                "b/only:1: needle",
                "keep.log:1: needle",
                remarks=(FIVE,),
            ),
        ),
        ({"pattern": "^needle$", "path": "b"}, lines("b/important.log:1: needle", "b/only:1: needle", remarks=(TWO,))),
        (
            {"pattern": "needle", "glob": "*.py", "ignore_case": True, "path": "./b/"},
            lines("./b/z.py:1: NEEDLE", remarks=(TWO,)),
        ),
        ({"pattern": "needle", "path": "build", "ignored": True}, lines("build/out.py:1: needle")),
        ({"pattern": "needle", "path": "a.py"}, lines("a.py:2: needle = 1", "a.py:3: last needle")),
        ({"pattern": "needle", "path": "only"}, lines("only:1: needle")),
        ({"pattern": "e = 1|last", "path": "a.py"}, lines("a.py:2: needle = 1", "a.py:3: last needle")),
        ({"pattern": "e = 1|last", "path": "a.py", "literal": True}, lines(remarks=(NOTHING,))),
        (
            {"pattern": "needle", "limit": 2},
            lines(
                ".hidden:1: needle",
                "a.py:2: needle = 1",
                remarks=("[info] The first 2 are shown; there are more. Narrow it down, or set limit. (more)", THREE),
            ),
        ),
    ],
)
def test_grep_shows_lines_in_the_order_of_paths_without_what_is_ignored(
    env: LocalDirectory, arguments: dict[str, Any], shown: str
) -> None:
    outcome = use(grep, env, **arguments)

    assert (outcome.text, outcome.is_error) == (shown, False)


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (
            {"glob": "*"},
            lines(
                *(".gitignore", ".hidden", "a.py", "b/", "b/.gitignore", "b/deep/", "b/important.log", "b/only"),
                *("b/z.py", "bin", "keep.log", "link"),
                remarks=(FIVE,),
            ),
        ),
        ({"glob": "*.py"}, lines("a.py", "b/z.py", remarks=(FIVE,))),
        ({"glob": "b/*.{py,log}"}, lines("b/important.log", "b/z.py", remarks=(FIVE,))),
        ({"glob": "**/deep"}, lines("b/deep/", remarks=(FIVE,))),
        ({"glob": "*.py", "ignored": True}, lines("a.py", "b/z.py", "build/out.py")),
        ({"glob": "deep/*", "path": "b", "ignored": True}, lines("b/deep/secret", "b/deep/x.tmp")),
        ({"glob": "/z*", "path": "link/"}, lines("link/z.py", remarks=(TWO,))),
        ({"glob": "z*", "path": ""}, lines("b/z.py", remarks=(FIVE,))),
        ({"glob": "secret", "path": "b"}, lines(remarks=(NOTHING, TWO))),
        ({"glob": "nothing*", "path": "b", "ignored": True}, lines(remarks=(NOTHING,))),
    ],
)
def test_find_shows_paths_in_order_without_what_is_ignored(
    env: LocalDirectory, arguments: dict[str, Any], shown: str
) -> None:
    outcome = use(find, env, **arguments)

    assert (outcome.text, outcome.is_error) == (shown, False)


def test_globs_begin_where_the_search_does(env: LocalDirectory, tmp_path: Path) -> None:
    env.write("b/deep/er/x.py", b"needle\n")
    folder = LocalDirectory(tmp_path, "b")

    assert use(find, folder, glob="deep/**/*.py").text == lines("deep/er/x.py", remarks=(TWO,))
    assert use(grep, folder, pattern="needle", glob="/o*").text == lines("only:1: needle", remarks=(TWO,))
    assert use(grep, env, pattern="needle", glob="er/*", path="b/deep").text == lines(
        "b/deep/er/x.py:1: needle", remarks=(IGNORED.format(2),)
    )


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ({}, lines(".gitignore", ".hidden", "a.py", "b/", "bin", "keep.log", "link@", remarks=(THREE,))),
        ({"path": "b/deep"}, lines(remarks=(NOTHING, TWO))),
        ({"path": "link/deep", "ignored": True}, lines("secret", "x.tmp")),
        (
            {"path": "b", "limit": 1},
            lines(
                ".gitignore",
                remarks=("[info] The first 1 are shown; there are more. Narrow it down, or set limit. (more)",),
            ),
        ),
    ],
)
def test_ls_shows_one_directory(env: LocalDirectory, arguments: dict[str, Any], shown: str) -> None:
    outcome = use(ls, env, **arguments)

    assert (outcome.text, outcome.is_error) == (shown, False)


@pytest.mark.parametrize(
    ("glob", "matches", "others"),
    [
        ("*.py", ["a.py", "x/y/a.py"], ["a.pyc", "a.py/x"]),
        ("/*.py", ["a.py"], ["x/a.py"]),
        ("src/**/*.ts", ["src/a.ts", "src/x/y/a.ts"], ["a.ts", "lib/src/a.ts"]),
        ("src/**", ["src/a", "src/a/b"], ["src", "lib"]),
        ("**/test", ["test", "a/test"], ["a/test/b"]),
        ("a?c", ["abc", "x/abc"], ["a/c", "ac"]),
        ("[a-c]x", ["ax"], ["dx"]),
        ("[!a-c]x", ["dx"], ["ax", "/x"]),
        ("[]]x", ["]x"], ["ax"]),
        ("{a,b{c,d}}.x", ["a.x", "bc.x", "bd.x"], ["b.x"]),
        ("a,b", ["a,b"], ["a"]),
        ("a.b", ["a.b"], ["aab"]),
        ("[", ["["], []),
        ("[]", ["[]"], ["[", "a"]),
        ("[!]", ["[!]"], ["!", "a"]),
    ],
)
def test_globs(glob: str, matches: list[str], others: list[str]) -> None:
    regex = glob_regex(glob)

    assert [path for path in matches if not regex.fullmatch(path)] == []
    assert [path for path in others if regex.fullmatch(path)] == []


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        (grep, {"pattern": "a("}, "the pattern cannot be used: missing ), unterminated subpattern"),
        (grep, {"pattern": "a", "glob": "{a"}, "the pattern cannot be used"),
        (find, {"glob": "[z-a]"}, "the pattern cannot be used: bad character range"),
        (grep, {"pattern": "a", "path": "none"}, "FileNotFoundError: none: no such file or directory"),
        (grep, {"pattern": "a", "path": "../"}, "OutsideRoot"),
        (find, {"glob": "a", "path": "/etc"}, "OutsideRoot"),
        (find, {"glob": "a", "path": "none"}, "FileNotFoundError: none: no such file or directory"),
        (ls, {"path": ".."}, "OutsideRoot"),
        (ls, {"path": "a.py"}, "NotADirectoryError: a.py: not a directory"),
    ],
)
def test_what_cannot_be_searched_is_an_error_that_says_why(
    env: LocalDirectory, tool: Any, arguments: dict[str, Any], says: str
) -> None:
    outcome = use(tool, env, **arguments)

    assert outcome.is_error
    assert says in outcome.text


def test_whole_machine_can_be_the_root(tmp_path: Path) -> None:
    whole = LocalDirectory(Path("/"))
    whole.write(f"{tmp_path}/x.py", b"needle\n")

    assert use(grep, whole, pattern="needle", path=str(tmp_path)).text == f"{tmp_path}/x.py:1: needle"


def test_worker_with_a_thousand_open_files_can_search(env: LocalDirectory) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2_048), hard))
    try:
        with contextlib.ExitStack() as stack:
            for _ in range(1_100):
                stack.enter_context(open(os.devnull))
            assert use(grep, env, pattern="last").text.startswith("a.py:3: last needle")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_search_finds_its_packages_where_the_worker_does(env: LocalDirectory, tmp_path: Path) -> None:
    program = """
import sys
from pathlib import Path
from tarry.coding import LocalDirectory
from tarry.coding.searching import Search, Wanted
with Search(LocalDirectory(Path(sys.argv[1])), Wanted(), lambda: False) as search:
    search.begin()
    print([name for name, _, _ in search.entries("b")])
"""
    bare = [str(Path(sys.base_prefix) / "bin" / "python3"), "-c", program, str(tmp_path)]  # has no packages of its own
    packages = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}

    done = subprocess.run(bare, env={**os.environ, **packages}, cwd=tmp_path, capture_output=True, text=True)

    assert (done.stderr, done.stdout) == ("", "['b/.gitignore', 'b/deep', 'b/important.log', 'b/only', 'b/z.py']\n")


def test_links_are_neither_followed_nor_searched(env: LocalDirectory, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(".")
    (tmp_path / "b" / "up").symlink_to("../..")

    assert "loop/" not in use(find, env, glob="*").text
    assert "link" not in use(grep, env, pattern="needle").text


@pytest.mark.parametrize("where", ["pattern", "glob", ".gitignore"])
def test_pattern_that_takes_for_ever_is_cut_off_and_nobody_else_feels_it(
    env: LocalDirectory, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.setattr(searching, "SEARCH_SECONDS", 0.5)
    hard = "a" * 60
    env.write(f"b/{hard}", f"{hard}!\n".encode())
    arguments: dict[str, Any] = {"pattern": "needle"}
    match where:
        case "pattern":
            arguments = {"pattern": "(a+)+$"}
        case "glob":
            arguments["glob"] = "*a" * 25 + "b"
        case _:
            env.write(".gitignore", ("*a" * 25 + "b").encode())
    beats = 0
    over = threading.Event()

    def beat() -> None:
        nonlocal beats
        while not over.wait(0.01):
            beats += 1

    thread = threading.Thread(target=beat)
    thread.start()
    begun = time.monotonic()
    outcome = use(grep, env, **arguments)
    took = time.monotonic() - begun
    over.set()
    thread.join()

    assert outcome.is_error
    assert "it took longer than 0.5 s; use a simpler pattern or a smaller place. (search_failed)" in outcome.text
    assert took < 5
    assert beats > 10


def test_search_is_bounded_in_entries(env: LocalDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "MAX_ENTRIES", 3)

    outcome = use(find, env, glob="*")

    assert outcome.is_error
    assert outcome.text.startswith(".gitignore\n.hidden\na.py\n<harness>\n")
    assert "there are more than 3 entries" in outcome.text


def test_long_lines_are_cut_and_large_files_left_out(env: LocalDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "MAX_SEARCHED_BYTES", 5_000)
    env.write("long", b"needle" + b"x" * 2_000)
    env.write("large", b"needle" + b"x" * 5_000)

    assert use(grep, env, pattern="needle", glob="l*").text == lines(
        f"long:1: needle{'x' * 494}…", remarks=(LARGE, FIVE)
    )
    assert use(grep, env, pattern="needle", path="large").text == lines(remarks=(NOTHING, LARGE))


WORKER = """
import sys
from pathlib import Path
from tarry.coding import LocalDirectory
from tarry.coding.searching import Search, Wanted
def look():
    print(search._process.pid, flush=True)
with Search(LocalDirectory(Path(sys.argv[1])), Wanted(regex="(a+)+$"), lambda: False) as search:
    search.begin()
    search.is_stopped = look
    search.lines("hard", 1)
"""


def test_killed_worker_takes_along_the_process_that_searches(env: LocalDirectory, tmp_path: Path) -> None:
    env.write("hard", b"a" * 60 + b"!\n")
    worker = subprocess.Popen([sys.executable, "-c", WORKER, str(tmp_path)], stdout=subprocess.PIPE)
    assert worker.stdout is not None
    worker.stdout.readline()
    matcher = int(worker.stdout.readline())  # asked by now
    worker.kill()
    worker.communicate()

    ends = time.monotonic() + 10
    while is_there(matcher) and time.monotonic() < ends:
        os.sched_yield()
    try:
        assert not is_there(matcher)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(matcher, signal.SIGKILL)


def is_there(process: int) -> bool:
    try:
        return b"matcher.py" in Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return False
