"""docs/scaling.md: the settings are those that there are, and its lines those that are printed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tarry.settings import PREFIX, Settings
from tests.docs.tables import rows
from tests.support.programs import ROOT
from workers.supervisor_lines import teller

PAGE = (ROOT / "docs" / "scaling.md").read_text()


def test_every_setting_of_scaling_stands_there_with_its_default() -> None:
    _, *told = rows(PAGE.partition("\n## Settings\n")[2].partition("\n## ")[0])
    fields = [name for name in Settings.model_fields if name.startswith("scale_")] + ["shutdown_grace"]

    assert [(cells[0].strip("`"), cells[-1].strip("`")) for cells in told] == [
        (f"{PREFIX}{name.upper()}", f"{default:g}" if isinstance(default, float) else str(default))
        for name in fields
        for default in [Settings.model_fields[name].default]
    ]


def test_the_lines_of_the_example_are_those_of_the_supervisor() -> None:
    lines: list[str] = []
    now = datetime(2026, 11, 30, 18, tzinfo=UTC)
    tell = teller(lines.append, lambda: now, as_json=False)
    socket, log = ".tarry/scale.sock", ".tarry/scale-1/worker-1.log"
    tell("ready", pid=1, task_queue="tarry", app="agents:app", socket=socket, min=0, max=1, serves=["default"])
    tell("poked", what="ci:dd53c52c5886e54c13c1b797cb5a9ceffd3f3cc8")
    tell("started", worker=1, cause="poke", since=(now - timedelta(seconds=1)).isoformat(), log=log)
    tell("serving", worker=1, pid=25598, seconds={})
    seconds = {"started": 0.001, "ready": 1.237, "working": 1.238}
    tell("working", worker=1, work="ci-17~c369404ff827/g1/t1.0", cause="poke", seconds=seconds)
    tell("stopping", worker=1, why="all is parked")
    tell("stopped", worker=1, code=0)

    assert [line for line in lines if line.split(maxsplit=1)[1] not in PAGE] == []
