"""The commands that wake a parked task, read back by a real shell."""

from __future__ import annotations

import json
import shlex
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signals.tokens import SignalKey
from tarry.core.wake_command import signal_command, wake_command

TASK = "billing~ab12/g1/t1.0"


def test_commands_name_the_task_the_key_and_the_value() -> None:
    key = SignalKey("app.ci-result", "done")

    assert wake_command(TASK, key, {"status": "passed"}) == (
        "temporal workflow signal --workflow-id 'billing~ab12/g1/t1.0' --name app.ci-result "
        """--input '{"key": "done", "value": {"status": "passed"}}'"""
    )
    assert signal_command(TASK, key, {"status": "passed"}) == (
        """tarry signal 'billing~ab12/g1/t1.0' app.ci-result done '{"status": "passed"}'"""
    )


@pytest.mark.parametrize("key", ["it's", "a b", "$(touch x)", "line\nbreak", "é承認\u202e", "-n", '"', "\\", "`id`"])
def test_any_key_comes_through_a_real_shell_as_it_is(key: str) -> None:
    command = wake_command("t'a $s\"k", SignalKey("app.x", key), "it's")

    shown = subprocess.run(["sh", "-c", f"printf '%s\\0' {command}"], capture_output=True, check=True).stdout
    arguments = shown.decode().split("\0")[:-1]
    assert arguments[:8] == [
        "temporal",
        "workflow",
        "signal",
        "--workflow-id",
        "t'a $s\"k",
        "--name",
        "app.x",
        "--input",
    ]
    assert json.loads(arguments[8]) == {"key": key, "value": "it's"}
    assert "\n" not in command


@given(st.text(min_size=1), st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists))
def test_command_of_any_key_and_value_is_plain_text_that_parses_back(key: str, value: object) -> None:
    command = wake_command(TASK, SignalKey("app.x", key), value)

    assert command.isascii()
    assert command.isprintable()
    assert json.loads(shlex.split(command)[-1]) == {"key": key, "value": value}


def test_values_that_look_like_options_are_not_taken_for_them() -> None:
    command = signal_command(TASK, SignalKey("app.x", "-n"), -1)

    assert command == "tarry signal -- 'billing~ab12/g1/t1.0' app.x -n -1"
