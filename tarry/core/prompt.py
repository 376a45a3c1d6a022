"""The prompt as a conversation was told it: sections and tools, and how they changed (spec §13).

Pure. The truth is the patches in the transcript: replayed, they give the sections and tools that the model knows of.
What a request needs beyond that is computed anew each time, so a request that failed leaves nothing to take back.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from pydantic import BaseModel, Field

from tarry.core.messages import Frozen, ToolSpec
from tarry.core.text import canonical_json

INSTRUCTIONS = "instructions"
"""The key of the section that comes last: what the application, or the conversation, says itself."""


class SectionPatch(Frozen):
    """What a section says from here on; None: no more."""

    key: str
    text: str | None
    tag: bool = True


class ToolPatch(Frozen):
    """A tool as it is declared from here on, by the digest of its declaration; None: it is gone."""

    name: str
    digest: str | None


class PromptPatch(Frozen):
    """One change. A `baseline` says everything, and whatever was said before it counts no more."""

    sections: tuple[SectionPatch, ...] = ()
    tools: tuple[ToolPatch, ...] = ()
    baseline: bool = False

    def size(self) -> int:
        """Bytes of its content."""
        texts = [part for section in self.sections for part in (section.key, section.text or "")]
        return sum(len(text.encode()) for text in texts) + sum(len(tool.name) + 40 for tool in self.tools)

    def summary(self) -> str:
        """One line for people."""
        names = [_signed(section.key, section.text) for section in self.sections]
        tools = [_signed(tool.name, tool.digest) for tool in self.tools]
        parts = [f"{word} {', '.join(said)}" for word, said in (("sections", names), ("tools", tools)) if said]
        return "prompt: " + ("; ".join(parts) or "nothing")


class Beside(Frozen):
    """What comes with the end of a request, beside a response."""

    prompt: tuple[PromptPatch, ...] = Field(default=(), description="what it said that the transcript does not hold")
    problems: tuple[str, ...] = Field(default=(), description="of application code that was asked, for people")


class Prompt(BaseModel):
    """Sections and tools, in order: what a model has been told, or should have been."""

    sections: dict[str, SectionPatch] = Field(default_factory=dict)
    tools: dict[str, str] = Field(default_factory=dict)

    @classmethod
    def of(cls, sections: Iterable[SectionPatch], tools: Iterable[ToolSpec]) -> Prompt:
        """A prompt of these sections and declarations."""
        return cls(
            sections={section.key: section for section in sections},
            tools={tool.name: declaration(tool) for tool in tools},
        )

    @classmethod
    def replayed(cls, patches: Iterable[PromptPatch]) -> Prompt:
        """What a model knows after these patches."""
        prompt = cls()
        for patch in patches:
            prompt.apply(patch)
        return prompt

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to tell."""
        return not self.sections and not self.tools

    def apply(self, patch: PromptPatch) -> None:
        """Take a patch in. A section that changes keeps its place, a new one comes last."""
        if patch.baseline:
            self.sections, self.tools = {}, {}
        for section in patch.sections:
            if section.text is None:
                self.sections.pop(section.key, None)
            else:
                self.sections[section.key] = section
        for tool in patch.tools:
            if tool.digest is None:
                self.tools.pop(tool.name, None)
            else:
                self.tools[tool.name] = tool.digest

    def text(self) -> str:
        """All sections, as they stand at the front of a request."""
        return "\n\n".join(
            _tagged(section) if section.tag else section.text or "" for section in self.sections.values()
        )


def declaration(tool: ToolSpec) -> str:
    """Stands for a tool's declaration."""
    return hashlib.sha256(canonical_json(tool.model_dump(mode="json")).encode()).hexdigest()[:16]


def baseline(wanted: Prompt) -> PromptPatch:
    """All of `wanted`, in place of whatever was said before."""
    tools = tuple(ToolPatch(name=name, digest=mark) for name, mark in wanted.tools.items())
    return PromptPatch(sections=tuple(wanted.sections.values()), tools=tools, baseline=True)


def changes(shown: Prompt, wanted: Prompt) -> tuple[PromptPatch, ...]:
    """The least that makes `wanted` of `shown`: nothing, one patch, or two where the order of sections is another."""
    tools = _tool_changes(shown, wanted)
    kept = [key for key in shown.sections if key in wanted.sections]
    new = [key for key in wanted.sections if key not in shown.sections]
    if [*kept, *new] != list(wanted.sections):
        return (
            PromptPatch(sections=tuple(_removal(key) for key in shown.sections)),
            PromptPatch(sections=tuple(wanted.sections.values()), tools=tools),
        )
    removed = [_removal(key) for key in shown.sections if key not in wanted.sections]
    said = [section for key, section in wanted.sections.items() if shown.sections.get(key) != section]
    patch = PromptPatch(sections=(*removed, *said), tools=tools)
    return (patch,) if patch.sections or patch.tools else ()


def told(before: Prompt, patch: PromptPatch) -> str:
    """A patch as the model reads it in the middle of a conversation, to which `before` was told; nothing: "".

    Every section has its tag here, so that it is clear which it replaces.
    """
    said = [section for section in patch.sections if section.text is not None]
    gone = [section.key for section in patch.sections if section.text is None and section.key in before.sections]
    changed = [t.name for t in patch.tools if t.digest is not None and before.tools.get(t.name) not in (None, t.digest)]
    lines = [
        _line("No longer part of your instructions", gone),
        _line("Tools that are gone, not to be called", [t.name for t in patch.tools if t.digest is None]),
        _line("Tools that are declared differently now", changed),
        _line("New tools", [t.name for t in patch.tools if t.digest is not None and t.name not in before.tools]),
    ]
    parts = ["\n".join(line for line in lines if line)]
    if said:
        parts.append("From here on these parts of your instructions count, in place of earlier ones of the same name.")
        parts += [_tagged(section) for section in said]
    return "\n\n".join(part for part in parts if part)


def _tool_changes(shown: Prompt, wanted: Prompt) -> tuple[ToolPatch, ...]:
    removed = [ToolPatch(name=name, digest=None) for name in shown.tools if name not in wanted.tools]
    said = [ToolPatch(name=n, digest=mark) for n, mark in wanted.tools.items() if shown.tools.get(n) != mark]
    return (*removed, *said)


def _removal(key: str) -> SectionPatch:
    return SectionPatch(key=key, text=None)


def _tagged(section: SectionPatch) -> str:
    return f"<{section.key}>\n{section.text}\n</{section.key}>"


def _line(words: str, names: Sequence[str]) -> str:
    return f"{words}: {', '.join(names)}." if names else ""


def _signed(name: str, value: str | None) -> str:
    return f"-{name}" if value is None else f"+{name}"
