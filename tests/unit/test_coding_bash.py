"""The tool bash, as a model reads its results."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tarry.coding import LocalDirectory, bash
from tarry.coding.shell import KeptOutput
from tests.support.coding import Recorder, use, use_with


@pytest.fixture
def env(tmp_path: Path) -> LocalDirectory:
    return LocalDirectory(tmp_path)


@pytest.mark.parametrize(
    ("command", "text", "exit_code"),
    [
        ("echo out; echo err >&2", "out\nerr\n", 0),
        ("true", "<harness>\n[info] There was no output.\n</harness>", 0),
        ("printf '\\xff\\xc3'", "\ufffd\ufffd", 0),
        (
            "echo out; exit 3",
            "out\n<harness>\n[error] The command ended with exit code 3. (exit_code)\n</harness>",
            3,
        ),
    ],
)
def test_result_is_the_output_and_a_failed_command_is_an_error(
    env: LocalDirectory, command: str, text: str, exit_code: int
) -> None:
    outcome = use(bash, env, command=command)

    assert (outcome.text, outcome.is_error) == (text, exit_code != 0)
    assert outcome.facts.details == {"exit_code": exit_code}


def test_command_that_takes_too_long_is_an_error_with_its_output(env: LocalDirectory) -> None:
    outcome = use(bash, env, command="echo begun; sleep 600", timeout=2.5)

    told = "The command was killed after 2.5 s, with all it had started; what it did until then stays."
    assert outcome.text == f"begun\n<harness>\n[error] {told} (timeout)\n</harness>"
    assert outcome.is_error


@pytest.mark.parametrize("timeout", [0, -1])
def test_time_limits_are_positive(env: LocalDirectory, timeout: float) -> None:
    with pytest.raises(ValueError, match="greater than 0"):
        use(bash, env, command="true", timeout=timeout)


def test_the_end_of_a_long_output_is_shown(env: LocalDirectory) -> None:
    outcome = use(bash, env, command="seq 3000; exit 1")

    assert outcome.text.startswith("1001\n1002\n")
    assert (
        "\n3000\n<harness>\n[error] The command ended with exit code 1. (exit_code)\n[warn] Truncated: " in outcome.text
    )
    assert " bytes in 1000 lines at the start are left out" in outcome.text


def test_output_is_published_while_the_command_runs_and_a_stop_ends_it(env: LocalDirectory) -> None:
    api = Recorder(env)
    thread = threading.Thread(target=lambda: use_with(api, bash, command="echo begun; touch there; sleep 600"))
    thread.start()
    while not api.published:
        thread.join(0.01)
    api.stopped = True
    thread.join(20)

    assert not thread.is_alive()
    assert "".join(api.published) == "begun\n"


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        (["abc", "def"], "abcdef"),
        (["abcdefgh", "ij"], "abcdefghij"),
        (["abcd", "x" * 10, "efgh"], "abcd\n[… 10 characters were not kept …]\nefgh"),
        (["abcd", "1", "2", "3", "4", "5"], "abcd\n[… 1 characters were not kept …]\n2345"),
    ],
)
def test_of_an_output_without_end_start_and_end_are_kept(pieces: list[str], text: str) -> None:
    kept = KeptOutput(half=4)
    for piece in pieces:
        kept.add(piece)

    assert kept.text == text
