"""How `tarry agents` draws a tree, an agent and an event, and tells what a reload changes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from io import StringIO

from rich.console import Console

from tarry.cli.agents_picture import happened, line, mail, picture, summary
from tarry.core.ledger import Ledger
from tarry.core.live import Question
from tarry.core.messages import Usage
from tarry.core.subagents.definition import AgentDefinition, Snapshot, SubagentSettings
from tarry.core.subagents.protocol import AgentEvent, AgentList, AgentRow
from tarry.subagents.reloading import Changes

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
SPENT = Ledger().with_request("p/m", Usage(input_tokens=1_000, output_tokens=234))


def row(path: str, **fields: object) -> AgentRow:
    data = {"path": path, "agent_id": f"agent-{path[-1]}", "definition": "scout", "state": "idle", "since": NOW}
    return AgentRow.model_validate(data | fields)


def question(agent: str, text: str, for_whom: str = "") -> Question:
    return Question(
        task_id="t",
        path=("c", "t"),
        tool="ask",
        question=text,
        for_whom=for_whom,
        agent=agent,
        since=NOW,
        digest="d",
        arguments="{}",
    )


def drawn(listed: AgentList, *questions: Question) -> list[str]:
    out = StringIO()
    Console(file=out, width=1_000).print(picture(listed, "chat", questions, NOW + timedelta(seconds=90)))
    return [text.rstrip() for text in out.getvalue().splitlines()]


def listed(*paths: str, path: str = "/root") -> AgentList:
    return AgentList(root="chat", path=path, agents=tuple(row(one) for one in paths), permits=4)


def test_children_stand_below_their_parent_and_lines_lead_to_them() -> None:
    lines = drawn(listed("/root/a", "/root/a/b", "/root/a/b/c", "/root/a/d", "/root/e", "/root/e/f"))

    assert [text.partition(" scout ")[0].rstrip() for text in lines[2:]] == [
        "├─ a",
        "│  ├─ b",
        "│  │  └─ c",
        "│  └─ d",
        "└─ e",
        "   └─ f",
    ]


def test_a_part_of_a_tree_is_drawn_from_where_it_begins() -> None:
    lines = drawn(listed("/root/a/b", "/root/a/b/c", path="/root/a"))

    assert [text.split()[:2] for text in lines[1:]] == [["/root/a", "chat"], ["└─", "b"], ["└─", "c"]]


def test_an_agent_says_what_it_waits_for_and_a_question_says_whom_it_asks() -> None:
    rows = (
        row("/root/a", state="waiting", waits_for="its agents: /root/a/b", pending=2, updates=1, spent=SPENT, turns=3),
        row("/root/a/b", state="waiting", waits_for="Which colour?"),
    )
    tree = AgentList(root="chat", agents=rows, permits=4)
    lines = drawn(tree, question("/root/a/b", "Which\ncolour?", "Ana"), question("/root/a/b", "?"), question("", "Go?"))

    assert "pending=2 updates=1" in lines[2]
    assert lines[2].split()[-1] == "agent-a"
    assert " 3   1,234     ?  its agents: /root/a/b" in lines[2]
    assert "1 min 30 s" in lines[2]
    assert "asks Ana: Which colour? (and 1 more)" in lines[3]
    assert "asks: Go?" in lines[1]


def test_control_characters_of_an_agent_never_reach_the_terminal() -> None:
    shown = drawn(listed("/root/a"), question("/root/a", "red \x1b[31m?"))
    event = AgentEvent(number=1, at=NOW, kind="turn-end", path="/root/a", detail="un\x1b[2Jdone")

    assert "asks: red [31m?" in shown[2]
    assert "un[2Jdone" in happened(event, {}).plain


def test_an_event_names_its_turn_else_its_agent() -> None:
    turn = AgentEvent(number=1, at=NOW, kind="turn-start", path="/root/a", turn_id="agent-a.1")
    message = AgentEvent(number=2, at=NOW, kind="message", path="/root/a", detail="from a person")

    at = f"{NOW.astimezone():%H:%M:%S}"
    assert happened(turn, {"/root/a": "agent-a"}).plain == f"{at} turn-start       /root/a  agent-a.1"
    told = happened(message, {"/root/a": "agent-a"}).plain
    assert told == f"{at} message          /root/a  from a person  agent-a"


def test_permits_mail_and_costs_are_told_in_a_few_words() -> None:
    tree = AgentList(root="chat", permits=4, permits_used=4, queued=2, spent=SPENT)

    assert summary(tree, "background") == (
        "background · 4 of 4 permits used, 2 queued · agents spent 1,000 tokens in, 234 out, ?"
    )
    assert summary(AgentList(root="chat", permits=1), "foreground") == (
        "foreground · 0 of 1 permits used · agents spent nothing yet"
    )
    assert mail(row("/root/a", undelivered=1)) == "undelivered=1"
    waiting = row("/root/a", state="waiting", waits_for="a permit", pending=1)
    assert line(waiting, (), NOW).plain == "  /root/a (scout)  waiting, 0.0 s  pending=1  a permit"


def test_a_reload_tells_agents_and_settings_that_are_not_as_they_were() -> None:
    def agent(name: str, prompt: str = "") -> AgentDefinition:
        return AgentDefinition(name=name, description="d", prompt=prompt)

    before = Snapshot(definitions=(agent("a"), agent("b"), agent("c")))
    after = Snapshot(
        definitions=(agent("b", "other"), agent("c"), agent("d")), settings=SubagentSettings(runtime_mode="foreground")
    )

    changes = Changes.between(before, after)

    assert changes.lines == ["added: d", "removed: a", "changed: b", "runtime_mode: background → foreground"]
    assert Changes.between(after, after).lines == ["nothing has changed"]
