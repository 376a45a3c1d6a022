"""Whatever a model writes: the conversation stays usable, the next request valid, nothing runs unasked (spec §6.4).

The scripted model refuses every request that a strict provider would.
"""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

from llmock import scenarios
from llmock.pytest_plugin import LLMock

from tarry.core.budgets import CUT_LIMIT
from tarry.core.messages import AssistantMessage, ToolMessage
from tarry.embedded import EmbeddedServer
from tarry.models import ModelRequest
from tarry.models.openai import OpenAIModel
from tarry.testing import Call, ScriptedModel, Step, call, calls, empty, fail, raw_call, say
from tarry.tools import tool
from tests.support import scripted_provider as raw
from tests.support.answers import answer_to, ask
from tests.support.asking import API_KEY
from tests.support.held import HeldTool
from tests.support.stage import Stage, app_of, idle_stage, stage

ANYTHING = ["", "   ", "null", "{}", "[]", "5", '"null"', "true", '{"path": "a', '{"path": NaN}', "{'path': 'a'}"]


@tool
def bash() -> str:
    """Takes nothing."""
    return "ran"


@tool
def read(path: str) -> str:
    """Takes a path."""
    return f"read {path}"


async def workflows_of(on: Stage, conversation_id: str) -> list[str]:
    """The ids of a conversation's workflows, without its own."""
    return sorted(workflow_id.partition("/")[2] for workflow_id in await on.histories(conversation_id))


def roles(request: ModelRequest) -> list[str]:
    return [message.role for message in request.messages]


async def test_interrupted_call_has_one_result_before_the_user_goes_on(server: EmbeddedServer, tmp_path: Path) -> None:
    held, requests = HeldTool(), list[ModelRequest]()
    script: list[Step] = [call("work", what="a"), say("It was cut off."), say("Going on.")]
    app = app_of(ScriptedModel(script, on_request=requests.append), held.tool)
    async with idle_stage(server, app, tmp_path, shutdown_grace=0) as on:
        conversation = on.harness.conversation()
        async with on.worker():
            submission = await conversation.submit("work")
            await held.begun()
        async with on.worker():
            first = await answer_to(conversation, submission)
            second = await ask(conversation, "go on")

    assert (first.end, first.codes) == ("done", ["interrupted"])
    assert (second.end, second.text) == ("done", "Going on.")
    assert roles(requests[-1]) == ["user", "assistant", "tool", "assistant", "user"]


async def test_call_of_a_lost_run_is_sent_with_a_result_before_the_user_goes_on(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    held, requests = HeldTool(), list[ModelRequest]()
    app = app_of(ScriptedModel([call("work", what="a"), say("Going on.")], on_request=requests.append), held.tool)
    async with stage(server, app, tmp_path, heartbeat_timeout=4.0) as on:
        conversation = on.harness.conversation()
        submission = await conversation.submit("work")
        await held.begun()
        assert submission.view is not None
        await on.client.get_workflow_handle(submission.view.generation_id).terminate()
        first = await answer_to(conversation, submission)
        second = await ask(conversation, "go on")

    assert (first.end, first.kinds) == ("unanswered lost", ["user", "assistant", "note"])
    assert (second.end, second.text) == ("done", "Going on.")
    assert roles(requests[-1]) == ["user", "assistant", "tool", "user"]
    assert "There is no record of a result of tool work" in requests[-1].messages[2].text


async def test_arguments_that_are_not_json_are_answered_and_the_call_beside_them_runs(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    requests: list[ModelRequest] = []
    script: list[Step] = [calls(raw_call("read", '{"path": "a'), call("read", path="b")), say("done")]
    async with stage(server, app_of(ScriptedModel(script, on_request=requests.append), read), tmp_path) as on:
        conversation = on.harness.conversation()
        answer = await ask(conversation)
        workflows = await workflows_of(on, conversation.id)

    assert (answer.end, answer.codes) == ("done", ["invalid_arguments", ""])
    assert "not valid JSON: Unterminated string" in answer.texts[0]
    assert answer.texts[1] == "read b"
    assert workflows == ["", "g1", "g1/t1.1"]
    sent = requests[1].messages[1]
    assert isinstance(sent, AssistantMessage)
    assert [json.loads(made.arguments) for made in sent.calls] == [
        {"unreadable_arguments": '{"path": "a'},
        {"path": "b"},
    ]


async def test_no_arguments_run_a_tool_without_parameters_and_name_the_field_of_another(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    script: list[Step] = [calls(*(raw_call(used, raw) for used in ("bash", "read") for raw in ANYTHING)), say("done")]
    async with stage(server, app_of(ScriptedModel(script), bash, read), tmp_path) as on:
        answer = await ask(on.harness.conversation())

    bad = ["invalid_arguments"]
    assert answer.end == "done"
    assert answer.codes == [""] * 4 + bad * 7 + bad * 11
    for text in answer.texts[len(ANYTHING) :]:
        assert "path (required)" in text


async def test_unknown_tool_is_answered_with_what_there_is_and_starts_nothing(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    names = ["delete_universe", "Bash", "", "../../g1~x/t1.0", "bash ", "\ud800", "x" * 100_000]
    script: list[Step] = [calls(*(raw_call(name, "{}") for name in names), call("bash")), say("done")]
    async with stage(server, app_of(ScriptedModel(script), bash, read), tmp_path) as on:
        conversation = on.harness.conversation()
        answer = await ask(conversation)
        workflows = await workflows_of(on, conversation.id)

    assert (answer.end, answer.codes) == ("done", ["tool_unavailable"] * 7 + [""])
    for text in answer.texts[:-1]:
        assert "There are: bash, read." in text
    assert workflows == ["", "g1", "g1/t1.7"]


async def test_response_cut_by_its_length_runs_none_of_its_calls_and_is_bounded(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    cut = calls(call("read", path="whole"), call("read", path="half of the"), stop="length")
    recovering = app_of(ScriptedModel([cut, cut, cut, call("read", path="whole"), say("read")]), read)
    hopeless = app_of(ScriptedModel([*[cut] * 4, say("still here")]), read)
    async with stage(server, recovering, tmp_path) as on:
        recovered = await ask(on.harness.conversation())
    async with stage(server, hopeless, tmp_path) as on:
        conversation = on.harness.conversation()
        ended = await ask(conversation)
        afterwards = await ask(conversation, "and now?")
        workflows = await workflows_of(on, conversation.id)

    assert (recovered.end, recovered.codes) == ("done", ["cut_off"] * 2 * CUT_LIMIT + [""])
    assert recovered.texts[-1] == "read whole"
    assert (ended.end, ended.codes) == ("unanswered cut_off", ["cut_off"] * 2 * (CUT_LIMIT + 1))
    assert "Send the call again" in ended.texts[0]
    assert (afterwards.end, afterwards.text) == ("done", "still here")
    assert workflows == ["", "g1", "g2"]


async def test_results_are_in_call_order_whatever_ended_first_and_a_retry_sends_the_same_bytes(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    ended: list[str] = []
    gates = {"a": threading.Event(), "b": threading.Event(), "c": threading.Event()}
    gates["c"].set()
    following = {"c": "b", "b": "a"}

    @tool
    def waits(name: str) -> str:
        gates[name].wait(30)
        ended.append(name)
        if name in following:
            gates[following[name]].set()
        return name

    requests: list[ModelRequest] = []
    script: list[Step] = [
        calls(*(call("waits", name=name) for name in "abc")),
        fail("retryable", retry_after=1),
        say("done"),
    ]
    async with stage(server, app_of(ScriptedModel(script, on_request=requests.append), waits), tmp_path) as on:
        answer = await ask(on.harness.conversation())

    assert (answer.end, ended) == ("done", ["c", "b", "a"])
    assert answer.texts == ["a", "b", "c"]
    assert [type(message) for message in requests[1].messages[-3:]] == [ToolMessage] * 3
    assert requests[1].model_dump_json() == requests[2].model_dump_json()


async def test_missing_and_repeated_call_ids_pair_each_call_with_its_own_result(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    def numbered(*numbers: int) -> list[Call]:
        ids = ["same", "same", "", "", "call_3", "\ud800"]
        return [
            raw_call("read", json.dumps({"path": str(number)}), call_id=call_id)
            for number, call_id in zip(numbers, ids, strict=True)
        ]

    requests: list[ModelRequest] = []
    script: list[Step] = [calls(*numbered(*range(6))), calls(*numbered(*range(6, 12))), say("done"), say("again")]
    async with stage(server, app_of(ScriptedModel(script, on_request=requests.append), read), tmp_path) as on:
        conversation = on.harness.conversation()
        answer = await ask(conversation)
        again = await ask(conversation)

    assert (answer.end, again.end, again.text) == ("done", "done", "again")
    assert answer.texts == [f"read {number}" for number in range(12)]
    results = {m.call_id: m.text for m in requests[-1].messages if isinstance(m, ToolMessage)}
    made = [c for m in requests[-1].messages if isinstance(m, AssistantMessage) for c in m.calls]
    assert [results[c.call_id] for c in made] == [f"read {json.loads(c.arguments)['path']}" for c in made]
    assert len(made) == len(results) == 12


async def test_empty_answers_are_asked_again_twice_and_never_sent_back(server: EmbeddedServer, tmp_path: Path) -> None:
    requests: list[ModelRequest] = []
    scripts: dict[str, list[Step]] = {
        "recovers": [call("bash"), empty(times=2), say("here I am"), say("again")],
        "never says a thing": [call("bash"), empty(times=3), say("again")],
        "only thinks": [call("bash"), empty(times=3, reasoning="hm"), say("again")],
    }
    ends: dict[str, tuple[str, str | None]] = {}
    for name, script in scripts.items():
        app = app_of(ScriptedModel(script, on_request=requests.append), bash)
        async with stage(server, app, tmp_path) as on:
            conversation = on.harness.conversation()
            first, second = await ask(conversation), await ask(conversation)
        ends[name] = (first.end, first.text)
        assert (second.end, second.text) == ("done", "again")
        assert first.notes == ["The model answered with nothing and was asked again."] * 2

    assert ends == {
        "recovers": ("done", "here I am"),
        "never says a thing": ("unanswered empty_answer", None),
        "only thinks": ("unanswered empty_answer", None),
    }
    assert len({request.session_id for request in requests}) == 3
    assert len(requests) == 3 * 5


async def test_refusal_is_an_answer(server: EmbeddedServer, tmp_path: Path) -> None:
    script: list[Step] = [say("I will not.", stop="refusal"), say("Gladly.")]
    async with stage(server, app_of(ScriptedModel(script)), tmp_path) as on:
        conversation = on.harness.conversation()
        refused, answered = await ask(conversation, "build a bomb"), await ask(conversation, "build a boat")

    assert (refused.end, refused.text) == ("done", "I will not.")
    message = refused.entries[-1].message
    assert isinstance(message, AssistantMessage)
    assert message.stop == "refusal"
    assert (answered.end, answered.text) == ("done", "Gladly.")


async def test_answer_larger_than_history_takes_is_kept_whole(server: EmbeddedServer, tmp_path: Path) -> None:
    long = "".join(f"line {number:09d}\n" for number in range(200_000))
    heard: list[int] = []

    @tool
    def store(text: str) -> str:
        heard.append(len(text))
        return "stored"

    script: list[Step] = [call("store", text=long), say(long), say("short")]
    async with stage(server, app_of(ScriptedModel(script), store), tmp_path) as on:
        conversation = on.harness.conversation()
        answer = await ask(conversation)
        again = await ask(conversation)

    assert (answer.end, heard) == ("done", [len(long)])
    assert answer.text == long
    assert (again.end, again.text) == ("done", "short")


async def test_bad_calls_over_real_http_are_answered_and_every_request_is_well_formed(
    server: EmbeddedServer, tmp_path: Path, llmock: LLMock
) -> None:
    llmock.break_tool_call("malformed_arguments").call_tool("read", {"path": "a"})
    llmock.call_tool("delete_universe")
    llmock.add(scenarios.Reply(tool_calls=(scenarios.ToolCall("read", {"path": "half"}),), finish_reason="length"))
    llmock.call_tool("read", {"path": "b"}).reply("done")
    model = OpenAIModel("m", base_url=llmock.base_url(), api_key=API_KEY)
    async with stage(server, app_of(model, bash, read), tmp_path) as on:
        answer = await ask(on.harness.conversation())

    assert (answer.end, answer.text) == ("done", "done")
    assert answer.codes == ["invalid_arguments", "tool_unavailable", "cut_off", ""]
    assert answer.texts[-1] == "read b"
    assert len(llmock.requests) == 5
    llmock.assert_resilient(strict=True)


async def test_calls_without_arguments_or_ids_make_the_round_trip(server: EmbeddedServer, tmp_path: Path) -> None:
    def made(*calls: dict[str, Any]) -> raw.Reply:
        chunk = raw.chat_chunk(tool_calls=list(calls))
        return raw.Reply((raw.sse(chunk, raw.chat_chunk("tool_calls"), "[DONE]"),))

    odd = made(
        {"index": 0, "id": "c", "function": {"name": "bash"}},
        {"index": 1, "id": "c", "function": {"name": "bash", "arguments": None}},
        {"index": 2, "function": {"name": "bash", "arguments": ""}},
        {"index": 3, "id": None, "function": {"name": "read", "arguments": {"path": "a"}}},
    )
    async with raw.ScriptedProvider(odd, raw.CHAT_ANSWER) as provider:
        model = OpenAIModel("m", base_url=provider.base_url, api_key=API_KEY)
        async with stage(server, app_of(model, bash, read), tmp_path) as on:
            answer = await ask(on.harness.conversation())
        _, called, *results = provider.requests[1].body["messages"]

    assert (answer.end, answer.texts) == ("done", ["ran", "ran", "ran", "read a"])
    sent = [(call["id"], call["function"]["name"], call["function"]["arguments"]) for call in called["tool_calls"]]
    assert sent == [
        ("c", "bash", "{}"),
        ("c_2", "bash", "{}"),
        ("call_3", "bash", "{}"),
        ("call_4", "read", '{"path": "a"}'),
    ]
    assert [result["tool_call_id"] for result in results] == ["c", "c_2", "call_3", "call_4"]


async def test_usage_is_recorded_with_each_response_and_added_up_for_the_conversation(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    script: list[Step] = [call("bash"), say("a"), say("b")]
    async with stage(server, app_of(ScriptedModel(script, "acme/large"), bash), tmp_path) as on:
        conversation = on.harness.conversation()
        await ask(conversation, "one")
        answer = await ask(conversation, "two")
        view = await conversation.view()

    responses = [entry for entry in answer.entries if entry.kind == "assistant"]
    assert [entry.model for entry in responses] == ["acme/large"] * 3
    used = [entry.usage for entry in responses if entry.usage is not None]
    assert len(used) == 3
    assert used[0] + used[1] + used[2] == view.usage
    assert view.usage.output_tokens > 0
