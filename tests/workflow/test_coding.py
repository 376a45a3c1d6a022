"""Coding tools in conversations: each in its own environment, with output, limits and Stop as everywhere (spec §14)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tarry.api import ToolApi
from tarry.app import App, Extension
from tarry.coding import LocalDirectory, coding, local
from tarry.embedded import EmbeddedServer
from tarry.environment import Place
from tarry.models import ModelRequest
from tarry.store import BlobStore
from tarry.testing import ScriptedModel, Step, call, calls, say
from tarry.tools import tool
from tests.support.answers import answer_to, ask
from tests.support.coding import none_left, tag, tagged
from tests.support.stage import stage
from tests.support.waiting import eventually


def app_in(root: Path, *steps: Step, extensions: tuple[Extension, ...] = ()) -> App:
    """An agent that does these steps in a directory."""
    return App(model=ScriptedModel.for_each_input(list(steps)), extensions=[coding(local(root)), *extensions])


async def test_agent_looks_changes_and_runs_in_its_directory(server: EmbeddedServer, tmp_path: Path) -> None:
    root = tmp_path / "project"
    root.mkdir()
    app = app_in(
        root,
        call("write", path="src/a.sh", content="echo one\n"),
        call("edit", path="src/a.sh", edits='{"oldText": "one", "newText": "two"}'),
        calls(
            call("grep", pattern="two"),
            call("find", glob="*.sh"),
            call("ls", path="src"),
            call("read", path="src/a.sh"),
        ),
        call("bash", command="sh src/a.sh"),
        say("done"),
    )
    async with stage(server, app, tmp_path / "store") as on:
        answer = await ask(on.harness.conversation())

    assert answer.text == "done"
    assert answer.texts == [
        "Wrote 9 bytes to src/a.sh.",
        "Replaced 1 piece of src/a.sh.",
        "src/a.sh:1: echo two",
        "src/a.sh",
        "a.sh",
        "echo two\n",
        "two\n",
    ]
    assert answer.facts[1].details["first_changed_line"] == 1


async def test_each_conversation_has_the_environment_that_is_made_for_it(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    places: list[Place] = []

    def environment(place: Place) -> LocalDirectory:
        places.append(place)
        root = tmp_path / place.conversation_id
        root.mkdir(exist_ok=True)
        return LocalDirectory(root)

    @tool
    def where(api: ToolApi) -> str:
        """Tools of other extensions have it, too, the same one for all of a run."""
        assert api.env is api.env
        return str(api.env.root)

    model = ScriptedModel.for_each_input([calls(call("write", path="f", content="x"), call("where")), say("done")])
    app = App(model=model, extensions=[coding(environment), Extension("own", [where])])
    async with stage(server, app, tmp_path / "store") as on:
        one, other = on.harness.conversation("one"), on.harness.conversation("other")
        roots = [(await ask(conversation)).texts[1] for conversation in (one, other)]

    assert roots == [str(tmp_path / "one"), str(tmp_path / "other")]
    assert [(tmp_path / name / "f").read_text() for name in ("one", "other")] == ["x", "x"]
    assert {place.conversation_id for place in places} == {"one", "other"}
    assert {place.cwd for place in places} == {None}


async def test_commands_start_in_the_folder_that_the_conversation_has_chosen(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "f").touch()
    app = app_in(tmp_path, call("bash", command="pwd"), call("ls"), say("done"))
    async with stage(server, app, tmp_path / "store") as on:
        conversation = on.harness.conversation()
        before = await ask(conversation)
        await conversation.configure(cwd="src")
        after = await ask(conversation)

        await conversation.configure(cwd="none")
        missing = await ask(conversation)
        await conversation.configure(cwd="..")
        outside = await ask(conversation)

    assert before.texts[0] == f"{tmp_path}\n"
    assert after.texts[2] == f"{tmp_path}/src\n"
    assert after.texts[3] == "f"
    assert f"NotADirectoryError: the working directory {tmp_path}/none cannot be used" in missing.texts[4]
    assert "OutsideRoot: .. leads out of" in outside.texts[6]


async def test_tool_without_an_environment_is_told_what_is_missing(server: EmbeddedServer, tmp_path: Path) -> None:
    model = ScriptedModel.for_each_input([call("read", path="f"), say("done")])
    app = App(model=model, extensions=[Extension("coding", coding(local(tmp_path)).tools)])
    async with stage(server, app, tmp_path / "store") as on:
        answer = await ask(on.harness.conversation())

    assert answer.codes == ["tool_error"]
    assert "NoEnvironment: no extension of the application has an `environment`" in answer.texts[0]


async def test_environment_that_cannot_be_made_is_an_error_result(server: EmbeddedServer, tmp_path: Path) -> None:
    app = app_in(tmp_path / "none", call("bash", command="true"), say("done"))
    async with stage(server, app, tmp_path / "store") as on:
        answer = await ask(on.harness.conversation())

    assert answer.codes == ["tool_error"]
    assert f"FileNotFoundError: {tmp_path}/none: no such file or directory" in answer.texts[0]


async def test_end_of_a_long_output_is_read_and_the_whole_is_kept_in_the_store(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    app = app_in(tmp_path, call("bash", command="seq 100000; exit 7"), say("done"))
    async with stage(server, app, tmp_path / "store") as on:
        answer = await ask(on.harness.conversation())
        whole = await BlobStore(on.client.data_converter).get(answer.facts[0].full_output, str)

    lines = answer.texts[0].splitlines()
    assert lines[0] == "98001"
    assert lines[2_000:] == [
        "<harness>",
        "[error] The command ended with exit code 7. (exit_code)",
        f"[warn] Truncated: 576894 bytes in 98000 lines at the start are left out; "
        f"the whole text is kept as {answer.facts[0].full_output}. (truncated)",
        "</harness>",
    ]
    assert answer.results[0].is_error
    assert whole.splitlines() == [str(number) for number in range(1, 100_001)]


async def test_stop_ends_a_command_with_all_that_it_started_and_its_output_is_kept(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    mine = tag()
    command = f"echo begun; touch there; (setsid sleep {mine} &) ; sleep {mine}"
    app = app_in(tmp_path, call("bash", command=command), say("done"))

    async def there() -> bool:
        return (tmp_path / "there").exists()

    with none_left(mine):
        async with stage(server, app, tmp_path / "store", heartbeat_timeout=4.0) as on:
            conversation = on.harness.conversation()
            submission = await conversation.submit("go")
            await eventually(there)
            await conversation.abort()
            answer = await answer_to(conversation, submission)
        assert tagged(mine) == []

    assert (answer.end, answer.codes) == ("unanswered aborted", ["aborted"])
    assert answer.texts[0].startswith("begun\n<harness>\n[error] Tool bash was aborted on request")


async def test_tools_that_only_read_are_safe_to_run_again_and_the_others_are_not(tmp_path: Path) -> None:
    replays = {tool.name: tool.replay for tool in coding(local(tmp_path)).tools}

    assert replays == {
        "read": "safe",
        "write": "unsafe",
        "edit": "unsafe",
        "bash": "unsafe",
        "grep": "safe",
        "find": "safe",
        "ls": "safe",
    }


async def test_every_request_with_coding_tools_is_one_that_a_strict_provider_takes(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    offered: list[Any] = []

    def look(request: ModelRequest) -> Any:
        offered.extend(request.tools)
        return call("edit", path="f", oldText="a", newText="b")

    (tmp_path / "f").write_text("a")
    async with stage(server, app_in(tmp_path, look, say("done")), tmp_path / "store") as on:
        answer = await ask(on.harness.conversation())

    assert answer.texts == ["Replaced 1 piece of f."]
    schemas = {spec.name: spec.parameters for spec in offered}
    assert list(schemas) == ["read", "write", "edit", "bash", "grep", "find", "ls"]
    assert schemas["edit"]["required"] == ["path", "edits"]
    assert set(schemas["edit"]["$defs"]["Edit"]["properties"]) == {"oldText", "newText"}
