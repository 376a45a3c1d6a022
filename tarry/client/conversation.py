"""A conversation as its users see it: submit, read, stop. The handle holds nothing but ids."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar, Unpack

from pydantic import BaseModel
from temporalio.client import (
    Client,
)
from temporalio.service import RPCError, RPCStatusCode

from tarry.api.conversing import Send, Start
from tarry.asking import ask
from tarry.client.checks import checked_change, checked_content, checked_id, with_output
from tarry.client.commits import Sender, commit_with
from tarry.client.compactions import Compaction, ask_for_compaction
from tarry.client.conversation_documents import ConversationDocument
from tarry.client.documents import DocumentReader, StoredDocument, inline
from tarry.client.errors import InputTooLarge, NoSuchConversation, reaching_server
from tarry.client.forking import Forking
from tarry.client.sending import Road
from tarry.client.submission import Data, Submission
from tarry.client.watched import Watched
from tarry.client.withdrawing import Withdrawn, withdraw
from tarry.connect import sending_inline
from tarry.core.agent import Agent, AgentFields
from tarry.core.choices import CONFIGURE
from tarry.core.compaction_protocol import MAX_INSTRUCTIONS, CompactInput
from tarry.core.forks import Origin
from tarry.core.ledger import Ledger
from tarry.core.protocol import ABORT, SUBMIT, VIEW, Notify, SubmissionView, SubmitInput, WhenBusy
from tarry.core.text import clean_text
from tarry.core.transcript import Entry, Position
from tarry.core.views import ConversationView, GenerationView
from tarry.core.writes import Write, WriteKind
from tarry.documents import Document, Edit
from tarry.entries import EntryReader
from tarry.settings import Settings

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)


class Conversation(Watched):
    """A handle on one conversation; make it with `Harness.conversation`."""

    def __init__(
        self,
        client: Client,
        settings: Settings,
        reader: EntryReader,
        conversation_id: str,
        agent: Agent | None = None,
    ) -> None:
        super().__init__(client, reader, conversation_id)
        # An input in a store that the workers do not share would wedge the conversation.
        self._sender = sending_inline(client)
        self._road = Road(self._sender, conversation_id, settings.task_queue, agent or Agent())
        self._settings = settings

    @reaching_server()
    async def submit(
        self,
        content: str,
        *,
        request_id: str | None = None,
        when_busy: WhenBusy = "follow_up",
        notify: Notify | None = None,
        output: type[Data] | None = None,
    ) -> Submission[Data]:
        """Admit an input durably and start the conversation if it is new; also when no worker is up.

        A known `request_id` gives the first submission back and runs nothing (spec §7.1). `notify` names a key of a
        task that is delivered `SUBMISSION_SETTLED` when the submission ends, in the same commit (spec §7.2). `output`
        is what the answer must be: `wait` gives it as that (spec §7.10).

        Raises:
            RequestConflict: the request id was used for other content.
            ConversationBusy: `when_busy` is `reject` and a run is open or queued.
            InboxFull: too much is queued.
            InputTooLarge: it has over 512 KiB, or over 1.25 MiB as JSON.
            ServerUnavailable: no server answers. The input may be admitted: send it again under the same request id.
            ValueError: the request id has over 200 characters, or the output no schema of at most 16 KiB.
        """
        return await self._admit(
            SubmitInput(
                content=checked_content(content),
                request_id=request_id or uuid.uuid4().hex,
                is_new=not request_id,
                when_busy=when_busy,
                settings=with_output(self._settings.run_settings(), output, when_busy),
                notify=notify,
            ),
            output,
        )

    @reaching_server()
    async def write(
        self,
        text: str,
        *,
        kind: WriteKind = "note",
        head: Position | None = None,
        request_id: str | None = None,
        notify: Notify | None = None,
    ) -> Submission:
        """Put a raw entry into the transcript, durably; no run starts for it (spec §6.6). Also when no worker is up.

        Placed at once when the conversation is idle, else at the next turn boundary, ahead of the inputs that wait. It
        ends as `done` with its entry, when a run placed it then with that run; or as `unanswered`: `stale`.

        Args:
            text: what it says.
            kind: `note`: for people alone. `user`: the next model request reads it. `reset`: nothing before it is
                context any more, `text` is, unless empty. `compaction`: `text` stands for what comes before `head`.
            head: of a compaction: the place from which on entries are still context. Stale when a newer head marker
                names a later one by then.
            request_id, notify: as for `submit`.

        Raises:
            RequestConflict, InboxFull, InputTooLarge, ServerUnavailable, ValueError: as `submit`; a compaction without
                `head`, or another kind with it, is a ValueError, too.
        """
        written = Write(kind=kind, head=head)
        content = checked_content(text)
        name = request_id or uuid.uuid4().hex
        return await self._admit(
            SubmitInput(content=content, request_id=name, is_new=not request_id, write=written, notify=notify)
        )

    async def reset(self, handoff: str | None = None, *, request_id: str | None = None) -> Submission:
        """Begin anew: the model reads nothing of what came before, only `handoff`, if given. The transcript stays.

        A run that is open ends as `unanswered`: `reset` after its current round of tools; its answer, if that comes
        first, counts. Inputs that wait are answered after the reset. Raises as `write`.
        """
        return await self.write(handoff or "", kind="reset", request_id=request_id)

    async def _admit(self, input: SubmitInput, output: type[Data] | None = None) -> Submission[Data]:
        view = await self._road.send(SUBMIT, input, SubmissionView)
        return Submission(self._client, self._reader, self.id, input.request_id, view, input.digest, output)

    @reaching_server()
    async def configure(self, **change: Unpack[AgentFields]) -> Agent | None:
        """Choose anew, durably; also when no worker is up, and before the first input (spec §7.6).

        What is given replaces the whole choice, None takes it back, what is not given stays. No run begins and no entry
        is made. A run that is open goes by it from its next request on; what is under way is not touched. Names are
        not checked: one that nothing answers to is skipped, and counts once it is installed. Returns all choices as
        they are then; None when no worker answered and the server keeps the change. Never choose a secret: choices
        stand in history.

        Raises:
            ValueError: a choice is not one.
            ServerUnavailable: no server answers. The change may have been taken: make it again.
        """
        return await self._road.send(CONFIGURE, checked_change(change), Agent)

    @reaching_server()
    async def agent(self) -> Agent:
        """What was chosen; None where it goes by the application. Needs a worker.

        `App.resolved` says what that comes to.

        Raises:
            NoSuchConversation: nothing with that id.
            ServerUnavailable: no server answers, or no worker.
        """
        return (await self.view()).agent

    @reaching_server()
    async def start(self, *, owner: str, tree: str = "") -> None:
        """Start it without an input, owned by the task `owner`; one that is there already stays as it is.

        `tree`: the id of the workflow whose subagent it is (spec §17.10).
        """
        await replace(self._road, tree=tree).start(owner=owner)

    @reaching_server()
    async def fork(
        self,
        at: int | None = None,
        *,
        conversation_id: str | None = None,
        agent: Agent | None = None,
        owner: str = "",
        tree: str = "",
    ) -> Conversation:
        """A new conversation that begins with the entries of this one through entry `at`, counted from 0 (spec §16).

        Any entry will do, one of a run or a turn that is open, too; by default the newest. Both go on independently.
        The fork shares what is stored. It has the documents, each by its policy, the choices and the prompt as of that
        entry, without `at` as they are now; inbox, usage, tasks and request ids are its own. Needs a worker. The same
        fork under the same id again is the one that is there.

        Args:
            at: the last entry that the fork has.
            conversation_id: of the fork; by default a new one.
            agent: choices instead of this conversation's.
            owner: a task that the fork belongs to, and to its session; without one it is a root.
            tree: the id of the workflow whose subagent the fork is (spec §17.10).

        Raises:
            NoSuchConversation: nothing with that id.
            NoSuchEntry: the transcript does not have it, or nothing at all yet.
            ConversationExists: the id is that of another conversation; nothing was forked.
            ValueError: the id for the fork is none.
            ServerUnavailable: no server answers, or no worker. The fork may be there: make it again under the same id.
        """
        origin = Origin(self.id, at, agent, owner)
        fork = Conversation(self._client, self._settings, self._reader, checked_id(conversation_id))
        await Forking(self._client, self._reader, origin).start(replace(fork._road, tree=tree))
        return fork

    def document(self, document: Document[T]) -> ConversationDocument[T]:
        """A document of this conversation, or of its session (spec §7.7)."""
        return ConversationDocument(DocumentReader(self._client), self.id, document)

    async def documents(self, *, as_of: int | None = None) -> list[StoredDocument]:
        """The documents as they are stored, those of the session among them, by id. Needs a worker, but no declaration.

        With `as_of`, the number of an entry, those that can be rewound, as they were at the end of its commit.

        Raises:
            NoSuchConversation: nothing with that id.
            ServerUnavailable: no server answers, or no worker.
        """
        return await DocumentReader(self._client).all(self.id, as_of)

    @reaching_server()
    async def commit(
        self,
        *,
        key: str | None = None,
        notes: Sequence[str] = (),
        inputs: Sequence[str] = (),
        signals: Sequence[Send[Any]] = (),
        tasks: Sequence[Start[Any]] = (),
        edits: Sequence[Edit[Any]] = (),
    ) -> bool:
        """Change the conversation, all of it or nothing, durably when it returns; as `ToolApi.commit`, also in errors.

        Needs a worker. The `key` names the commit among those of programs; without one it is a new one each time.
        """
        nonce = (await self._query(VIEW, ConversationView)).nonce if tasks else ""
        sender = Sender(self._settings, self.id, "client", f"{self.id}~{nonce}")
        commit = sender.compose(key, notes, inputs, signals, tasks)
        return await commit_with(DocumentReader(self._client), self.id, commit, edits, inline)

    async def withdraw(self, request_id: str) -> Withdrawn:
        """Take back a submission that is still queued; it then ends as `unanswered`: `aborted` (spec §7.1).

        `already_placed`: a run answers it, or places it at its boundary, and `abort` stops that; or a Stop overtook it,
        and it will stand behind the run (spec §7.4). `settled`: it has ended.
        `accepted`: no worker answered, and the wish waits with the server for one.

        Raises:
            NoSuchConversation: nothing with that id.
            ServerUnavailable: no server answers.
        """
        return await withdraw(self._client, self.id, request_id)

    def submission(self, request_id: str, output: type[Data] | None = None) -> Submission[Data]:
        """A handle on an earlier submission, whose answer is read as `output`."""
        return Submission(self._client, self._reader, self.id, request_id, output=output)

    async def _query(self, name: str, as_type: type[M]) -> M:
        try:
            return await ask(self._client, self.id, name, as_type)
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                raise NoSuchConversation(f"there is no conversation {self.id}") from error
            raise

    @reaching_server()
    async def usage(self) -> Ledger:
        """What it has spent so far, by model and tool, its open run included (spec §7.10). Needs a worker.

        Conversations that its tasks own have ledgers of their own.

        Raises:
            NoSuchConversation: nothing with that id.
            ServerUnavailable: no server answers, or no worker.
        """
        view = await self.view()
        run = await self._open_run(view.open_generation) if view.open_generation else None
        return view.spent + (run.spent if run else Ledger())

    @reaching_server()
    async def transcript(self) -> list[Entry]:
        """Every entry, oldest first, those of the open run included. Needs a worker.

        Raises:
            NoSuchConversation: nothing with that id.
            ServerUnavailable: no server answers, or no worker.
        """
        view = await self._query(VIEW, ConversationView)
        entries = await self._reader.read(self.id, Position(), view.end)
        if view.open_generation is not None:
            entries += await self._open_entries(view.open_generation)
        return entries

    async def _open_entries(self, generation_id: str) -> list[Entry]:
        view = await self._open_run(generation_id)
        return await self._reader.read(generation_id, view.start, view.end) if view else []

    async def _open_run(self, generation_id: str) -> GenerationView | None:
        """Where the open run stands; None: it is placed, and its workflow not yet started."""
        try:
            return await ask(self._client, generation_id, VIEW, GenerationView)
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                return None
            raise

    @reaching_server()
    async def compact(self, instructions: str = "", *, request_id: str | None = None) -> Compaction:
        """Have a summary take the place of what the model was told long ago; also when no worker is up (spec §11.3).

        It makes no conversation busy: runs go on, and the summary is placed between two turns. `instructions` say what
        it is to attend to. The same `request_id` asks once, as long as it is remembered.

        Raises:
            NoSuchConversation: nothing with that id.
            InboxFull: too many are asked for.
            InputTooLarge: the instructions have over 16,384 characters.
            ServerUnavailable: no server answers.
            ValueError: the request id has over 200 characters.
        """
        if len(instructions) > MAX_INSTRUCTIONS:
            raise InputTooLarge(f"instructions of {len(instructions)} characters; {MAX_INSTRUCTIONS} are allowed")
        input = CompactInput(
            request_id=request_id or "",
            instructions=clean_text(instructions),
            settings=self._settings.run_settings(),
        )

        async def written(request_id: str) -> SubmissionView:
            return await self.submission(request_id).status()

        return await ask_for_compaction(self._sender, self.id, input, self.view, written)

    @reaching_server()
    async def abort(self) -> None:
        """Stop the open run and end queued inputs; the conversation lives on. A repeat does nothing.

        Steers that it overtakes are unanswered too, and stand in the transcript behind the run (spec §7.4).

        Raises:
            NoSuchConversation: nothing with that id.
            ServerUnavailable: no server answers.
        """
        try:
            await self._send_abort()
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                raise NoSuchConversation(f"there is no conversation {self.id}") from error
            raise

    async def _send_abort(self) -> None:
        handle = self._client.get_workflow_handle(self.id)
        try:
            await handle.signal(ABORT)
        except RPCError as error:
            if error.status != RPCStatusCode.INVALID_ARGUMENT:
                raise
            # The run has taken as many signals as it may. Temporal's cancel means the same and has no such limit.
            await handle.cancel()
