"""Approvals: one answer for one call and one set of arguments; denied, expired and aborted are told apart (spec §5)."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from signals.parking import Ask, Sleep
from tarry.app import App, Extension
from tarry.core.gates import arguments_digest
from tarry.core.waiting import PARKED_MEMO, ParkedNote
from tarry.embedded import EmbeddedServer
from tarry.gates import DECISION, Question, approvals
from tarry.hooks import Block, Gate, HookApi, HookCall, Replace
from tarry.models import ModelRequest
from tarry.testing import ScriptedModel, Step, call, calls, say
from tarry.tools import tool
from tests.support.answers import answer_to, ask
from tests.support.gating import Gated, Heard, Ledger, gate, gated_app, start_gated
from tests.support.parking import ANSWER, YES
from tests.support.stage import Stage, idle_stage, stage
from tests.support.waiting import eventually

HOUR = timedelta(hours=1)


def always(call: HookCall) -> bool:
    return True


def edits(call: HookCall) -> bool:
    return call.tool == "edit"


def conversing(model: ScriptedModel, ledger: Ledger, *gates: Extension) -> App:
    """An application of `edit`, with gates."""
    return App(model=model, extensions=[Extension("test", [ledger.edit], [ANSWER]), *gates])


async def asked(on: Stage, conversation_id: str, count: int) -> list[Gated]:
    """The calls of a conversation that are parked before their intent, in call order, once there are so many."""

    async def found() -> list[str]:
        query = f'TarryConversation = "{conversation_id}" AND TarryState = "gated"'
        return sorted([one.id async for one in on.client.list_workflows(query)])

    ids = await eventually(found, lambda ids: len(ids) == count)
    return [Gated(on.client, id, DECISION.name) for id in ids]


async def test_the_question_shows_what_will_run(server: EmbeddedServer, tmp_path: Path) -> None:
    def absolute(call: HookCall, api: HookApi) -> Gate:
        path = call.arguments["path"]
        return Replace({"path": f"/home/{path}"}) if not path.startswith("/") else None

    ledger = Ledger()
    async with stage(server, gated_app(ledger.edit, gate(absolute), approvals(always)), tmp_path) as on:
        waiting = await start_gated(on, "edit", path="a.txt")
        view = await waiting.asks()
        described = await waiting.handle.describe()
        note = await described.memo_value(PARKED_MEMO, type_hint=ParkedNote)
        assert await waiting.decide(allow=True) == "delivered"
        outcome = await waiting.ends()

    runs = {"path": "/home/a.txt", "mode": "w"}
    assert ledger.runs == [runs] == [view.arguments]
    assert {view.keys[0].key, note.digest} == {arguments_digest("edit", runs)}
    assert view.ask == Ask(text='Allow edit {"mode":"w","path":"/home/a.txt"}?')
    assert outcome.text == "edited /home/a.txt\n<harness>\n[info] Approved by ana. (approved)\n</harness>"


async def test_silence_is_no_denial(server: EmbeddedServer, tmp_path: Path) -> None:
    ledger, heard = Ledger(), Heard()
    app = gated_app(ledger.edit, approvals(always, deadline=timedelta(seconds=8)), gate(after=heard))
    async with stage(server, app, tmp_path) as on:
        silent = await start_gated(on, "edit", path="a.txt")
        denied = await start_gated(on, "edit", path="b.txt")
        assert await denied.decide(allow=False, by="ben", reason="use the staging host") == "delivered"
        refused, expired = await denied.ends(), await silent.ends()

    assert (expired.code, "nobody approved it in time" in expired.text) == ("expired", True)
    assert refused.text == (
        "<harness>\n[error] Tool edit was denied by ben and not run. use the staging host\n</harness>"
    )
    assert (refused.code, refused.is_error, ledger.runs) == ("denied", True, [])
    assert (sorted(heard.codes), heard.ran) == (["denied", "expired"], [False, False])


async def test_the_reason_of_a_denial_outlives_a_restart(server: EmbeddedServer, tmp_path: Path) -> None:
    app = gated_app(Ledger().edit, approvals(always))
    async with idle_stage(server, app, tmp_path) as on:
        async with on.worker():
            denied = await start_gated(on, "edit", path="a.txt")
            view = await denied.asks()
        await denied.signal(view.keys[0].key, {"allow": False, "by": "ana", "reason": "use the staging host"})
        async with on.worker():
            outcome = await denied.ends()

    assert (outcome.code, "denied by ana and not run. use the staging host" in outcome.text) == ("denied", True)


async def test_an_approval_is_for_one_call_and_its_arguments(server: EmbeddedServer, tmp_path: Path) -> None:
    ledger = Ledger()
    steps: list[Step] = [
        calls(call("edit", path="a.txt"), call("edit", path="/etc/shadow")),
        call("edit", path="a.txt"),
        say("done"),
    ]
    async with stage(server, conversing(ScriptedModel(steps), ledger, approvals(edits)), tmp_path) as on:
        conversation = on.harness.conversation()
        submission = await conversation.submit("go")
        first, shadow = await asked(on, conversation.id, 2)
        key = (await first.asks()).keys[0].key
        assert await shadow.decide(allow=True, key=key) == "delivered", "kept, and answers nothing"
        assert await first.decide(allow=True) == "delivered"
        await first.ends()
        assert (await shadow.view()).state == "gated"
        await shadow.decide(allow=False)
        (again,) = await asked(on, conversation.id, 1)
        assert again.id not in (first.id, shadow.id)
        assert (await again.view()).keys[0].key == key
        await again.decide(allow=False)
        answer = await answer_to(conversation, submission)

    assert answer.codes == ["", "denied", "denied"]
    assert ledger.runs == [{"path": "a.txt", "mode": "w"}]


async def test_a_standing_rule_is_given_explicitly_and_named_in_the_result(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    def scratch(call: HookCall) -> str:
        return "scratch files" if call.arguments["path"].startswith("/tmp/") else ""

    ledger = Ledger()
    async with stage(server, gated_app(ledger.edit, approvals(always, standing=scratch)), tmp_path) as on:
        outcome = await (await start_gated(on, "edit", path="/tmp/x")).ends()
        other = await start_gated(on, "edit", path="/etc/x")
        await other.asks()

    assert "[info] Allowed by the standing rule scratch files. (approved)" in outcome.facts.diagnostics
    assert [run["path"] for run in ledger.runs] == ["/tmp/x"]


async def test_parallel_answers_reach_their_own_calls_over_a_restart(server: EmbeddedServer, tmp_path: Path) -> None:
    ledger = Ledger()
    steps = [calls(*(call("edit", path=path) for path in "ABC")), say("done")]
    async with idle_stage(server, conversing(ScriptedModel(steps), ledger, approvals(edits)), tmp_path) as on:
        conversation = on.harness.conversation()
        async with on.worker():
            submission = await conversation.submit("go")
            a, b, c = await asked(on, conversation.id, 3)
            await c.decide(allow=True)
            await c.ends()
        async with on.worker():
            await a.decide(allow=False)
            await b.decide(allow=True)
            answer = await answer_to(conversation, submission)

    assert answer.codes == ["denied", "", ""]
    assert [text.partition("\n")[0] for text in answer.texts[1:]] == ["edited B", "edited C"]
    assert [run["path"] for run in ledger.runs] == ["C", "B"]


async def test_results_of_ungated_siblings_wait_for_the_answer_too(server: EmbeddedServer, tmp_path: Path) -> None:
    listed: list[str] = []
    requests: list[ModelRequest] = []

    @tool
    def list_records() -> str:
        """List records."""
        listed.append("listed")
        return "r1, r2"

    ledger = Ledger()
    steps = [calls(call("edit", path="a.txt"), call("list_records")), say("both are known")]
    model = ScriptedModel(steps, on_request=requests.append)
    app = App(model=model, extensions=[Extension("test", [ledger.edit, list_records], [ANSWER]), approvals(edits)])
    async with idle_stage(server, app, tmp_path) as on:
        conversation = on.harness.conversation()
        async with on.worker():
            submission = await conversation.submit("go")
            (waiting,) = await asked(on, conversation.id, 1)
            await eventually(lambda: asyncio.sleep(0, listed))
        async with on.worker():
            await waiting.decide(allow=True)
            answer = await answer_to(conversation, submission)

    assert (answer.codes, answer.text) == (["", ""], "both are known")
    assert (len(ledger.runs), listed) == (1, ["listed"])
    results = [message for message in requests[-1].messages if message.role == "tool"]
    assert [result.text.partition("\n")[0] for result in results] == ["edited a.txt", "r1, r2"]


@pytest.mark.parametrize("first", ["the Stop", "the answer"])
async def test_an_answer_after_a_stop_is_closed_and_receipt_and_outcome_agree(
    server: EmbeddedServer, tmp_path: Path, first: str
) -> None:
    ledger = Ledger()
    app = gated_app(ledger.edit, approvals(always))
    async with idle_stage(server, app, tmp_path) as on:
        async with on.worker():
            stopped = await start_gated(on, "edit", path="a.txt")
            key = (await stopped.asks()).keys[0].key
        allow = {"allow": True}
        if first == "the answer":
            await stopped.signal(key, allow, delivery_id="d1")
        await stopped.handle.cancel()
        if first == "the Stop":
            await stopped.signal(key, allow, delivery_id="d1")
        async with on.worker():
            outcome = await stopped.ends()
            receipts = await stopped.receipts()
            later = await on.harness.signal(stopped.id, DECISION.name, key, allow)

    assert (outcome.code, ledger.runs) == ("aborted", [])
    assert "was aborted on request while it was waiting" in outcome.text
    assert [(receipt.delivery_id, receipt.answer) for receipt in receipts] == [("d1", "closed")]
    assert later.answer == "closed"


async def test_asking_again_never_notifies_again(server: EmbeddedServer, tmp_path: Path) -> None:
    passes: list[str] = []
    told: list[Question] = []

    def counts(call: HookCall, api: HookApi) -> Gate:
        passes.append(call.digest)
        return None

    async def notify(call: HookCall, question: Question) -> None:
        told.append(question)

    ledger = Ledger()
    app = gated_app(ledger.edit, gate(counts), approvals(always, notify=notify))
    async with idle_stage(server, app, tmp_path) as on:
        async with on.worker():
            waiting = await start_gated(on, "edit", path="a.txt")
            await waiting.reasked("deploy 1")
        async with on.worker():
            await waiting.reasked("deploy 2")
            await waiting.reasked("deploy 3")
            await waiting.decide(allow=True)
            await waiting.ends()

    assert (len(passes), len(ledger.runs)) == (5, 1)
    assert [(question.task_id, question.key) for question in told] == [(waiting.id, passes[0])]


async def test_a_denied_call_that_is_made_again_and_again_ends_with_the_run(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    ledger = Ledger()
    model = ScriptedModel.for_each_input([call("edit", path="a.txt")] * 10)
    app = conversing(model, ledger, approvals(edits, unattended=True))
    async with stage(server, app, tmp_path, max_turns=4) as on:
        answer = await ask(on.harness.conversation())

    assert answer.end == "unanswered max_turns"
    assert (set(answer.codes), ledger.runs) == ({"denied"}, [])
    assert "denied by policy and not run. Nobody is there to approve it." in answer.texts[0]
    assert answer.detail != ""


WRONG: dict[str, Any] = {
    "too wide": {"allow": True, "tools": ["*"]},
    "another type": {"allow": "true"},
    "nothing": {},
    "no object": True,
}


@pytest.mark.parametrize("name", WRONG)
async def test_an_answer_that_does_not_fit_opens_nothing(server: EmbeddedServer, tmp_path: Path, name: str) -> None:
    async with stage(server, gated_app(Ledger().edit, approvals(always)), tmp_path) as on:
        waiting = await start_gated(on, "edit", path="a.txt")
        key = (await waiting.asks()).keys[0].key
        wrong = await waiting.update(key, WRONG[name])

        assert (wrong.answer, (await waiting.view()).state) == ("invalid", "gated")
        assert await waiting.decide(allow=False) == "delivered"
        assert (await waiting.ends()).code == "denied"


async def test_a_second_answer_changes_nothing(server: EmbeddedServer, tmp_path: Path) -> None:
    ledger = Ledger()
    later = gate(lambda call, api: None if api.read_signal_sync(ANSWER, "on") else Sleep(signals=[ANSWER.key("on")]))
    async with stage(server, gated_app(ledger.edit, approvals(always), later), tmp_path) as on:
        waiting = await start_gated(on, "edit", path="a.txt")
        key = (await waiting.asks()).keys[0].key
        await waiting.decide(allow=True)
        await waiting.waits_for(ANSWER.key("on"))
        second = await waiting.update(key, {"allow": False})
        await waiting.update("on", YES, signal=ANSWER.name)
        outcome = await waiting.ends()

    assert (second.answer, outcome.code, len(ledger.runs)) == ("duplicate", "", 1)


async def test_arguments_that_changed_since_are_another_question(server: EmbeddedServer, tmp_path: Path) -> None:
    ledger = Ledger()
    where = ["/old/a.txt"]
    moves = gate(lambda call, api: Replace({"path": where[0]}))
    async with stage(server, gated_app(ledger.edit, moves, approvals(always)), tmp_path) as on:
        waiting = await start_gated(on, "edit", path="a.txt")
        stale = (await waiting.asks()).keys[0]
        where[0] = "/new/a.txt"
        await waiting.decide(allow=True, key=stale.key)
        view = await waiting.asks(lambda view: stale not in view.keys)
        assert (view.arguments["path"], ledger.runs) == ("/new/a.txt", [])
        await waiting.decide(allow=True, key=view.keys[0].key)
        await waiting.ends()

    assert ledger.runs == [{"path": "/new/a.txt", "mode": "w"}]


async def test_a_policy_that_changed_its_mind_blocks_what_was_approved(server: EmbeddedServer, tmp_path: Path) -> None:
    ledger = Ledger()
    frozen: list[str] = []
    policy = gate(lambda call, api: Block(frozen[0]) if frozen else None, name="policy")
    async with stage(server, gated_app(ledger.edit, policy, approvals(always)), tmp_path) as on:
        waiting = await start_gated(on, "edit", path="a.txt")
        await waiting.asks()
        frozen.append("the account is frozen")
        await waiting.decide(allow=True)
        outcome = await waiting.ends()

    assert (outcome.code, "the account is frozen" in outcome.text, ledger.runs) == ("blocked", True, [])
