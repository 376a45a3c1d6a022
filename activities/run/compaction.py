"""`tarry.compact`: a summary of what a context held, from ids and a cutoff (spec §11.4).

It reads the immutable transcript up to the cutoff, so that the same input makes the same request, however often a
worker is lost in it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from temporalio import activity

from activities.calling import called
from activities.hooks.gates import limit
from activities.reports import failed
from activities.run.model_call import call_model, respond
from tarry.app import App
from tarry.core import summaries
from tarry.core.compaction_protocol import COMPACT, NoSummary, Summary, SummaryAnswer, SummaryInput
from tarry.core.messages import Usage, UserMessage
from tarry.core.summaries import Cut
from tarry.core.text import bound_text, clean_text
from tarry.core.thresholds import Thresholds
from tarry.entries import EntryReader
from tarry.hooks import CompactGate, Compacting, Decline, OwnSummary
from tarry.models import Model, ModelRequest, NoModel, info_of, priced
from tarry.seeing.content import Content

MAX_SUMMARY_BYTES = 256 * 1024


class CompactionActivities:
    """Makes the summaries of every conversation this worker serves."""

    def __init__(self, app: App, reader: EntryReader, content: Content | None = None) -> None:
        self._app = app
        self._registry = app.registry
        self._reader = reader
        self._content = content or Content()

    @activity.defn(name=COMPACT)
    async def compact(self, input: SummaryInput) -> SummaryAnswer:
        """The summary, or why there is none."""
        try:
            model = self._app.model_of(input.agent)
        except NoModel as error:
            return SummaryAnswer(NoSummary(why="failed", detail=str(error)))

        async def ask(on_text: Callable[[str], None]) -> Summary | NoSummary:
            return await self._summary(input, model, on_text)

        return SummaryAnswer(await call_model(model, ask))

    async def _summary(self, input: SummaryInput, model: Model, on_text: Callable[[str], None]) -> Summary | NoSummary:
        entries = await self._reader.context(
            input.conversation_id, input.generation_id, input.run_start, input.cutoff, input.context_start
        )
        sizes = input.sizes.of_model(info_of(model))
        cut = summaries.select_cut(entries, sizes.keep_recent)
        if cut is None:
            text = f"the context holds too little beside the {sizes.keep_recent} tokens that are kept"
            return NoSummary(why="nothing", detail=text)
        gate, problems = await self._ask_hooks(input, cut)
        match gate:
            case Decline(reason=reason):
                text = bound_text(reason, max_bytes=1024).text or "a hook declined"
                return NoSummary(why="declined", detail=text, problems=problems)
            case OwnSummary(text=text):
                return _checked(text, cut, Usage(), "", problems)
        return await self._by_model(input, model, cut, sizes, on_text, problems)

    async def _by_model(
        self,
        input: SummaryInput,
        model: Model,
        cut: Cut,
        sizes: Thresholds,
        on_text: Callable[[str], None],
        problems: tuple[str, ...],
    ) -> Summary | NoSummary:
        most = info_of(model).max_output
        request = ModelRequest(
            messages=(UserMessage(text=summaries.summary_request(cut.summarised, input.instructions)),),
            instructions=summaries.INSTRUCTIONS,
            session_id=f"{input.conversation_id}/compaction",
            idle_timeout=input.idle_timeout,
            max_output=min(sizes.summary_tokens, most or sizes.summary_tokens),
            purpose="summary",
        )
        response = await respond(model, request, on_text, input.conversation_id, self._content)
        usage = priced(model, response.usage)
        if (problem := summaries.accepted(response.message)) is not None:
            return NoSummary(why="failed", detail=problem, usage=usage, model=model.name, problems=problems)
        return _checked(response.message.text, cut, usage, model.name, problems)

    async def _ask_hooks(self, input: SummaryInput, cut: Cut) -> tuple[CompactGate, tuple[str, ...]]:
        """The first answer of a hook; and what is to be said of those that failed."""
        registry = self._registry.chosen(input.agent)
        ends = time.monotonic() + limit(registry.before_compact)
        problems: list[str] = []
        for name, hooks in registry.hooks:
            if hooks.before_compact is None:
                continue
            told = Compacting(
                input.conversation_id,
                input.reason,
                input.instructions,
                summaries.serialise(cut.summarised),
                cut.before,
                cut.kept,
            )
            try:
                gate = await called(partial(hooks.before_compact, told), ends)
                if isinstance(gate, Decline | OwnSummary):
                    return gate, tuple(problems)
            except Exception as error:  # a hook is application code and may raise anything
                problems.append(failed(f"hook before_compact of {name}", error))
        return None, tuple(problems)


def _checked(text: str, cut: Cut, usage: Usage, model: str, problems: tuple[str, ...]) -> Summary | NoSummary:
    """A summary that makes the context smaller; any other would only be paid for again."""
    summary = bound_text(clean_text(text), max_bytes=MAX_SUMMARY_BYTES, max_lines=MAX_SUMMARY_BYTES).text
    if not summary.strip():
        return NoSummary(why="failed", detail="the summary is empty", usage=usage, model=model, problems=problems)
    after = summaries.text_tokens(summaries.framed(summary)) + cut.kept
    if after >= cut.before:
        detail = f"the context would have about {after} tokens where it has {cut.before}"
        return NoSummary(why="no_progress", detail=detail, usage=usage, model=model, problems=problems)
    return Summary(
        text=summary, head=cut.head, before=cut.before, after=after, usage=usage, model=model, problems=problems
    )
