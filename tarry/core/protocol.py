"""Every name and payload that crosses Temporal.

Pure. Names are explicit and never derived from import paths (spec §1.3). A field added later has a
default that says what its absence means, since parked work outlives deploys.
"""

from __future__ import annotations

import hashlib
from typing import Any, Literal

from pydantic import Field, RootModel

from signals.parking import Wake
from tarry.core.agent import ForAgent
from tarry.core.compaction_view import ContextFull
from tarry.core.ledger import Ledger
from tarry.core.messages import AssistantMessage, Frozen, Usage
from tarry.core.output import OutputSchema
from tarry.core.prompt import Beside
from tarry.core.run_settings import QueueMode as QueueMode
from tarry.core.run_settings import RunSettings as RunSettings
from tarry.core.text import canonical_json
from tarry.core.thresholds import Thresholds
from tarry.core.transcript import Entry, PageRef, Position, ToolFacts
from tarry.core.writes import Write

CONVERSATION = "tarry.conversation"
GENERATION = "tarry.generation"
TOOL_CALL = "tarry.tool-call"
DURABLE_TASK = "tarry.durable-task"

MODEL_REQUEST = "tarry.model-request"
TOOL_RUN = "tarry.tool-run"
RECONCILE = "tarry.reconcile"

SUBMIT = "tarry.submit"
ABORT = "tarry.abort"
WITHDRAW = "tarry.withdraw"
RETRY = "tarry.retry"
MEMO = "tarry.memo"
ANNOUNCE = "tarry.announce"
IS_CURRENT = "tarry.is-current"
"""Query: an `AnnounceInput`; answers whether no later attempt has announced itself."""

ENTRIES = "tarry.entries"
VIEW = "tarry.view"
SUBMISSION = "tarry.submission"

# Types of the ApplicationErrors that a caller can meet.
CONFLICT = "tarry.conflict"
BUSY = "tarry.busy"
INBOX_FULL = "tarry.inbox-full"
INVALID = "tarry.invalid"
DUPLICATE = "tarry.duplicate"
STALE = "tarry.stale"
TASK_FULL = "tarry.task-full"
NOT_HELD = "tarry.not-held"
DOCUMENT_CONFLICT = "tarry.document-conflict"
WORKER_SHUTDOWN = "WorkerShutdown"
GIVEN_BACK = "tarry.given-back"
PAUSED = "tarry.paused"
RETRY_TOOL = "tarry.retry-tool"

OWNER_MEMO = "tarry.owner"
"""The memo by which a conversation names the task that owns it."""

MAX_REQUEST_ID = 200
"""Characters."""

SLICE_BYTES = 1024 * 1024
"""The largest slice of entries a query answers with."""


def digest(text: str) -> str:
    """32 hex digits that stand for `text`."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


WhenBusy = Literal["steer", "follow_up", "reject"]
"""What becomes of an input while a run is open: placed between two of its turns, answered after it, or refused."""


class Notify(Frozen):
    """Whom to tell how a submission ended: a key of the signal `tarry.submission-settled` of a task."""

    task_id: str
    key: str


class SubmitInput(Frozen):
    """One input to a conversation, or one raw entry."""

    content: str
    request_id: str = Field(
        default="", max_length=MAX_REQUEST_ID, description="names the submission for ever; empty: a new one is drawn"
    )
    when_busy: WhenBusy = "follow_up"
    settings: RunSettings = RunSettings()
    notify: Notify | None = Field(default=None, description="whom to tell how it ended (spec §7.2)")
    write: Write | None = Field(default=None, description="it is no input, but a raw entry with this text (spec §6.6)")
    is_new: bool = Field(
        default=False, description="its request id was drawn for it alone: no archive is searched for an earlier one"
    )
    trace: str = Field(default="", description="that it was submitted in, as a traceparent; empty: none (spec §24.2)")

    @property
    def digest(self) -> str:
        """Stands for what is submitted: the same request id names only this."""
        if self.write is None:
            return digest(self.content)
        return digest(canonical_json([self.write.model_dump(mode="json"), self.content]))


SubmissionStatus = Literal["queued", "placed", "done", "unanswered"]
UnansweredReason = Literal[
    "",
    "aborted",
    "no_model",
    "model_error",
    "empty_answer",
    "cut_off",
    "max_turns",
    "invalid_output",
    "refused",
    "lost",
    "reset",
    "stale",
]


class SubmissionView(Frozen):
    """What became of a submission. `generation_id` is the run that answers it, once placed."""

    request_id: str
    status: SubmissionStatus
    content: str = Field(default="", description="digest of what was submitted; empty: not told")
    generation_id: str = ""
    entry: int | None = None
    answer: int | None = None
    answer_text: str | None = None
    reason: UnansweredReason = ""
    detail: str = ""


Withdrawal = Literal["withdrawn", "already_placed", "settled", "not_found"]
"""What became of a wish to take a submission back: it was still queued, or why not."""


class SubmissionLookup(Frozen):
    """A submission; or None, and the archives in which it may be, newest first.

    `pending`: it has come in, and whether its request id is a known one is still being looked up.
    """

    submission: SubmissionView | None
    archive: tuple[str, ...] = ()
    pending: bool = False


class EntriesQuery(Frozen):
    """Ask for the newest entries before `upto`, at most `max_bytes` of them."""

    upto: Position
    max_bytes: int = SLICE_BYTES


RunStatus = Literal["done", "unanswered"]


class RunResult(Frozen):
    """What a generation returns, once: how it ended and the entries of its run (spec §6.2)."""

    status: RunStatus
    reason: UnansweredReason = ""
    detail: str = ""
    pages: tuple[PageRef, ...] = ()
    entries: tuple[Entry, ...] = ()
    usage: Usage = Usage()
    placed: tuple[str, ...] = Field(default=(), description="request ids of the steers that it placed")
    spent: Ledger = Ledger()
    places: dict[str, int] = Field(default={}, description="of steers and writes: the entry, or -1 for a stale write")
    after_run: bool = Field(default=False, description="whether hooks are to be told of its end")
    answer: int | None = Field(default=None, description="index of the answer; None: the last entry")
    taken_up: dict[int, int] = Field(
        default_factory=dict, description="at which entries it was told of new choices, by their number"
    )
    is_large: bool = Field(default=False, description="the context has grown so large that compaction is due")


class ModelRequestInput(ForAgent):
    """Ids and a cutoff, never entries: history grows linearly with the conversation (spec §6.1)."""

    conversation_id: str
    generation_id: str
    run_start: Position
    cutoff: Position
    turn: int
    idle_timeout: float
    heartbeat_timeout: float
    context_start: Position | None = Field(default=None, description="entries before it are no context; None: all are")
    sizes: Thresholds | None = Field(default=None, description="beyond which it is not sent; None: it is")
    output: OutputSchema | None = Field(default=None, description="what the answer must be; None: text")
    tree: str = Field(default="", description="that the conversation is a subagent of; empty: a root")
    first_run_id: str = Field(default="", description="of the workflow before any reset; empty: not told")


class CallError(Frozen):
    """Why a call is answered without being run."""

    code: Literal["tool_unavailable", "invalid_arguments", "cut_off", "too_many_calls"]
    text: str


class ResolvedCall(Frozen):
    """A call together with what the registry said of it when the model asked (spec §1.4)."""

    call_id: str
    tool: str
    arguments: dict[str, Any] = Field(default_factory=dict)
    error: CallError | None = None
    replay: Literal["unsafe", "safe"] = "unsafe"
    sequential: bool = False
    reconciles: bool = False
    cancels: Literal["never", "parked", "always"] = Field(
        default="never", description="when its cancel hook runs after a Stop: once it has parked, or whatever it did"
    )
    gated: Literal["", "quick", "io"] = Field(default="", description="which hooks are asked before it runs")
    heard: Literal["", "quick", "io"] = Field(default="", description="which hooks hear of its result")
    timeout: float = 3600.0
    hears_steers: bool = Field(default=False, description="whether it is told that a steer is queued")
    shown: dict[str, Any] | None = Field(
        default=None, description="the arguments as lists and summaries show them; None: as they are (spec §20.4)"
    )
    worker: str = Field(default="", description="that runs its code; empty: the default one (spec §25.1)")


class ModelTurn(Beside):
    """A response, with its calls resolved."""

    kind: Literal["turn"] = "turn"
    message: AssistantMessage
    calls: tuple[ResolvedCall, ...] = ()
    usage: Usage = Usage()
    model: str = ""
    invalid: str = Field(default="", description="what is wrong with it as the output that was asked for")
    after_tools: Literal["", "quick", "io"] = ""
    on_yield: Literal["", "quick", "io"] = ""
    timeline: str = Field(default="", description="of the run, which a reset began; empty: none did")
    is_large: bool = Field(default=False, description="the context has grown so large that compaction is due")
    after_run: bool = False


class ModelFailure(Beside):
    """No response. `retry_after` is in seconds from the failure."""

    kind: Literal["failure"] = "failure"
    error: Literal["retryable", "permanent", "overflow", "aborted", "no_model"]
    text: str
    retry_after: float | None = None
    partial: str = ""
    model: str = ""
    after_run: bool = False
    usage: Usage | None = Field(default=None, description="as far as the provider told")
    timeline: str = Field(default="", description="of the run, which a reset began; empty: none did")


class ModelAnswer(RootModel[ModelTurn | ModelFailure | ContextFull]):
    """What a model request brought; on the wire it is the turn, the failure, or why nothing was sent, itself."""


class ToolRunInput(ForAgent):
    """The intent: what is about to run, in history before it runs (spec §4.1).

    `run` is the number of the first run of this scheduling; with Temporal's attempt it fences off zombies (spec §4.6).
    """

    conversation_id: str
    task_id: str
    call: ResolvedCall
    run: int
    idempotency_key: str
    heartbeat_timeout: float
    published: str = Field(default="", description="by runs of an earlier scheduling that were cut off")
    first_run: int = Field(default=1, description="the number of the first run of this intent")
    wake: Wake | None = Field(default=None, description="why it runs again; None: it has not parked")
    checkpoint: Any = None
    nested: bool = False
    first_run_id: str = Field(
        default="",
        description="of the call's first workflow run; another run's intent is a rerun after a reset. Empty: not told",
    )
    tree: str = Field(default="", description="that its conversation is a subagent of; empty: a root")


OutcomeCode = Literal[
    "",
    "tool_error",
    "tool_unavailable",
    "invalid_arguments",
    "cut_off",
    "too_many_calls",
    "interrupted",
    "aborted",
    "timeout",
    "unencodable_result",
    "invalid_park",
    "too_long",
    "blocked",
    "denied",
    "expired",
    "invalid_structured_output",
    "not_here",
    "lost",
]


class PlainSignal(Frozen):
    """A signal to another workflow, which knows a repeat for one."""

    workflow_id: str
    name: str
    value: Any = None


class ToolOutcome(Frozen):
    """How a call ended; `text` is what the model reads. An empty `code` is a plain result."""

    text: str
    is_error: bool = False
    code: OutcomeCode = ""
    facts: ToolFacts = ToolFacts()
    structured: Any = Field(default=None, description="what a calling task reads; never sent to a model")
    handoff: str | None = Field(default=None, description="ends the run, and begins the context of the next one")
    usage: Usage | None = Field(default=None, description="that its code reported in this run")
    acks: tuple[PlainSignal, ...] = Field(default=(), description="sent by its call once it is in history")
    worker: str | None = Field(default=None, description="of what is not here: where it is now; None: not known")

    @property
    def ending(self) -> str:
        """How it ended, in one word."""
        return self.code or ("tool_error" if self.is_error else "ok")


class Reconciliation(Frozen):
    """What a tool's reconcile hook knows; None: nothing."""

    outcome: ToolOutcome | None = None


class Progress(Frozen):
    """Heartbeat details of a running tool or model request: what it published so far.

    Of a long text the tail; `offset` is how many characters came before it.
    """

    text: str = ""
    offset: int = 0
    usage: Usage | None = Field(default=None, description="that its code reported so far")


class MemoInput(Frozen):
    """A memo of one run of a tool: first writer wins."""

    key: str
    value: Any
    run: int
    attempt: int


class AnnounceInput(Frozen):
    """A rerun tells its call that earlier attempts are stale."""

    run: int
    attempt: int
