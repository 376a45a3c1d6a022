# A coding agent mends a small repository whose test fails: it looks around, runs pytest, reads, edits, runs it again.
# `sandboxed(...)` in place of `local(...)` would shut its commands in with the repository.
#
#     .venv/bin/python examples/17_coding_agent.py

from __future__ import annotations

import asyncio
import os
import re
import sys
import tempfile
from pathlib import Path

from tarry import App
from tarry.coding import coding, local
from tarry.models import ModelRequest
from tarry.testing import Call, Reply, ScriptedModel, Stage, call, calls, say

FILES = {
    "prices.py": 'def total(prices):\n    """The sum in euros, to the cent."""\n    return int(sum(prices))\n',
    "test_prices.py": """\
from prices import total


def test_total_keeps_the_cents():
    assert total([1.25, 2.50]) == 3.75
""",
    ".gitignore": "__pycache__/\n",
}
PYTEST = "pytest -q -p no:cacheprovider --no-header"


def mend(request: ModelRequest) -> Call:
    """Put right what the function that failed says."""
    assert "return int(sum(prices))" in request.messages[-1].text
    change = {"oldText": "return int(sum(prices))", "newText": "return round(sum(prices), 2)"}
    return call("edit", path="prices.py", edits=[change])


def report(request: ModelRequest) -> Reply:
    return say("It is mended." if "1 passed" in request.messages[-1].text else "It still fails.")


def repository() -> str:
    return os.environ["EXAMPLE_REPOSITORY"]  # a worker is a process of its own, and is told where


def variables() -> dict[str, str]:
    """Commands find the pytest of this environment, and leave no bytecode; they get no other variable of the worker."""
    return {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PYTHONDONTWRITEBYTECODE": "1"}


app = App(
    model=ScriptedModel(
        [
            calls(call("ls"), call("grep", pattern="def total")),
            call("bash", command=PYTEST, timeout=60),
            call("read", path="prices.py"),
            mend,
            call("bash", command=PYTEST, timeout=60),
            report,
        ]
    ),
    instructions="You mend what the tests of a repository show.",
    extensions=[coding(lambda place: local(repository(), variables())(place))],
)


async def main() -> None:
    with tempfile.TemporaryDirectory(prefix="tarry-example-") as folder:
        for name, content in FILES.items():
            (Path(folder) / name).write_text(content)
        async with Stage("examples.17_coding_agent:app") as stage:
            await stage.start_worker(EXAMPLE_REPOSITORY=folder)
            conversation = stage.harness.conversation()
            settled = await (await conversation.submit("The test fails. Mend it.")).wait()
            for entry in await conversation.transcript():
                if entry.message is not None and entry.message.role == "tool":
                    print(shown(entry.message.text))
                    if entry.tool is not None and entry.tool.details and "patch" in entry.tool.details:
                        print(entry.tool.details["patch"], end="")
        print(settled.answer_text)


def shown(text: str) -> str:
    """A result on one line; of pytest's the verdict."""
    lines = [line for line in text.splitlines() if line.startswith(("FAILED", "1 passed", "[error]"))]
    return " / ".join(re.sub(r" in [0-9.]+s.*", "", line) for line in lines or text.splitlines())


if __name__ == "__main__":
    asyncio.run(main())
