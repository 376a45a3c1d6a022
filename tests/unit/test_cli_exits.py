"""How a command ends when it cannot even begin: one line, one exit code, and for programs one object."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from temporalio.service import RPCError, RPCStatusCode

from tarry import cli
from tarry.cli.exits import EXIT_CODES, ExitCode, problem_of
from tarry.cli.processes import chosen_app, ended, needs_own_server, shell_code
from tarry.client import Harness, InboxFull, NotHeld, RequestConflict, ServerUnavailable
from tarry.connect import ConnectError, ServerUnreachable
from tarry.embedded import ServerError, free_port
from tarry.loading import LoadError
from tarry.processes import environment_of
from tarry.settings import Settings, SettingsError
from tarry.store import StoreError


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A server is configured, and nothing listens there; `broken.toml` is no configuration."""
    for name in [name for name in os.environ if name.startswith(("TEMPORAL_", "TARRY_", "OPENAI_"))]:
        monkeypatch.delenv(name)
    for name, value in environment_of(f"127.0.0.1:{free_port()}").items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    Path("broken.toml").write_text("[")


@pytest.mark.parametrize(
    ("error", "exit_code", "kind"),
    [
        (RequestConflict("other content"), 1, "request_conflict"),
        (InboxFull("full"), 1, "inbox_full"),
        (NotHeld("not held"), 1, "not_held"),
        (ConnectError("no namespace"), 2, "connect_error"),
        (ServerUnreachable("nobody there"), 2, "server_unreachable"),
        (ServerError("port taken"), 2, "server_error"),
        (SettingsError("bad setting"), 2, "settings_error"),
        (StoreError("blob missing"), 2, "store_error"),
        (LoadError("no such module"), 2, "load_error"),
        (ServerUnavailable("nobody answers"), 2, "server_unavailable"),
        (RPCError("gone", RPCStatusCode.UNAVAILABLE, b""), 2, "rpc_error"),
    ],
)
def test_each_error_has_its_exit_code_and_its_word(error: Exception, exit_code: int, kind: str) -> None:
    problem = problem_of(error)

    assert problem is not None
    assert (problem.exit_code, problem.kind) == (exit_code, kind)
    assert problem_of(KeyError("a bug")) is None


@pytest.mark.parametrize(
    "words",
    [
        *("ask hello", "submit hello", "wait c r", "transcript c", "ps", "retry i", "abort i", "explain i"),
        *("signal t n k 1", "receipt t d", "wake", "wake --watch", "documents c"),
    ],
)
def test_every_command_says_in_one_line_that_no_server_answers(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = cli.run([*words.split(), "--json"])

    out, err = capsys.readouterr()
    assert (code, len(err.splitlines())) == (2, 1)
    assert err.startswith("tarry: no Temporal server at 127.0.0.1:")
    assert "`tarry dev`" in err
    told = json.loads(out)
    assert (told["error"]["code"], told["exit_code"]) == ("server_unreachable", 2)
    assert err == f"tarry: {told['error']['message']}\n"


NAMED = (
    *(["submit", "hello"], ["write", "c", "hello"], ["reset", "c"], ["compact", "c"]),
    *(["agents", "message", "c", "/root/a", "hello"], ["agents", "interrupt", "c", "/root/a"]),
)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["ask"], "Missing argument 'text' (`tarry ask --help`)"),
        (["ask", "  "], "the input is blank"),
        (["submit", "hello", "--when-busy", "shout"], "--when-busy"),
        (["wait", "c", "r", "--timeout", "soon"], "--timeout"),
        (["wait", "c", "r", "--timeout", "-1"], "--timeout"),
        (["dev", "--port", "99999"], "--port"),
        (["dev"], "give --app module:attribute"),
        (["ask", "hello", "--embedded"], "set OPENAI_API_KEY"),
        (["shout"], "No such command 'shout'"),
        (["ps", "--loud"], "--loud"),
        *(([*words, "--request-id", "x" * 201], "it has 201 characters; 200 are allowed") for words in NAMED),
    ],
)
def test_bad_arguments_are_one_line(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = cli.run(words)

    out, err = capsys.readouterr()
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert said in err


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TARRY_RESTART_LIMIT", "many"),
        ("TARRY_STORE", "ftp://nowhere"),
        ("TEMPORAL_ADDRESS", "nonsense"),
        ("TEMPORAL_CONFIG_FILE", "broken.toml"),
    ],
)
def test_bad_settings_are_one_line_that_names_them(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(name, value)

    code = cli.run(["ps"])

    out, err = capsys.readouterr()
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert name in err


@pytest.mark.parametrize("words", [[], ["--help"], ["ask", "--help"], ["dev", "-h"]])
def test_help_tells_the_exit_codes(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code = cli.run(words)

    out = capsys.readouterr().out
    assert code == 0
    assert EXIT_CODES in " ".join(out.split())


@pytest.mark.parametrize("is_debugging", [False, True])
def test_a_bug_is_one_line_and_a_traceback_only_when_asked_for(
    is_debugging: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def connect() -> Harness:
        raise ZeroDivisionError("a slip")

    monkeypatch.setattr(Harness, "connect", connect)
    monkeypatch.setenv("TARRY_DEBUG", "1" if is_debugging else "")

    code = cli.run(["ps", "--json"])

    out, err = capsys.readouterr()
    assert (code, json.loads(out)["error"]["code"]) == (ExitCode.BUG, "bug")
    assert err.splitlines()[-1].startswith("tarry: unexpected ZeroDivisionError: a slip")
    assert ("Traceback" in err) == is_debugging


def test_error_object_is_promised_only_to_the_option_not_to_an_input_of_its_name(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = cli.run(["ask", "--", "--json"])

    assert (code, capsys.readouterr().out) == (2, "")


def test_server_of_its_own_is_needed_only_where_none_is_set_or_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = f"127.0.0.1:{free_port()}"
    configured = needs_own_server(silent)
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", "broken.toml")
    unreadable = needs_own_server(silent)
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", os.devnull)
    monkeypatch.delenv("TEMPORAL_ADDRESS")
    unset = needs_own_server(silent)

    assert (configured, unreadable, unset) == (False, False, True)


def test_application_is_the_given_one_then_the_set_one_then_the_example(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")

    assert chosen_app("a:b", Settings(app="c:d")) == "a:b"
    assert chosen_app(None, Settings(app="c:d")) == "c:d"
    assert chosen_app(None, Settings()) == "tarry.demo.live:app"


def test_end_of_a_worker_is_told_in_words_and_as_shells_count() -> None:
    assert (ended(-9), shell_code(-9)) == ("the worker was ended by SIGKILL", 137)
    assert (ended(2), shell_code(2)) == ("the worker ended with code 2", 2)


def test_command_imports_no_process_of_ours() -> None:
    listed = subprocess.run(
        [sys.executable, "-c", "import sys, tarry.cli; print(*sys.modules)"], capture_output=True, text=True, check=True
    )

    assert {"workflows", "activities", "workers"} & set(listed.stdout.split()) == set()
