"""What happened between two views of a conversation.

Pure. The events of `changes` lead from the first view to the second one exactly; where no events can tell, a snapshot
does (spec §7.9). What came and went in between, such as a response of an instant, is told by its entry alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from tarry.core import live_events as told
from tarry.core.live import LiveCall, LiveRun, LiveView
from tarry.core.live_events import Event, applied
from tarry.core.messages import AssistantMessage, ToolMessage
from tarry.core.protocol import SubmissionStatus, SubmissionView
from tarry.core.transcript import Entry

LOST = "lost"


def changes(old: LiveView, new: LiveView) -> tuple[Event, ...]:
    """The events between two views, in the order of spec §7.9; none between equal ones."""
    if old == new:
        return ()
    story = _Story(old, new)
    if not story.misses_entries:
        story.tell()
    return tuple(story.events) if story.now == new else (told.Snapshot(view=new),)


class _Story:
    """Tells one event after the other; `now` is the view that a listener has by then."""

    def __init__(self, old: LiveView, new: LiveView) -> None:
        self.now = old
        self.events: list[Event] = []
        self._old = old
        self._new = new
        self._appended = [entry for entry in new.entries if entry.index >= old.entries_end.index]

    @property
    def misses_entries(self) -> bool:
        """Whether there are entries that neither view has, or others than before."""
        return any(entry.prev != self.now.entries_end.chain for entry in self._appended[:1])

    def tell(self) -> None:
        """What goes on first, then what is new in the transcript, what is over, what stands elsewhere, what begins."""
        if self._goes_on and not any(isinstance(entry.message, AssistantMessage) for entry in self._appended):
            self._tell_run()
        for entry in self._appended:
            self._tell_entry(entry)
        self._tell_ends()
        self._tell_elsewhere()
        self._tell_begins()

    @property
    def _goes_on(self) -> bool:
        """The same run, in the same turn."""
        return self._is_same_run and self._run.turn == self._target.turn

    @property
    def _is_same_run(self) -> bool:
        now, new = self.now.run, self._new.run
        return now is not None and new is not None and now.generation_id == new.generation_id

    @property
    def _run(self) -> LiveRun:
        assert self.now.run is not None
        return self.now.run

    @property
    def _target(self) -> LiveRun:
        assert self._new.run is not None
        return self._new.run

    def _say(self, event: Event) -> None:
        self.events.append(event)
        self.now = applied(self.now, event)

    def _tell_run(self) -> None:
        """What the run does otherwise than a listener knows; not what of it is over."""
        new = self._target
        if (self._run.phase, self._run.held, self._run.inputs) != (new.phase, new.held, new.inputs):
            self._say(told.RunUpdate(phase=new.phase, held=new.held, inputs=new.inputs))
        known = {call.slot: call for call in self._run.calls}
        for call in new.calls:
            if call.slot not in known:
                self._say(told.ToolStart(call=call))
        if new.message is not None and self._run.message is None:
            self._say(told.MessageStart(message_id=new.message.id))
        self._tell_text()
        for call in new.calls:
            if call.slot in known:
                self._tell_call(known[call.slot], call)
        if new.retry is not None and self._run.retry is None:
            self._say(told.RetryStart(retry=new.retry))

    def _tell_text(self) -> None:
        old, new = self._run.message, self._target.message
        if old is not None and new is not None and old.id == new.id and old.text != new.text:
            at, delta = old.text.until(new.text)
            offset = new.text.offset
            self._say(told.MessageUpdate(message_id=new.id, at=at, delta=delta, offset=offset))

    def _tell_call(self, old: LiveCall, new: LiveCall) -> None:
        if old == new:
            return
        at, delta = old.output.until(new.output)
        self._say(
            told.ToolUpdate(
                slot=new.slot,
                task_id=new.task_id,
                status=new.status,
                since=new.since,
                label=new.label,
                at=at,
                delta=delta,
                offset=new.output.offset,
            )
        )

    def _tell_entry(self, entry: Entry) -> None:
        run = self.now.run
        if run is not None and isinstance(entry.message, AssistantMessage) and run.message is not None:
            self._say(told.MessageEnd(message_id=run.message.id, entry=entry.index))
        if run is not None and isinstance(entry.message, ToolMessage):
            self._tell_result(run, entry, entry.message)
        self._say(told.EntryAppended(entry=entry))

    def _tell_result(self, run: LiveRun, entry: Entry, message: ToolMessage) -> None:
        """In call order: of several calls with one id the first that has no result yet."""
        code = entry.tool.code if entry.tool else ""
        for call in run.calls:
            if call.call_id == message.call_id:
                end = told.ToolEnd(
                    slot=call.slot, task_id=call.task_id, entry=entry.index, is_error=message.is_error, code=code
                )
                self._say(end)
                return

    def _tell_ends(self) -> None:
        known = {compaction.request_id for compaction in self.now.compactions if compaction.is_over}
        for compaction in self._new.compactions:
            if compaction.is_over and compaction.request_id not in known:
                self._say(told.CompactionEnd(compaction=compaction))
        if self.now.run is not None:
            self._tell_run_ends()

    def _tell_run_ends(self) -> None:
        turn = self._run.turn
        for event in self._ends():
            self._say(event)
        for entry in self._appended:
            if entry.tool is not None and entry.tool.code == LOST:
                self._say(told.TaskFailed(task_id=entry.tool.task_id, detail=LOST))
        if not self._goes_on:
            self._say(told.TurnEnd(turn=turn))
        if not self._is_same_run:
            self._say(told.RunEnd(generation_id=self._run.generation_id))

    def _ends(self) -> Iterator[Event]:
        """What is over and has no entry."""
        now, new = self._run, self._target if self._goes_on else None
        if now.message is not None and (new is None or new.message is None or new.message.id != now.message.id):
            yield told.MessageEnd(message_id=now.message.id)
        kept = {(call.slot, call.call_id, call.tool) for call in new.calls} if new else set()
        for call in now.calls:
            if (call.slot, call.call_id, call.tool) not in kept:
                yield told.ToolEnd(slot=call.slot, task_id=call.task_id)
        if now.retry is not None and (new is None or new.retry != now.retry):
            yield told.RetryEnd()

    def _tell_elsewhere(self) -> None:
        now, new = self.now, self._new
        for submission in new.settled:
            if submission not in now.settled:
                self._say(told.SubmissionEvent(submission=submission))
        for submission in self._moved():
            self._say(told.SubmissionEvent(submission=submission))
        for fact in told.FACTS:
            facts = {name: getattr(new, name) for name in fact.model_fields if name != "type"}
            if any(getattr(now, name) != value for name, value in facts.items()):
                self._say(fact(**facts))

    def _moved(self) -> Iterator[SubmissionView]:
        """Submissions that were queued or placed since."""
        old, new = self.now, self._new
        placed = set(old.run.inputs) if old.run else set()
        statuses: list[tuple[SubmissionStatus, tuple[str, ...], set[str]]] = [
            ("placed", new.placed, placed | set(old.placed)),
            ("queued", new.queued, set(old.queued)),
        ]
        for status, ids, known in statuses:
            for request_id in ids:
                if request_id not in known:
                    yield SubmissionView(request_id=request_id, status=status)

    def _tell_begins(self) -> None:
        known = {compaction.request_id for compaction in self._old.compactions}
        for compaction in self._new.compactions:
            if not compaction.is_over and compaction.request_id not in known:
                self._say(told.CompactionStart(compaction=compaction))
        if self._new.run is None:
            return
        if not self._is_same_run:
            self._say(told.RunStart(generation_id=self._target.generation_id, inputs=self._target.inputs))
            self._say(told.TurnStart(turn=self._target.turn))
        elif not self._goes_on:
            self._say(told.TurnStart(turn=self._target.turn))
        self._tell_run()
