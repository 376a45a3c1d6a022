"""An application: the extensions, tools, signals and model that a worker loads by `module:attribute`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from signals.tokens import Signal
from tarry.core.agent import Agent, select
from tarry.core.mail import STEERED
from tarry.core.messages import ToolSpec
from tarry.core.people import APPROVAL
from tarry.core.protocol import digest
from tarry.core.resolve import HookKind
from tarry.core.routing import checked_worker
from tarry.core.settled import SUBMISSION_SETTLED
from tarry.core.subagents.protocol import AGENT_UPDATE
from tarry.core.text import canonical_json
from tarry.documents import Document
from tarry.environment import EnvironmentFactory
from tarry.hooks import Hooks
from tarry.inbox import Inbox
from tarry.models import Model, NoModel
from tarry.offers import Offer
from tarry.redaction import Redact
from tarry.sections import Section
from tarry.tasks import DurableTask
from tarry.tools import Tool
from tarry.webhooks.sources import WebhookSource
from tarry.wraps import Wrap

_BUILT_IN: tuple[Signal[Any], ...] = (SUBMISSION_SETTLED, STEERED, AGENT_UPDATE)


@dataclass(frozen=True)
class Extension:
    """A named bundle of tools, tasks, their signals and documents, hooks, wrappers and sections of the prompt.

    Change `version` with the hooks: calls that wait before their intent are then asked anew (spec §5.3). `environment`
    makes the one that `api.env` gives to tools of all extensions (spec §14.1). `offer` says at each request of a model
    which of the tools are offered, and how (spec §13.7). `worker` runs those of its tools that name none (spec §25.1).
    """

    name: str
    tools: Sequence[Tool] = ()
    signals: Sequence[Signal[Any]] = ()
    tasks: Sequence[DurableTask[Any, Any]] = ()
    hooks: Hooks | None = None
    version: str = ""
    wraps: Sequence[Wrap] = ()
    documents: Sequence[Document[Any]] = ()
    sections: Sequence[Section] = ()
    environment: EnvironmentFactory | None = None
    offer: Offer | None = None
    worker: str = ""


class Registry:
    """The extensions of a process, in the order of installation.

    Installing an extension under a known name replaces it in place. Of tools, signals, tasks, documents or sections
    with one name the one installed last counts. `defaults` are the choices of whoever chooses nothing.
    """

    def __init__(
        self, extensions: Iterable[Extension] = (), defaults: Agent | None = None, redact: Redact | None = None
    ) -> None:
        self.redact = redact
        self._extensions: dict[str, Extension] = {}
        self._defaults = defaults or Agent()
        self._offered: tuple[str, ...] | None = None
        for extension in extensions:
            self.install(extension)

    def install(self, extension: Extension) -> None:
        """Add `extension`, or replace the one of its name.

        Raises:
            ValueError: two of its tools, signals, tasks, documents or sections share a name, a tool's name is one a
                provider refuses, a task has no phase, a document no initial value, or no worker can be called so.
        """
        for kind, known in (
            ("signals", [one.name for one in extension.signals]),
            ("tasks", [one.name for one in extension.tasks]),
            ("documents", [one.name for one in extension.documents]),
            ("sections", [one.key for one in extension.sections]),
        ):
            if (twice := next((name for name in known if known.count(name) > 1), None)) is not None:
                raise ValueError(f"extension {extension.name}: two {kind} are named {twice}")
        checked_worker(extension.worker, f"extension {extension.name}")
        for tool in extension.tools:
            checked_worker(tool.worker, f"tool {tool.name}")
        for task in extension.tasks:
            _ = task.initial
        for document in extension.documents:
            _ = document.initial
        names = [tool.name for tool in extension.tools]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"extension {extension.name}: two tools are named {name}")
            if not name or len(name) > 64 or not all(c.isascii() and (c.isalnum() or c in "_-") for c in name):
                raise ValueError(
                    f"extension {extension.name}: tool name {name!r} must be 1 to 64 letters, digits, _ or -"
                )
        self._extensions[extension.name] = extension

    def chosen(self, agent: Agent) -> Registry:
        """What is left of it with these choices, in the order of installation. Unknown names do not count (spec §7.6).

        Edits are of what the defaults leave, and the defaults' own of all that is installed.
        """
        names = select(agent.extensions, select(self._defaults.extensions, tuple(self._extensions)))
        chosen = self._with(one for name, one in self._extensions.items() if name in names)
        chosen._offered = select(agent.tools, select(self._defaults.tools, tuple(chosen.tools)))
        return chosen

    def offering(self, names: Sequence[str]) -> Registry:
        """All of it, but of its tools these alone."""
        narrowed = self._with(self._extensions.values())
        narrowed._offered = tuple(names)
        return narrowed

    def _with(self, extensions: Iterable[Extension]) -> Registry:
        return Registry(extensions, self._defaults, self.redact)

    def resolved(self, agent: Agent) -> Agent:
        """What these choices come to: every default filled in, and of names those that there are."""
        chosen, over = self.chosen(agent), agent.over(self._defaults)
        return over.model_copy(
            update={
                "thinking": over.thinking or "off",
                "extensions": tuple(chosen._extensions),
                "tools": tuple(chosen.tools),
            }
        )

    @property
    def extensions(self) -> tuple[Extension, ...]:
        """The extensions, in order of installation."""
        return tuple(self._extensions.values())

    def without(self, name: str) -> Registry:
        """All of it but that extension, with all the tools that the choices leave of it."""
        left = self._with(one for one in self.extensions if one.name != name)
        left._offered = self._offered
        return left

    @property
    def tools(self) -> dict[str, Tool]:
        """The tools that are offered by name, in order of installation."""
        tools = {tool.name: _routed(tool, one.worker) for one in self._extensions.values() for tool in one.tools}
        return {name: tool for name, tool in tools.items() if self._offered is None or name in self._offered}

    @property
    def workers(self) -> tuple[str, ...]:
        """The workers that its tools and tasks name, sorted."""
        named = {*(one.worker for one in self.tools.values()), *(one.worker for one in self.tasks.values())}
        return tuple(sorted(named - {""}))

    @property
    def signals(self) -> dict[str, Signal[Any]]:
        """The signals that can be delivered to tasks of this application, by name; the built-in ones are among them."""
        declared = {signal.name: signal for extension in self._extensions.values() for signal in extension.signals}
        return {**{signal.name: signal for signal in _BUILT_IN}, **declared}

    def is_for_people(self, signal: str) -> bool:
        """Whether only people answer the signal of that name (spec §23.6)."""
        declared = self.signals.get(signal)
        return signal == APPROVAL or (declared is not None and declared.for_people)

    @property
    def tasks(self) -> dict[str, DurableTask[Any, Any]]:
        """The durable tasks by name."""
        return {task.name: task for extension in self._extensions.values() for task in extension.tasks}

    @property
    def documents(self) -> dict[str, Document[Any]]:
        """The documents by name."""
        return {one.name: one for extension in self._extensions.values() for one in extension.documents}

    @property
    def hooks(self) -> tuple[tuple[str, Hooks], ...]:
        """The hooks by extension, in order of installation."""
        return tuple((name, extension.hooks) for name, extension in self._extensions.items() if extension.hooks)

    @property
    def wraps(self) -> tuple[Wrap, ...]:
        """The wrappers of every tool, in order of installation: the first is outermost."""
        return tuple(wrap for extension in self._extensions.values() for wrap in extension.wraps)

    @property
    def sections(self) -> tuple[Section, ...]:
        """The sections of the prompt; of two with one key the later one, in the place of the earlier."""
        return tuple({one.key: one for extension in self._extensions.values() for one in extension.sections}.values())

    @property
    def offers(self) -> tuple[tuple[str, Offer], ...]:
        """Who is asked before every request what it offers, by extension, in order of installation."""
        return tuple((name, one.offer) for name, one in self._extensions.items() if one.offer is not None)

    def tools_of(self, extension: str) -> tuple[str, ...]:
        """Those of the tools that are this extension's own, and not replaced by a later one's."""
        owners = {tool.name: name for name, one in self._extensions.items() for tool in one.tools}
        return tuple(name for name in self.tools if owners[name] == extension)

    @property
    def environment(self) -> EnvironmentFactory | None:
        """What makes the environment of a conversation: of several the one installed last counts."""
        made = [one.environment for one in self._extensions.values() if one.environment is not None]
        return made[-1] if made else None

    @property
    def gated(self) -> HookKind:
        """Which hooks are asked before a call."""
        return _kind(hooks for _, hooks in self.hooks if hooks.before_tool is not None)

    @property
    def heard(self) -> HookKind:
        """Which hooks hear of a result."""
        return _kind(hooks for _, hooks in self.hooks if hooks.after_tool is not None)

    @property
    def after_tools(self) -> HookKind:
        """Which hooks are told of a round."""
        return _kind(hooks for _, hooks in self.hooks if hooks.after_tools is not None)

    @property
    def on_yield(self) -> HookKind:
        """Which hooks are asked whether an answer stands."""
        return _kind(hooks for _, hooks in self.hooks if hooks.on_yield is not None)

    @property
    def before_compact(self) -> HookKind:
        """Which hooks are asked before a context is compacted."""
        return _kind(hooks for _, hooks in self.hooks if hooks.before_compact is not None)

    @property
    def after_run(self) -> HookKind:
        """Which hooks are told of the end of a run."""
        return _kind(hooks for _, hooks in self.hooks if hooks.after_run is not None)

    @property
    def fingerprint(self) -> str:
        """Stands for what hooks are asked before a call, and for their versions (spec §5.3)."""
        asked = [(name, self._extensions[name].version) for name, hooks in self.hooks if hooks.before_tool is not None]
        return digest(canonical_json(asked))

    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools as the model is told of them."""
        return tuple(
            ToolSpec(name=tool.name, description=tool.description, parameters=tool.schema())
            for tool in self.tools.values()
        )


@dataclass(frozen=True)
class App:
    """What a worker serves: models, instructions and the installed extensions; `webhooks` are the gateway's.

    `model` is the one of conversations that chose none, under its own name; `models` are others to choose from, by the
    names that conversations know them by. `defaults` are choices for conversations that made none: without them the
    model and the instructions above, all extensions with all their tools, and no thinking (spec §7.6). `redact` is
    asked what of arguments, questions and log lines may be shown (spec §20.4). `inbox` says who is signed in at the
    gateway's inbox, and who may answer what (spec §23.3).
    """

    model: Model | None = None
    instructions: str = ""
    extensions: Sequence[Extension] = ()
    webhooks: Sequence[WebhookSource] = ()
    models: Mapping[str, Model] = field(default_factory=dict)
    defaults: Agent = field(default_factory=Agent)
    redact: Redact | None = None
    inbox: Inbox = field(default_factory=Inbox)

    @property
    def registry(self) -> Registry:
        """The extensions, installed in order."""
        instructions = self.instructions if self.defaults.instructions is None else self.defaults.instructions
        name = self.defaults.model or (self.model.name if self.model else None)
        defaults = self.defaults.model_copy(update={"model": name, "instructions": instructions})
        return Registry(self.extensions, defaults, self.redact)

    @property
    def known_models(self) -> dict[str, Model]:
        """The models by the names that a conversation chooses them by."""
        return {**({self.model.name: self.model} if self.model else {}), **self.models}

    def resolved(self, agent: Agent) -> Agent:
        """What the choices of a conversation come to here, all of them filled in (spec §7.6)."""
        return self.registry.resolved(agent)

    def model_of(self, agent: Agent) -> Model:
        """The model that is chosen, or the default one.

        Raises:
            NoModel: there is none of that name, or no default.
        """
        chosen, known = self.resolved(agent).model, self.known_models
        if chosen in known:
            return known[chosen]
        wanted = f"there is no model {chosen!r} here" if chosen else "no model is chosen"
        raise NoModel(f"{wanted}; known are: {', '.join(known) or 'none'}. Choose one with `tarry configure`")


def _routed(tool: Tool, worker: str) -> Tool:
    return replace(tool, worker=worker) if worker and not tool.worker else tool


def _kind(hooks: Iterable[Hooks]) -> HookKind:
    kinds = ["io" if one.io else "quick" for one in hooks]
    return "" if not kinds else "io" if "io" in kinds else "quick"
