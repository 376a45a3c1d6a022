"""Record histories to keep: `python -m tests.replay.record [SCENARIO …]`, by default those that are not kept yet.

A kept history is evidence of what ran once, so that one is never recorded anew: to change it is to forget what
parked work may look like.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from tarry.embedded import EmbeddedServer
from tests.replay import kept
from tests.replay.scenarios import RUNS
from tests.replay.scenarios_agents import AGENTS
from tests.replay.scenarios_agents_tree import TREES
from tests.replay.scenarios_before import BEFORE
from tests.replay.scenarios_busy import BUSY
from tests.replay.scenarios_compaction import COMPACTION
from tests.replay.scenarios_delegating import DELEGATING
from tests.replay.scenarios_documents import DOCUMENTS
from tests.replay.scenarios_forks import FORKS
from tests.replay.scenarios_gates import GATES
from tests.replay.scenarios_parked import PARKED
from tests.replay.scenarios_prompt import PROMPT
from tests.replay.scenarios_resting import RESTING
from tests.replay.scenarios_routing import ROUTING
from tests.replay.scenarios_tasks import TASKS
from tests.replay.scenarios_turns import TURNS
from tests.replay.studio import Studio

SCENARIOS = {
    **(RUNS | PARKED | TASKS | GATES | DOCUMENTS | COMPACTION | BUSY),
    **(AGENTS | PROMPT | FORKS | TURNS | TREES | DELEGATING | ROUTING | BEFORE | RESTING),
}


async def record(scenarios: list[str]) -> None:
    """Play and keep."""
    async with EmbeddedServer() as server:
        for name in scenarios:
            with tempfile.TemporaryDirectory(prefix="tarry-record-") as folder:
                studio = Studio(server, Path(folder))
                await SCENARIOS[name](studio)
                kept.write(name, studio.histories, studio.store)
                print(f"{name}: {len(studio.histories)} histories", flush=True)


def main() -> None:
    """The command. Exit code 2: a scenario is unknown, or kept already."""
    chosen = sys.argv[1:] or [name for name in SCENARIOS if name not in kept.names()]
    for name in chosen:
        if name not in SCENARIOS or name in kept.names():
            what = "is kept already, and never recorded anew" if name in kept.names() else "is no scenario"
            print(f"{name} {what}", file=sys.stderr)
            raise SystemExit(2)
    asyncio.run(record(chosen))


if __name__ == "__main__":
    main()
