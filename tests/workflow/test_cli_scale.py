"""`tarry scale` says in one line what is to be put right before it can run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tarry.embedded import EmbeddedServer
from tarry.processes import environment_of
from tests.support import webhook_app
from tests.support.command import Command
from tests.support.programs import ROOT
from tests.support.webhook_app import SECRETS


@pytest.fixture
def tarry(server: EmbeddedServer, tmp_path: Path) -> Command:
    """The command where there is a server and no setting of ours."""
    kept = {name: value for name, value in environment_of(server.address).items() if not name.startswith("TARRY_")}
    return Command(tmp_path, kept | SECRETS | {"PYTHONPATH": str(ROOT)})


async def test_it_names_in_one_line_what_is_to_be_put_right(tarry: Command) -> None:
    starts = {
        "no application: give --app": tarry.run("scale"),
        "app 'nowhere:app': there is no module": tarry.run("scale", "--app", "nowhere:app"),
        "TARRY_SCALE_MIN=2 is refused": tarry.run("scale", "--app", webhook_app.NAME, TARRY_SCALE_MIN="2"),
        "TARRY_SCALE_QUIET='0' is refused": tarry.run("scale", "--app", webhook_app.NAME, TARRY_SCALE_QUIET="0"),
    }
    ends = {text: await start for text, start in starts.items()}
    as_json = await tarry.run("scale", "--json")

    said = {text: (done.code, done.out, len(done.err.splitlines()), text in done.err) for text, done in ends.items()}
    assert said == dict.fromkeys(starts, (2, "", 1, True))
    assert (as_json.code, as_json.json["event"], as_json.json["exit_code"]) == (2, "ended", 2)
