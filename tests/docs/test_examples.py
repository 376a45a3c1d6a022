"""The examples print what they claim, each by itself, and say how they are run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from temporalio.client import Client

from tarry.embedded import EmbeddedServer
from tests.support.programs import ROOT, living_in, run

EXAMPLES = ROOT / "examples"
MOST_LINES = 100

PRINTED = {
    "01_hello.py": """\
An express parcel to the US takes 4 days.

The transcript:
user: How long does an express parcel to the US take?
assistant: calls delivery_days {"country": "US", "express": true}
tool: 4
assistant: An express parcel to the US takes 4 days.
""",
    "02_survive_kill.py": """\
worker 1 ended by signal 9
worker 2 finished the run: done
I was told: <harness>
[error] Tool open_ticket was interrupted and may have partially run. Find out what it did before repeating it.
</harness>
runs: search_logs 1, open_ticket 1
""",
    "03_three_replay_policies.py": """\
default: tickets TICKET-1; the agent says: It was interrupted.
safe:    tickets TICKET-2, TICKET-3; the agent says: Opened TICKET-3
keyed:   tickets TICKET-4; the agent says: Opened TICKET-4
""",
    "04_signals.py": """\
not_found
invalid: city: Field required; town: Extra inputs are not permitted
delivered (early: it is kept)
duplicate (Oslo stays)
accepted (no worker is up: the server keeps it)
It came through Bergen to Oslo.
receipt of what was accepted: delivered
closed (it is over)
""",
    "05_ask_a_person.py": """\
Ana is asked: Which colour?
no work for workers now; some in 4.0 h at the latest
Ana says: Blue.
Ana did not answer in time.
""",
    "06_tool_waits_for_webhook.py": """\
worker 1 ended by signal 9
worker 2 ran the call again: build-1 was asked for 2 times and is the only one
CI passed
stopped: aborted; builds: passed, cancelled
""",
    "07_tool_polls.py": """\
The export is there, after 200 looks.
days from the call's start to its end, on the server's clock: 7
continued as new: True; no history over 1,200 events: True
""",
    "08_parallel_children.py": """\
waits for ['north', 'south', 'west']
waits for ['north', 'west']
accepted without a worker
south 70 euros, north 65 euros
west: closed
""",
    "09_subagent_waits.py": """\
asked by a subagent: True
the question: Which colour?
work for workers: False - deadline: None
accepted
It shall be blue.
""",
    "10_approval_gate.py": """\
20:00 Allow shell {"command":"rm -r build"}?
23:30 yes
23:30 waits until 07:00
07:00 ran rm -r build
<harness>
[info] Approved by Ana: it can be built again (approved)
</harness>
20:00 Allow shell {"command":"rm -r .git"}?
23:30 no
23:30 <harness>
[error] Tool shell was denied by Ana and not run. Use git clean.
</harness>
""",
    "11_review_on_yield.py": """\
first: Ready!!
second: Ready!!!
third: Ready!!!!
  user: Say when you are ready.
  assistant: Ready!
  user: A reviewer found problems: not loud enough
  assistant: Ready!!
  user: Once more.
  assistant: Ready!!!
  note: A continuation gave way to an input that had come.
  user: Never mind the review.
  assistant: Ready!!!!
""",
    "12_after_tools_terminate.py": """\
done: Heard 'go on', sailing leg 2.
  user: Set sail.
  system: prompt: tools +sail
  assistant: Heard 'Set sail.', sailing leg 1.
  tool_result: leg 1 sailed
  user: go on
  assistant: Heard 'go on', sailing leg 2.
  tool_result: leg 2 sailed
""",
    "13_steer_and_follow_up.py": """\
the cat: withdrawn
house: done I heard: Paint the house. / In green, please.
green: done I heard: Paint the house. / In green, please.
fence: done I heard: Paint the house. / In green, please. / And the fence?
cat: unanswered aborted
I heard: North is green, the rest is white. / What is left?
  user: Paint the house.
  assistant: I paint north.
  tool_result: north is dry after 5 hours
  note: It rains on the south side.
  user: In green, please.
  assistant: I heard: Paint the house. / In green, please.
  user: And the fence?
  assistant: I heard: Paint the house. / In green, please. / And the fence?
  reset: North is green, the rest is white.
  user: What is left?
  assistant: I heard: North is green, the rest is white. / What is left?
""",
    "14_fork.py": """\
at the point: I have attic 40, garden 65, terrace 90.
one way: I have the attic for 40.
the other: I have the terrace for 90.
chosen: nothing, attic, terrace
a fork of a fork: I have the attic for 40.
by then, and now: terrace and attic
  0 messages shared, 3 of its own
  3 messages shared, 3 of its own
  3 messages shared, 3 of its own
  6 messages shared, 3 of its own
""",
    "15_compaction.py": """\
I read 1 messages
I read 3 messages
I read 5 messages
I read 7 messages
I read 3 messages
I read 5 messages
by hand: placed, 806 tokens have become 290
  user: page 1
  assistant: I read 1 messages.
  user: page 2
  assistant: I read 3 messages.
  user: page 3
  assistant: I read 5 messages.
  user: page 4
  assistant: I read 7 messages.
  user: page 5
  compaction: Goal: read pages. 4 of the user's inputs are in here.
  assistant: I read 3 messages.
  user: page 6
  assistant: I read 5 messages.
  compaction: What matters of 806 tokens: the pages' numbers
""",
    "16_documents.py": """\
the agent's plan: sell the sofa, pack, drive
edited again under its key: False
too late: document move.plan is at revision 2, not at 1: read it again, then edit
Done: feed the cat.
open now: pack, drive
  0 user: todo [], done []
  1 system: todo [], done []
  2 assistant: todo [], done []
  3 tool_result: todo ['sell the sofa', 'pack', 'drive'], done []
  4 note: todo ['sell the sofa', 'pack', 'drive'], done []
  5 assistant: todo ['sell the sofa', 'pack', 'drive'], done []
  6 user: todo ['feed the cat', 'pack', 'drive'], done []
  7 assistant: todo ['feed the cat', 'pack', 'drive'], done []
  8 tool_result: todo ['pack', 'drive'], done ['feed the cat']
  9 assistant: todo ['pack', 'drive'], done ['feed the cat']
""",
    "17_coding_agent.py": """\
.gitignore / prices.py / test_prices.py
prices.py:1: def total(prices):
FAILED test_prices.py::test_total_keeps_the_cents - assert 3 == 3.75 / [error] The command ended with exit code 1. \
(exit_code)
def total(prices): /     \"\"\"The sum in euros, to the cent.\"\"\" /     return int(sum(prices))
Replaced 1 piece of prices.py.
--- a/prices.py
+++ b/prices.py
@@ -1,3 +1,3 @@
 def total(prices):
     \"\"\"The sum in euros, to the cent.\"\"\"
-    return int(sum(prices))
+    return round(sum(prices), 2)
1 passed
It is mended.
""",
    "19_structured_output.py": """\
read: supplier='Nordic Paper' positions=[Position(article='A4', pieces=3)] total_cents=1200
not read: invalid_output: It is no JSON: Expecting value: line 1 column 1 (char 0).
sent back with:
  Your answer does not have the form that was asked for. At $.positions[0].pieces: 0 is less than or equal to the \
minimum of 0.
  At $.total_cents: '12 euros' is not of type 'integer'.
  Answer again, with the corrected JSON value alone.
  Your answer does not have the form that was asked for. It is no JSON: Expecting value: line 1 column 1 (char 0).
  Answer again, with the corrected JSON value alone.
""",
    "20_mcp_tools.py": """\
<harness>
[error] Invalid arguments for tool shelf_add_book, which was not run.
  arguments: copies: 'many' is not of type 'integer'; got {'title': 'Emma', 'copies': 'many'}
  Parameters: title (required), copies.
</harness>
2 of Emma
<harness>
[error] The connection to MCP server shelf was lost while the tool ran: it may have run. Find out what it did before \
repeating it. (mcp_lost)
</harness>
Emma
The heavy one
On the shelf: Emma, The heavy one
""",
    "21_background_agents.py": """\
at work: reviewer, scout
worker 1 was killed
parse() fails for an empty file. The change has no test for an empty file.
/root/reviewer idle turns=1 updates=0
/root/scout idle turns=1 updates=0
read: {'scout': 1, 'reviewer': 1}
""",
    "22_mailbox.py": """\
refused: the message has 131073 characters, 131072 are allowed: put it into a file and name that
/root/clerk idle pending=2 turns=1
a day later, under another worker:
/root/clerk ended its turn.
3 lines: one apple, two pears, three plums
/root/clerk idle pending=0 turns=2
""",
    "23_review_tree.py": """\
below the root: 20 agents
asks: /root/api > /root/api/tokens
Ana is asked: How long may tokens live?
every worker is off; the answer: accepted
16 reviews, 16 different ones; api/tokens: for an hour
""",
    "18_watch.py": """\
the first saw the tool at work: True
... and the answer grow: True
the second heard: tool_result turn_end turn_end run_end
events that watching added: 0
""",
    "24_inbox.py": """\
a preview opens the link: the question
Ana presses its button: Allowed. Kept by the server
Ben denies the other: Denied. Kept by the server
deployed 2.4
<harness>
[info] Approved by Ana: go (approved)
</harness>
<harness>
[error] Tool deploy was denied by Ben and not run. the database first
</harness>
history: Ana allowed it
history: Ben denied it
""",
}


def files() -> list[Path]:
    return sorted(EXAMPLES.glob("*.py"))


def left_in(folder: Path) -> list[str]:
    """Processes and files."""
    return living_in(folder) + [file.name for file in folder.iterdir()]


@pytest.mark.parametrize("name", PRINTED)
async def test_example_prints_what_it_claims_and_leaves_nothing(name: str, tmp_path: Path) -> None:
    ended = await run(sys.executable, str(EXAMPLES / name), cwd=tmp_path)

    assert (ended.code, ended.stdout, ended.stderr) == (0, PRINTED[name], "")
    assert left_in(tmp_path) == []


async def test_example_uses_the_server_that_is_configured(server: EmbeddedServer, tmp_path: Path) -> None:
    query = 'WorkflowType = "tarry.conversation" AND TaskQueue STARTS_WITH "stage-"'
    client = await Client.connect(server.address)
    before = (await client.count_workflows(query)).count

    ended = await run(sys.executable, str(EXAMPLES / "01_hello.py"), cwd=tmp_path, TEMPORAL_ADDRESS=server.address)

    assert (ended.code, ended.stdout) == (0, PRINTED["01_hello.py"]), ended.stderr
    assert (await client.count_workflows(query)).count == before + 1


def test_every_example_is_shown_to_run() -> None:
    assert [file.name for file in files()] == sorted(PRINTED)


def test_every_example_opens_with_its_run_line_and_is_short() -> None:
    for file in files():
        lines = file.read_text().splitlines()
        opening = [line for line in lines[:10] if line.startswith("#")]

        assert f"#     .venv/bin/python examples/{file.name}" in opening
        assert len(lines) <= MOST_LINES, file.name


def test_readme_lists_every_example() -> None:
    readme = (EXAMPLES / "README.md").read_text()

    assert [file.name for file in files() if f"({file.name})" not in readme] == []
