"""`tarry configure` and `tarry usage` (spec §7.6, §7.8)."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tarry.embedded import EmbeddedServer
from tarry.processes import environment_of, worker
from tests.support import cli_app
from tests.support.command import Command, Done, InProcess, Run


@pytest.fixture(scope="module")
async def tarry(server: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Command]:
    """The command where a server is configured and a worker serves."""
    folder = tmp_path_factory.mktemp("cli")
    ours = {"TARRY_TASK_QUEUE": "cli-agents", "TARRY_SHUTDOWN_GRACE": "1", "TARRY_STORE": str(folder / "store")}
    command = Command(folder, environment_of(server.address) | ours)
    async with worker(cli_app.NAME, log=folder / "worker.log", environment=command.environment):
        yield command


@pytest.fixture
def run(tarry: Command, in_process: InProcess) -> Run:
    """The same command without a process for each run."""
    return in_process(tarry.environment)


def test_what_is_named_is_chosen_and_the_rest_stays(run: Run) -> None:
    first = run("configure", "chosen", "--model", "gone", "--thinking", "low", "--tools", "+a,-b", "--cwd", "/x")
    second = run("configure", "chosen", "--default", "cwd", "--extensions", "drawers", "--json")

    assert first == Done(0, "model: gone\nthinking: low\ntools: {'add': ['a'], 'remove': ['b']}\ncwd: /x\n", "")
    assert second.json == {
        "conversation_id": "chosen",
        "accepted_by": "worker",
        "agent": {
            "model": "gone",
            "thinking": "low",
            "extensions": ["drawers"],
            "tools": {"add": ["a"], "remove": ["b"]},
            "instructions": None,
            "cwd": None,
        },
    }


def test_an_input_to_a_model_that_is_not_there_says_which_are(run: Run) -> None:
    run("configure", "modelless", "--model", "gone")
    told = run("ask", "hello", "--conversation", "modelless")

    assert told.code == 1
    assert "no_model" in told.err
    assert "known are: scripted/1" in told.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--thinking", "hard"), "thinking: "),
        (("--tools", "+a,b"), "give either names, or changes"),
        (("--default", "modell"), "--default modell: give one of model, thinking"),
    ],
)
def test_what_is_no_choice_is_put_right_first(run: Run, arguments: tuple[str, ...], said: str) -> None:
    refused = run("configure", "wrong", *arguments)

    assert (refused.code, refused.out) == (2, "")
    assert said in refused.err


def test_usage_is_told_of_one_conversation_and_of_all(run: Run) -> None:
    run("ask", "hello", "--conversation", "spender")
    one = run("usage", "spender")
    told = run("usage", "spender", "--json").json
    everything = run("usage", "--json").json

    header, model, total = one.out.splitlines()
    assert (one.code, header.split()) == (0, ["WHO", "REPORTS", "IN", "CACHED", "OUT", "COST"])
    assert (model.split()[0], model.split()[1], model.split()[-1]) == ("scripted/1", "1", "?")
    assert total.split()[0] == "total"
    assert told["models"]["scripted/1"]["reports"] == told["total"]["reports"] == 1
    assert everything["conversations"]["spender"]["models"] == told["models"]
