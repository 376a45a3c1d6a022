"""Installing the presets: what a pass installs, keeps, backs up and removes (spec §17.25)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tarry.coding import TOOLS
from tarry.core.subagents.ceilings import MUTATION
from tarry.subagents.discovery import load_catalogue, load_snapshot
from tarry.subagents.front_matter import parse_definition
from tarry.subagents.initialise import Initialised
from tarry.subagents.manifest import Manifest, presets
from tests.support.presets import ONE, TWO, Host


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path / "config")


# The presets themselves.


@pytest.mark.parametrize("name", ["scout", "planner", "reviewer", "worker"])
def test_a_preset_is_a_definition_of_its_name_that_uses_our_tools(name: str) -> None:
    definition = parse_definition(Path(f"{name}.md"), presets()[name].decode())

    assert definition.name == name
    assert set(definition.tools or ()) - {MUTATION} <= {tool.name for tool in TOOLS}
    assert (MUTATION in (definition.tools or ())) == (name == "worker")
    assert len(definition.prompt) < 2_000


def test_there_are_four_presets() -> None:
    assert list(presets()) == ["planner", "reviewer", "scout", "worker"]


def test_a_preset_in_the_package_is_never_an_agent_by_itself(host: Host) -> None:
    assert load_snapshot(None, host.home.root).definitions == ()
    assert load_catalogue(None, host.home.root).notes == (
        "the presets planner, reviewer, scout, worker were never installed here: `tarry agents init`",
    )


# Rule 1: the first time.


def test_the_first_time_missing_presets_are_installed(host: Host) -> None:
    done = host.init(ONE, "1")

    assert done == Initialised(version="1", previous=None, installed=("scout", "worker"))
    assert host.files == {"scout": "scout 1", "worker": "worker 1"}
    assert host.manifest == Manifest(version="1", managed=["scout", "worker"], retired=[])


def test_the_first_time_a_different_file_of_that_name_is_backed_up_and_replaced(host: Host) -> None:
    host.write("scout", "mine")

    done = host.init(ONE, "1")

    assert (done.installed, done.updated) == (("worker",), ("scout",))
    assert host.files["scout"] == "scout 1"
    assert done.backups["scout"].read_text() == "mine"
    assert host.backups == ["20260301T120001.000000Z-to-1/scout.md"]


def test_a_file_that_is_the_preset_already_needs_no_backup(host: Host) -> None:
    host.write("scout", "scout 1")

    done = host.init(ONE, "1")

    assert (done.installed, done.updated, host.backups) == (("worker",), (), [])


# Rule 2: the same version again.


def test_the_same_version_again_keeps_what_the_user_wrote_and_restores_nothing(host: Host) -> None:
    host.init(ONE, "1")
    host.write("scout", "mine")
    host.delete("worker")

    done = host.init(ONE, "1")

    assert done == Initialised(version="1", previous="1", deleted=("worker",))
    assert host.files == {"scout": "mine"}


def test_presets_that_changed_without_a_new_version_change_nothing(host: Host) -> None:
    host.init(ONE, "1")

    done = host.init(TWO, "1")

    assert done == Initialised(version="1", previous="1")
    assert host.files == {"scout": "scout 1", "worker": "worker 1"}


def test_a_pass_that_has_nothing_to_do_writes_nothing(host: Host) -> None:
    host.init(ONE, "1")
    before = host.home.manifest.stat()

    host.init(ONE, "1")

    assert host.home.manifest.stat() == before


def test_a_backup_that_was_copied_back_stays_until_the_next_version(host: Host) -> None:
    host.write("scout", "mine")
    backup = host.init(ONE, "1").backups["scout"]
    (host.home.agents / "scout.md").write_bytes(backup.read_bytes())

    host.init(ONE, "1")

    assert host.files["scout"] == "mine"


# Rule 3: a new version.


def test_a_new_version_backs_up_what_differs_and_installs_its_own(host: Host) -> None:
    host.init(ONE, "1")
    host.write("scout", "mine")

    done = host.init(TWO, "2")

    assert done == Initialised(
        version="2",
        previous="1",
        installed=("tester",),
        updated=("scout", "worker"),
        backups={
            name: host.home.backups / "20260301T120002.000000Z-to-2" / f"{name}.md" for name in ("scout", "worker")
        },
    )
    assert host.files == {"scout": "scout 2", "tester": "tester 2", "worker": "worker 2"}
    assert [path.read_text() for path in done.backups.values()] == ["mine", "worker 1"]


def test_a_new_version_does_not_restore_what_the_user_deleted(host: Host) -> None:
    host.init(ONE, "1")
    host.delete("scout")

    done = host.init(TWO, "2")

    assert (done.installed, done.deleted) == (("tester",), ("scout",))
    assert "scout" not in host.files
    assert host.manifest == Manifest(version="2", managed=["tester", "worker"], retired=["scout"])


def test_what_the_user_deleted_stays_deleted_over_many_versions(host: Host) -> None:
    host.init(ONE, "1")
    host.delete("scout")

    for version in ("1", "2", "3", "2"):
        assert host.init(TWO, version).deleted == ("scout",)

    assert "scout" not in host.files


def test_a_deleted_preset_that_is_there_again_is_managed_again(host: Host) -> None:
    host.init(ONE, "1")
    host.delete("scout")
    host.init(ONE, "1")
    host.write("scout", "mine again")

    same = host.init(ONE, "1")
    managed = host.manifest.managed
    new = host.init(TWO, "2")

    assert (same.deleted, managed) == ((), ["scout", "worker"])
    assert host.files["scout"] == "scout 2"
    assert new.backups["scout"].read_text() == "mine again"


def test_a_new_preset_takes_the_place_of_a_users_file_of_that_name_with_a_backup(host: Host) -> None:
    host.init(ONE, "1")
    host.write("tester", "mine")

    done = host.init(TWO, "2")

    assert host.files["tester"] == "tester 2"
    assert done.backups["tester"].read_text() == "mine"


def test_a_user_who_deleted_every_preset_has_no_agents_and_gets_none(host: Host) -> None:
    host.init(ONE, "1")
    host.delete("scout")
    host.delete("worker")

    host.init(ONE, "2")

    assert host.files == {}
    assert load_snapshot(None, host.home.root).definitions == ()


# Rule 4: what is no preset any more.


def test_what_is_no_preset_any_more_is_backed_up_and_removed(host: Host) -> None:
    host.init(TWO, "1")
    host.write("tester", "mine")

    done = host.init(ONE, "2")

    assert (done.removed, done.updated) == (("tester",), ("scout", "worker"))
    assert host.files == {"scout": "scout 1", "worker": "worker 1"}
    assert done.backups["tester"].read_text() == "mine"
    assert host.manifest.managed == ["scout", "worker"]


def test_a_deleted_name_that_is_no_preset_any_more_is_forgotten(host: Host) -> None:
    host.init(TWO, "1")
    host.delete("tester")

    done = host.init(ONE, "2")
    again = host.init(TWO, "3")

    assert (done.removed, done.deleted) == ((), ())
    assert again.installed == ("tester",)


def test_a_file_that_the_user_made_after_its_name_was_no_preset_any_more_is_left_alone(host: Host) -> None:
    host.init(TWO, "1")
    host.init(ONE, "2")
    host.write("tester", "mine")

    host.init(ONE, "3")

    assert host.files["tester"] == "mine"


# Rule 5: everything else.


def test_files_that_were_never_presets_are_left_alone(host: Host) -> None:
    host.write("mine", "mine")
    host.init(ONE, "1")
    host.init(TWO, "2")
    host.init({}, "3")

    assert host.files == {"mine": "mine"}


# Links.


def test_a_link_is_backed_up_as_a_link_and_what_it_leads_to_is_not_written(host: Host, tmp_path: Path) -> None:
    target = tmp_path / "dotfiles.md"
    target.write_text("mine")
    host.home.agents.mkdir(parents=True)
    (host.home.agents / "scout.md").symlink_to(target)

    done = host.init(ONE, "1")

    assert os.readlink(done.backups["scout"]) == str(target)
    assert host.files["scout"] == "scout 1"
    assert target.read_text() == "mine"


def test_a_link_that_leads_nowhere_is_backed_up_and_counts_as_there(host: Host) -> None:
    host.init(ONE, "1")
    host.delete("scout")
    (host.home.agents / "scout.md").symlink_to("../gone.md")

    same = host.init(ONE, "1")
    done = host.init(ONE, "2")

    assert same.deleted == ()
    assert os.readlink(done.backups["scout"]) == "../gone.md"
    assert host.files["scout"] == "scout 1"
