# A worker is killed in the middle of a tool, and another one finishes the run.
# What was committed is not done again; the tool that was cut off is not either, and the model is told.
#
#     .venv/bin/python examples/02_survive_kill.py

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

from tarry import App, Extension, tool
from tarry.models import ModelRequest
from tarry.testing import Reply, ScriptedModel, Stage, call, say


def record(line: str) -> None:
    with Path(os.environ["LEDGER"]).open("a") as ledger:
        ledger.write(f"{line}\n")


@tool(replay="safe")
def search_logs(pattern: str) -> str:
    """Search the logs of the shop."""
    record("search_logs")
    return f"3 matches: {pattern} in OrderService.java:42"


@tool
def open_ticket(title: str) -> str:
    """Open a ticket."""
    record("open_ticket")
    os.kill(os.getpid(), signal.SIGKILL)  # no cleanup, no goodbye: this worker is gone
    return f"Opened a ticket: {title}"


def report(request: ModelRequest) -> Reply:
    return say(f"I was told: {request.messages[-1].text}")


app = App(
    model=ScriptedModel(
        [call("search_logs", pattern="NullPointerException"), call("open_ticket", title="NPE"), report]
    ),
    extensions=[Extension("triage", [search_logs, open_ticket])],
)


async def main() -> None:
    async with Stage("examples.02_survive_kill:app") as stage:
        ledger = stage.folder / "ledger.txt"
        first = await stage.start_worker(LEDGER=str(ledger))
        submission = await stage.harness.conversation().submit("Investigate the order failures.")
        print(f"worker 1 ended by signal {-await first.wait()}")

        await stage.start_worker(LEDGER=str(ledger))
        settled = await submission.wait()
        print(f"worker 2 finished the run: {settled.status}")
        print(settled.answer_text)

        runs = ledger.read_text().split()
        print(f"runs: search_logs {runs.count('search_logs')}, open_ticket {runs.count('open_ticket')}")


if __name__ == "__main__":
    asyncio.run(main())
