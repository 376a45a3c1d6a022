"""What a model reads of agents (spec §17.45)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tarry.client.errors import AgentRefused, NoSuchAgents, ServerUnavailable
from tarry.core.protocol import PlainSignal
from tarry.core.results import MAX_DETAILS_BYTES, outcome_from
from tarry.core.subagents.protocol import Completion, Updates, Working
from tarry.core.text import bound_text
from tarry.subagents.telling import Told, answer_result, end_text, refusals_are_results, span, working_lines
from tarry.subagents.waiting import _told, wait_agent
from tarry.tools import RetryTool, ToolResult

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
READ = PlainSignal(workflow_id="root~n/agents", name="tarry.agents.read-done")


def ended(**fields: Any) -> Completion:
    """How a turn of `/root/look` ended."""
    known = {"update_id": "u", "turn_id": "t", "path": "/root/look", "agent_id": "agent-1", "status": "done"}
    return Completion.model_validate(known | {"ended": NOW} | fields)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"text": "Found."}, "/root/look ended its turn.\nFound."),
        ({"text": ""}, "/root/look ended its turn.\n(it said nothing)"),
        (
            {"status": "unanswered", "reason": "model_error", "detail": "no credit", "text": "I look"},
            "/root/look gave no answer (model_error: no credit).\nWhat it said last:\nI look",
        ),
        ({"status": "unanswered", "reason": "aborted"}, "/root/look gave no answer (aborted).\n(it said nothing)"),
        (
            {"text": "Begun.", "working": ["/root/look/a", "/root/look/b"]},
            "/root/look ended its turn, while /root/look/a, /root/look/b of its own still worked.\nBegun.",
        ),
        (
            {"text": "A long", "is_cut": True},
            "/root/look ended its turn.\nA long\n[cut here; the whole is in its conversation, agent-1]",
        ),
    ],
)
def test_end_says_who_how_and_what(fields: dict[str, Any], text: str) -> None:
    assert end_text(ended(**fields)) == text


@pytest.mark.parametrize(
    ("fields", "is_error"),
    [
        ({"text": "Found."}, False),
        ({"text": " "}, True),
        ({"status": "unanswered", "reason": "cut_off", "text": "Fou"}, True),
    ],
)
def test_only_a_real_answer_is_no_error_and_each_is_read_with_it(fields: dict[str, Any], is_error: bool) -> None:
    result = answer_result(ended(**fields), READ, is_data=False)

    assert (result.is_error, result.acks) == (is_error, (READ,))
    assert result.details["is_error"] == is_error


def test_answer_that_is_data_is_given_as_that_unless_it_is_cut() -> None:
    whole = answer_result(ended(text='{"files": 3}'), READ, is_data=True)
    cut = answer_result(ended(text='{"files": ', is_cut=True), READ, is_data=True)

    assert (whole.structured, whole.details["answer"]) == ({"files": 3}, {"files": 3})
    assert (cut.structured, "answer" in cut.details) == (None, False)


def test_answer_that_was_to_be_data_and_is_none_is_an_error_with_the_last_words() -> None:
    result = answer_result(ended(text="Three files."), READ, is_data=True)

    assert (result.is_error, result.acks) == (True, (READ,))
    assert result.content == "/root/look gave no answer (invalid_output).\nWhat it said last:\nThree files."


def test_what_works_is_shown_with_its_state_since_when_and_what_it_waits_for() -> None:
    working = [
        Working(path="/root/a", state="running", since=NOW - timedelta(seconds=61)),
        Working(path="/root/b", state="waiting", since=NOW - timedelta(hours=3), detail="its agents: /root/b/c"),
        Working(path="/root/c", state="queued"),
    ]

    assert working_lines(working, NOW).splitlines() == [
        "- /root/a: running since 11:58:59 UTC (61 s)",
        "- /root/b: waiting since 09:00:00 UTC (3.0 h), waits for its agents: /root/b/c",
        "- /root/c: queued",
    ]
    assert working_lines(working[2:], NOW, 184).splitlines() == ["- /root/c: queued", "- and 184 more"]


@pytest.mark.parametrize(
    ("time", "text"),
    [(-1, "0 s"), (119, "119 s"), (120, "2 min"), (7_199, "119 min"), (7_200, "2.0 h")],
)
def test_span_is_short(time: float, text: str) -> None:
    assert span(timedelta(seconds=time)) == text


async def test_refusal_is_a_result_and_silence_is_tried_again() -> None:
    async def outcome(error: Exception) -> Told:
        @refusals_are_results
        async def tool() -> Told:
            raise error

        return await tool()

    refused = await outcome(AgentRefused("capacity", "no place"))
    nothing = await outcome(NoSuchAgents("no agents"))
    with pytest.raises(RetryTool, match="nobody"):
        await outcome(ServerUnavailable("nobody answers"))
    with pytest.raises(ZeroDivisionError):
        await outcome(ZeroDivisionError())

    assert refused == ToolResult("no place", is_error=True, details={"code": "capacity"})
    assert nothing == ToolResult("no agents", is_error=True, details={"code": "invalid"})


class _Looking:
    """A call that looks once."""

    agents = SimpleNamespace(read_done=READ)
    wake = None

    def now(self) -> datetime:
        return NOW


def test_all_ends_that_a_call_reads_at_once_fit_into_its_result() -> None:
    ends = [ended(path=f"/root/look-{number}", text="x" * 1_024) for number in range(256)]

    result = _told(cast(Any, _Looking()), Updates(completions=tuple(ends)))

    assert len(str(result.content).encode()) <= wait_agent.result_bytes


@pytest.mark.parametrize(("number", "is_whole"), [(100, True), (512, False)])
def test_details_tell_of_the_first_ends_that_fit_and_how_many_more_there_were(number: int, is_whole: bool) -> None:
    ends = [ended(path=f"/root/look-{one}", status="unanswered", reason="lost") for one in range(number)]

    result = _told(cast(Any, _Looking()), Updates(completions=tuple(ends), more=3))
    kept = outcome_from(bound_text(str(result.content), max_bytes=wait_agent.result_bytes), details=result.details)

    assert kept.facts.diagnostics == ()
    told = kept.facts.details["updates"]
    assert [one["path"] for one in told] == [one.path for one in ends[: len(told)]] == kept.facts.details["failed"]
    assert (len(told) + kept.facts.details["more_updates"], kept.facts.details["more"]) == (number, 3)
    assert (len(told) == number) is is_whole
    assert is_whole or len(str(kept.facts.details)) > MAX_DETAILS_BYTES - 1_024
