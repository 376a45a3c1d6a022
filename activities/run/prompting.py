"""What a request says beside its transcript: sections and tools of the registry, as far as they are not told yet.

Computed at every request and returned with its answer; the workflow records it with the response (spec §13.3).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from activities.calling import called
from activities.reports import Reports
from activities.run.offering import OnOffer
from tarry.core import output
from tarry.core.agent import Agent
from tarry.core.context import plan, request_context, shown
from tarry.core.prompt import INSTRUCTIONS, Prompt, PromptPatch, SectionPatch
from tarry.core.protocol import ModelRequestInput
from tarry.core.text import clean_text
from tarry.core.transcript import Entry, Position, place, system_draft
from tarry.models import Model, ModelRequest, info_of
from tarry.sections import PromptTold, Section

SECONDS = 4.0
"""How long all sections may take together."""
MAX_SECTION_BYTES = 256 * 1024


@dataclass(frozen=True)
class Prepared:
    """A request, and what it says that is not in the transcript yet."""

    request: ModelRequest
    patches: tuple[PromptPatch, ...]


async def prepare(
    model: Model,
    offer: OnOffer,
    agent: Agent,
    input: ModelRequestInput,
    entries: Sequence[Entry],
    reports: Reports,
) -> Prepared:
    """Ask the sections and plan what must be told; the instructions of the agent come last."""
    told = PromptTold(input.conversation_id, agent, tuple(tool.name for tool in offer.tools))
    sections = await _sections((*offer.registry.sections, *offer.sections), told, shown(entries), reports)
    sections += offer.kept
    if instructions := clean_text(agent.instructions or ""):
        sections.append(SectionPatch(key=INSTRUCTIONS, text=instructions, tag=False))
    enforced = info_of(model).structured
    if input.output is not None and not enforced:
        # Last of all: it comes and goes with a run, and what stands before it need not be told again.
        sections.append(SectionPatch(key=output.KEY, text=output.told(input.output), tag=False))
    patches = plan(entries, Prompt.of(sections, offer.tools))
    context = request_context(_with(entries, patches))
    request = ModelRequest(
        messages=context.messages,
        instructions=context.instructions,
        tools=offer.tools,
        session_id=input.conversation_id,
        idle_timeout=input.idle_timeout,
        thinking=agent.thinking or "off",
        output=input.output if enforced else None,
    )
    return Prepared(request, patches)


async def _sections(
    sections: Sequence[Section], told: PromptTold, last: Prompt, reports: Reports
) -> list[SectionPatch]:
    ends = time.monotonic() + SECONDS
    patches: list[SectionPatch] = []
    for section in sections:
        try:
            text = await _text(section, told, ends)
        except Exception as error:  # a section is application code and may raise or return anything
            reports.add(f"section {section.key} of the prompt", error)
            if section.key in last.sections:
                patches.append(last.sections[section.key])
        else:
            if text.strip():
                patches.append(SectionPatch(key=section.key, text=text, tag=section.tag))
    return patches


async def _text(section: Section, told: PromptTold, ends: float) -> str:
    text = section.text if isinstance(section.text, str) else await called(partial(section.text, told), ends)
    if text is None:
        return ""
    if not isinstance(text, str):
        raise TypeError(f"it is {type(text).__name__}, not text")
    text = clean_text(text)
    if len(text.encode()) > MAX_SECTION_BYTES:
        raise ValueError(f"it has over {MAX_SECTION_BYTES // 1024} KiB")
    return text


def _with(entries: Sequence[Entry], patches: Sequence[PromptPatch]) -> list[Entry]:
    """The entries as they will be once the patches are recorded; when, and by which run, no model reads."""
    longer = list(entries)
    for patch in patches:
        after = longer[-1].position if longer else Position()
        longer.append(place(system_draft(patch, datetime.min.replace(tzinfo=UTC), 0), after))
    return longer
