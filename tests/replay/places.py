"""Where work of ours can rest, in words: one line for each place in the code, and one for each kind of park.

A workflow is upgraded wherever it rests, for a moment or for months. `tests/replay/test_resting.py` holds both tables
to the code and to the kept histories.
"""

from __future__ import annotations

PLACES = {
    # conversations
    "conversation/conversation.py:Conversation._body": "an idle conversation, that waits for an input",
    "conversation/conversation.py:Conversation.run > supervise": "… for its own services and handlers",
    "conversation/conversation.py:Conversation._tell_mail": "nothing is queued that an open run is to be told of",
    "conversation/choosing.py:Choosing.serve": "no choice is behind",
    "conversation/choosing.py:Choosing._tell": "a choice is told to the run that is open",
    "conversation/choosing.py:Choosing.told": "a choice that is told elsewhere right now",
    "conversation/compactor.py:Compactor.serve": "no compaction is asked for, or one goes on beside the run",
    "conversation/ended_runs.py:serve": "no run has ended whose hooks are to be asked",
    "conversation/outbox.py:serve": "nothing is to be sent; or an item is sent, and to be acknowledged",
    "conversation/runs.py:_start": "a run that is started",
    "conversation/runs.py:_start > StopSwitch._watched": "a run that is open",
    "conversation/runs.py:_salvage": "the entries of a run that was ended by force",
    # runs
    "run/generation.py:Generation.run > supervise": "a run, for what it does and its handlers",
    "run/generation.py:Generation._request > StopSwitch._watched": "a model request",
    "run/generation.py:Generation._carry_out > StopSwitch.pause": "the pause before a request is sent again",
    "run/round.py:Round._start": "a call that is started",
    "run/round.py:Round._start > StopSwitch._watched": "a call that is open, in a tool, at a gate or parked",
    "run/round.py:Round.results": "the other calls of a round",
    "run/timelines.py:leave_behind": "calls of an earlier timeline, which are stopped after a reset",
    "run/hook_tasks.py:ask > StopSwitch._watched": "hooks that are asked",
    "run/hook_tasks.py:_start": "a task of a hook that is started",
    "run/hook_tasks.py:_start > StopSwitch._watched": "a task of a hook that is open, or parked",
    "run/hook_tasks.py:outcomes": "the other tasks of a hook",
    "run/mailing.py:Mailbox.ask": "what waits in the conversation, asked for at a boundary",
    "run/mailing.py:Mailbox.tell_steers": "no steer is to be told to calls",
    "run/mailing.py:hand_over": "what waits, handed over to the run",
    "run/mailing.py:tell_mail": "the run, told that something waits",
    "summarising.py:_ask > StopSwitch._watched": "the request for a summary",
    "summarising.py:_summarised > StopSwitch.pause": "the pause before it is sent again",
    "summarising.py:tell_large": "the conversation, told of a large context",
    # tasks: tool calls and durable tasks
    "task/tool_call.py:ToolCall._settled_with > supervise": "a call, for its handlers",
    "task/loop.py:Loop.drive > supervise": "a task, for what it does and its handlers",
    "task/loop.py:Loop._execute > StopSwitch._watched": "code of a tool or a phase that runs",
    "task/loop.py:Loop._execute > StopSwitch.pause": "the pause before another worker is asked for a tool",
    "task/loop.py:Loop._reconcile > StopSwitch._watched": "a tool that is asked whether it happened",
    "task/loop.py:Loop._body > Holder.hold": "a task that is held until somebody retries it",
    "task/loop.py:Loop._clean_up": "the cleanup of a task that was stopped",
    "task/loop.py:Loop._finished": "receipts of what came before the end",
    "task/loop.py:Loop._end_in_time": "a history that has not grown too long",
    "task/gating.py:Gating._run": "hooks that hear of a result, also after a Stop",
    "task/gating.py:Gating._run > StopSwitch._watched": "gates that are asked",
    "task/resting.py:Rest.ended": "a park, at a gate or in a tool: on signals, on tasks, or until a time",
    "task/resting.py:Rest._ring": "the deadline of a park",
    "task/judging.py:Judging.verdicts > StopSwitch._watched": "the verdict on what was delivered",
    "task/port.py:Port.serve": "nothing was delivered",
    "task/port.py:Port.deliver": "a sender that is told the verdict",
    "task/port.py:Port._late > StopSwitch._watched": "the referee, who says what came in time",
    "task/children.py:Children._start": "a nested call or task that is started",
    "task/children.py:Children._follow": "a nested call or task that is open",
    "task/children.py:Children._adopt": "one that an earlier timeline started",
    "task/children.py:Children.settle": "children that are stopped with their owner",
    "task/watching.py:watch": "a task that is no child, asked to tell of its end",
    "task/watching.py:tell": "who waits for a task, told of its end",
    "task/acknowledging.py:acknowledge": "words that are told with a result",
    # permits and trees of agents
    "agents/permits.py:Permit.serve": "nothing is to be said about a permit",
    "agents/permits.py:Permit.regain": "a permit that a run needs again",
    "agents/permits.py:Permit.hold > Holder.hold": "a model request that is held until somebody retries it",
    "agents/permits.py:Permit.look_after": "a look after the tree of a conversation that was ended by force",
    "agents/permits.py:Leave.serve": "nothing is to be said about a task that rests",
    "agents/permits.py:Leave.go_on": "the leave of a woken task to go on",
    "agents/permits.py:_tell": "a word about a permit on its way",
    "agents/tree.py:Agents.run": "a tree that is over, for its handlers; or no agent to start",
    "agents/tree.py:Agents.run > supervise": "a tree of agents, for what it does and its handlers",
    "agents/tree.py:Agents._serve": "no work of a tree is to be carried out",
    "agents/tree.py:Agents._outcome": "work of a tree that is carried out",
    # what grows, and what is looked for
    "keeping.py:seal > StopSwitch._watched": "a page that is written",
    "keeping.py:fold > StopSwitch._watched": "pages that are folded, in a run",
    "keeping.py:fold": "… in a conversation",
    "keeping.py:archive_settled": "submissions that are archived",
    "keeping.py:find_submission": "a submission that is looked for in the archive",
    "adopting.py:adopt > StopSwitch._watched": "the end of a child that an earlier timeline started",
    # the rest
    "expectation.py:Expectation._wait": "a webhook that is expected, or came before it was",
    "expectation.py:Expectation._forward": "a webhook that is handed on",
    "expectation.py:Expectation.expect": "who expects a webhook that came before",
    "registry.py:Registry._is_due": "hooks that stay as they are; or the time of the next sweep",
    "registry.py:Registry._sweep": "a sweep over the calls that wait at gates",
    "StopSwitch._cancel": "no Stop, while an activity runs",
    "StopSwitch._tell": "no Stop, while a child is open",
}
"""File and function of what waits; after ` > ` the helper through which it does."""

WRAPPERS = {
    "conversation/refusing.py:unless_refused",  # what it is given
    "expectation.py:Expectation.run",  # handlers, at the end
    "supervise.py:_with_handlers",  # what it is given, and handlers
    "supervise.py:supervise",
    "supervise.py:StopSwitch._watched",
    "supervise.py:StopSwitch.pause",
    "supervise.py:Holder.hold",
    "supervise.py:StopSwitch._cancel",
    "supervise.py:StopSwitch._tell",
}
"""Functions that wait for others: the places above name who waits through them."""

PARKS = {
    ("tarry.tool-call", "gated", "keys"): "a call at a gate, until a person or a service answers",
    ("tarry.tool-call", "gated", "keys, time"): "… or a time comes",
    ("tarry.tool-call", "gated", "time"): "a call at a gate, until a time",
    ("tarry.tool-call", "sleeping", "keys"): "a call inside its tool, on signals",
    ("tarry.tool-call", "sleeping", "keys, time"): "… or until a time",
    ("tarry.tool-call", "sleeping", "time"): "a call inside its tool, until a time",
    ("tarry.tool-call", "sleeping", "keys: tarry.steered"): "a call that hears of steers",
    ("tarry.tool-call", "sleeping", "keys: tarry.submission-settled"): "a call that waits for a submission elsewhere",
    ("tarry.tool-call", "sleeping", "keys, time: tarry.agent-update"): "wait_agent",
    ("tarry.tool-call", "sleeping", "keys, time: tarry.agent-update tarry.steered"): "wait_agent that hears of steers",
    ("tarry.tool-call", "waiting", ""): "a call that waits for its nested calls and tasks",
    ("tarry.tool-call", "held", ""): "a call that is held",
    ("tarry.durable-task", "sleeping", "keys"): "a durable task, on signals",
    ("tarry.durable-task", "sleeping", "keys, time"): "… or until a time",
    ("tarry.durable-task", "sleeping", "time"): "a durable task, until a time",
    ("tarry.durable-task", "waiting", ""): "a durable task that waits for calls and tasks",
    ("tarry.durable-task", "held", ""): "a durable task that is held",
    ("tarry.generation", "held", ""): "a model request that is held",
}
"""Type, state, and what it waits for as lists tell it; after a colon the signals of our own among the keys."""
