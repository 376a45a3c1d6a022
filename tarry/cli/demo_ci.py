"""The CI demo for a person: what a shell says of the parked call, what would wake it, then the three runs."""

from __future__ import annotations

from pathlib import Path

from rich.table import Table
from rich.text import Text

from tarry.cli.demo_story import Story
from tarry.demo.ci.scenarios import SCENES, CiStory, Scene
from tarry.embedded import EmbeddedServer

TITLE = "An agent waits for CI: nobody is up when the answer comes, a worker dies before the wait, somebody says Stop."

_RUNS: dict[Scene, str] = {
    "away": "all workers off when the webhook came",
    "killed": "worker killed between trigger and park",
    "stopped": "stopped while parked",
}

_TO_TAKE_AWAY = (
    "A parked call is a row in Temporal, no process: the server keeps what comes for it until a worker is back. The "
    "key that run_ci keeps in a memo makes a rerun find its build, and its cancel hook ends the build on Stop."
)


def tell(story: Story, told: CiStory, server: EmbeddedServer, folder: Path) -> None:
    """Tell what was said meanwhile and what is left when all runs are over."""
    story.heading("What a shell says of the parked call, while no worker runs")
    blocks = [Text.assemble((f"$ {said.command}\n", "bold"), said.output) for said in told.said]
    story.print(Text("\n\n").join(blocks))
    story.heading("What would wake it, from any shell")
    story.print(Text(told.wakes))
    story.heading("The same wait, three times: builds at the CI service")
    story.print(_comparison(story, told))
    story.print(f"\n{_TO_TAKE_AWAY}")
    story.look(told.web_ui, folder, server)


def _comparison(story: Story, told: CiStory) -> Table:
    table = story.table("run", "builds", "cancelled", "committed result", numbers=("builds",))
    rows = zip(SCENES, told.facts.builds, told.facts.cancelled, told.results, strict=True)
    for scene, builds, is_cancelled, result in rows:
        table.add_row(_RUNS[scene], str(builds), "yes" if is_cancelled else "no", Text(result))
    return table
