"""Installing the presets when something fails: all of it or nothing, one process at a time (spec §17.25)."""

from __future__ import annotations

import errno
import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tarry.subagents.discovery import load_catalogue
from tarry.subagents.files import FileError, locked
from tarry.subagents.manifest import CorruptManifest
from tests.support.presets import ONE, TWO, Host
from tests.support.programs import ROOT


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path / "config")


# Failures.


class _Crash:
    """Fails the rename to one name, as a full disk would."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._replace = os.replace

    def __call__(self, source: Path, target: Path) -> None:
        if Path(target).name == self._name and Path(source).parent == Path(target).parent:
            self._name = ""
            raise OSError(28, "No space left on device", str(target))
        self._replace(source, target)


def failing_rename(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    crash = _Crash(name)
    monkeypatch.setattr(os, "replace", crash)
    # Python's own paths have kept the function that was there.
    monkeypatch.setattr(Path, "replace", lambda self, target: crash(self, target))


@pytest.mark.parametrize("name", ["scout.md", "tester.md", "worker.md", "agents-manifest.json"])
def test_a_commit_that_fails_takes_back_what_it_did(host: Host, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    host.init({**ONE, "old": b"old 1"}, "1")
    host.write("scout", "mine")
    files, manifest = host.files, host.home.manifest.read_bytes()
    failing_rename(monkeypatch, name)

    with pytest.raises(FileError) as refused:
        host.init(TWO, "2")

    assert f"{host.home.agents}: nothing was installed: No space left on device" in str(refused.value)
    assert (host.files, host.home.manifest.read_bytes(), host.backups) == (files, manifest, [])
    assert host.init(TWO, "2").removed == ("old",)


def test_a_commit_that_is_interrupted_takes_back_what_it_did(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.write("scout", "mine")

    def interrupted(path: Path, data: bytes) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tarry.subagents.initialise.write_whole", interrupted)

    with pytest.raises(KeyboardInterrupt):
        host.init(ONE, "1")

    assert (host.files, host.backups) == ({"scout": "mine"}, [])


def test_a_removal_that_fails_takes_back_what_it_did(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.init({**ONE, "old": b"old 1"}, "1")
    files = host.files
    unlink = Path.unlink

    def fails(path: Path, missing_ok: bool = False) -> None:
        if path.name == "old.md":
            raise PermissionError(13, "Permission denied", str(path))
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", fails)

    with pytest.raises(FileError, match="Permission denied"):
        host.init(TWO, "2")

    assert host.files == files


def test_a_link_that_was_replaced_is_a_link_again_after_a_failure(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.home.agents.mkdir(parents=True)
    (host.home.agents / "scout.md").symlink_to("elsewhere.md")
    failing_rename(monkeypatch, "worker.md")

    with pytest.raises(FileError):
        host.init(ONE, "1")

    assert host.files == {"scout": "-> elsewhere.md"}
    assert not host.home.manifest.exists()


def test_what_cannot_be_taken_back_is_told_with_its_backup(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.write("scout", "mine")
    replace, seen = os.replace, []

    def fails_from_the_second_on(source: Path, target: Path) -> None:
        seen.append(target)
        if len(seen) > 1:
            raise OSError(5, "Input/output error", str(target))
        replace(source, target)

    monkeypatch.setattr(os, "replace", fails_from_the_second_on)

    with pytest.raises(FileError) as refused:
        host.init(ONE, "1")

    assert f"not brought back: {host.home.agents / 'scout.md'} (Input/output error)" in str(refused.value)
    assert f"what was there is in {host.home.backups}" in str(refused.value)
    (backup,) = host.home.backups.glob("*/scout.md")
    assert backup.read_text() == "mine"


def test_a_folder_in_the_place_of_a_preset_is_found_before_anything_is_changed(host: Host) -> None:
    host.write("scout", "mine")
    (host.home.agents / "worker.md").mkdir()

    with pytest.raises(FileError, match="a folder has the name of a preset: move it away"):
        host.init(ONE, "1")

    assert (host.home.agents / "scout.md").read_text() == "mine"
    assert not host.home.manifest.exists()
    assert host.backups == []


def test_a_preset_that_cannot_be_looked_at_is_not_taken_for_deleted(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.init(ONE, "1")

    def hidden(path: Path) -> os.stat_result:
        raise PermissionError(13, "Permission denied", str(path))

    with monkeypatch.context() as patched:
        patched.setattr(Path, "lstat", hidden)
        with pytest.raises(FileError, match=r"cannot be looked at: Permission denied"):
            host.init(ONE, "1")

    assert host.init(ONE, "1").deleted == ()


def test_a_file_in_the_place_of_the_folder_is_told(host: Host) -> None:
    host.home.root.mkdir()
    host.home.agents.write_text("")

    with pytest.raises(FileError, match="agents: is no folder: move it away"):
        host.init(ONE, "1")


# A damaged manifest.


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff",
        b'{"format": 2, "version": "1", "managed": [], "retired": []}',
        b'{"format": 1, "version": "1", "managed": ["../../etc/passwd"], "retired": []}',
        b'{"format": 1, "version": "1", "managed": ["scout\\n"], "retired": []}',
        b'{"format": 1, "version": "1"}',
    ],
)
def test_a_damaged_manifest_is_copied_once_and_nothing_is_installed(host: Host, content: bytes) -> None:
    host.write("scout", "mine")
    host.home.state.mkdir()
    host.home.manifest.write_bytes(content)
    copy = host.home.state / f"agents-manifest.json.corrupt-{hashlib.sha256(content).hexdigest()[:16]}"

    with pytest.raises(CorruptManifest) as refused:
        host.init(ONE, "1")
    with pytest.raises(CorruptManifest):
        host.init(ONE, "1")

    assert refused.value.copy == copy
    assert str(copy) in str(refused.value)
    assert copy.read_bytes() == host.home.manifest.read_bytes() == content
    assert len(list(host.home.state.glob("*corrupt*"))) == 1
    assert host.files == {"scout": "mine"}


def test_agents_are_found_beside_a_damaged_manifest_with_a_warning(host: Host) -> None:
    host.write("scout", "---\nname: scout\ndescription: x\n---\nLook.")
    host.home.state.mkdir()
    host.home.manifest.write_text("{")

    catalogue = load_catalogue(None, host.home.root)

    assert [one.definition.name for one in catalogue.found] == ["scout"]
    assert (catalogue.problems, len(catalogue.notes)) == ((), 1)
    assert catalogue.notes[0].startswith(f"{host.home.manifest}: is damaged, so no presets are installed")


def test_removing_a_damaged_manifest_asks_for_a_first_time(host: Host) -> None:
    host.write("scout", "mine")
    host.home.state.mkdir()
    host.home.manifest.write_text("{")
    with pytest.raises(CorruptManifest):
        host.init(ONE, "1")

    host.home.manifest.unlink()

    assert host.init(ONE, "1").updated == ("scout",)


# Several processes, and ones that are killed.

PASS = """
import os, sys
from datetime import UTC, datetime
from pathlib import Path
from tarry.subagents.files import Home
from tarry.subagents.initialise import initialise

root, version, dies_at = sys.argv[1:]
replace = os.replace

def dies(source, target):
    if Path(target).name == dies_at:
        os._exit(9)
    replace(source, target)

os.replace = dies
print("ready", flush=True)
sys.stdin.readline()
bundled = {name: f"{name} {version}".encode() for name in ("scout", "worker", *(f"agent-{n}" for n in range(20)))}
done = initialise(Home(Path(root)), bundled, version=version, now=datetime.now(UTC))
print(len(done.installed), len(done.updated), flush=True)
"""


class Race:
    """Processes that each make one pass, all told to begin at once."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._started: list[subprocess.Popen[str]] = []

    def add(self, version: str, dies_at: str = "") -> None:
        process = subprocess.Popen(
            [sys.executable, "-c", PASS, str(self._root), version, dies_at],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._started.append(process)

    def run(self) -> list[tuple[int, str]]:
        """The exit code of each, and what it said."""
        for process in self._started:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in self._started:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        ends = [(process.communicate(timeout=60)[0], process.returncode) for process in self._started]
        return [(code, said.strip()) for said, code in ends]

    def end(self) -> None:
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.wait()


@pytest.fixture
def race(host: Host) -> Iterator[Race]:
    found = Race(host.home.root)
    yield found
    found.end()


def test_of_processes_that_race_one_installs_and_the_others_find_it_done(host: Host, race: Race) -> None:
    for _ in range(4):
        race.add("1")

    ends = race.run()

    assert sorted(ends) == [(0, "0 0"), (0, "0 0"), (0, "0 0"), (0, "22 0")]
    assert len(host.files) == 22
    assert host.backups == []


def test_processes_of_two_versions_that_race_leave_the_files_of_one(host: Host, race: Race) -> None:
    race.add("1")
    race.add("2")

    race.run()

    version = host.manifest.version
    assert {text.rpartition(" ")[2] for text in host.files.values()} == {version}
    assert len(host.files) == 22


@pytest.mark.parametrize("place", ["agent-7.md", "worker.md"])
def test_a_pass_that_was_killed_in_its_middle_is_gone_through_by_the_next_one(
    host: Host, race: Race, place: str
) -> None:
    host.write("scout", "mine")
    race.add("1", dies_at=place)
    assert race.run() == [(9, "")]
    assert not host.home.manifest.exists()
    assert any(name.endswith(".staged") for name in host.files)

    bundled = {name: f"{name} 1".encode() for name in ("scout", "worker", *(f"agent-{n}" for n in range(20)))}
    done = host.init(bundled, "1")

    assert host.files == {name: text.decode() for name, text in sorted(bundled.items())}
    assert set(done.installed) <= set(bundled) - {"scout"}
    assert [path.read_text() for path in host.home.backups.glob("*/scout.md")] == ["mine"] * len(host.backups)
    assert len(host.backups) >= 1


def test_who_holds_the_lock_for_too_long_is_told(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tarry.subagents.files._WAIT", 0.2)

    with locked(host.home), pytest.raises(FileError, match=r"lock: another process has held this lock for 0.2 s"):
        host.init(ONE, "1")

    assert not host.home.agents.exists()


def test_a_file_system_without_locks_is_told_and_nothing_is_installed(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_locks(file: object, how: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("tarry.subagents.files.fcntl.flock", without_locks)

    with pytest.raises(FileError, match="lock: cannot be locked: No locks available"):
        host.init(ONE, "1")
    assert not host.home.agents.exists()
