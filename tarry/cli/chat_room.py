"""What is done with a line of a chat: an input, an answer to a question, or a command. Nothing here draws."""

from __future__ import annotations

import asyncio
import getpass
import inspect
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from rich.text import Text

from tarry.cli import render
from tarry.cli.chat_agents import reloaded, subagents
from tarry.cli.chat_answers import NoValue, value_of
from tarry.cli.exits import problem_of
from tarry.cli.follow import doing
from tarry.client import Conversation, Harness
from tarry.core.live import LiveView, Question
from tarry.core.protocol import WhenBusy

Tell = Callable[[Text], None]

_SAID = {
    "delivered": "delivered",
    "duplicate": "duplicate: somebody else answered first, and that stays",
    "accepted": "accepted: the server keeps it until a worker is up",
    "closed": "closed: it is over, was stopped, or its deadline has passed",
    "not_found": "not found: that task is gone",
}


@dataclass(frozen=True)
class Command:
    """Something that begins with a slash."""

    usage: str
    about: str
    do: Callable[[str], Awaitable[None] | None]


class Room:
    """One person in one conversation. `view` is how it stands, None as long as nothing was said."""

    def __init__(self, harness: Harness, conversation: Conversation, tell: Tell, when_busy: WhenBusy) -> None:
        self.harness = harness
        self.conversation = conversation
        self.view: LiveView | None = None
        self.began = asyncio.Event()
        self.left = asyncio.Event()
        self._tell = tell
        self._when_busy: WhenBusy = when_busy
        self._aside: set[tuple[str, object]] = set()
        self._saying = asyncio.Lock()
        self.commands = self._commands()

    @property
    def is_busy(self) -> bool:
        """Whether there is anything that a Stop would stop."""
        return self.view is not None and (self.view.run is not None or bool(self.view.queued))

    @property
    def question(self) -> Question | None:
        """The one that the next line answers."""
        questions = self.view.questions if self.view is not None else ()
        return next((one for one in questions if (one.task_id, one.since) not in self._aside), None)

    @property
    def doing(self) -> str:
        """What goes on, in a few words; nothing while it rests."""
        view = self.view
        if view is None or (view.contact == "up" and view.run is None and not view.queued):
            return ""
        return doing(view, "", self.harness.settings.task_queue)

    async def take(self, line: str) -> None:
        """Do what the line says. Whatever is wrong is told, and nothing is raised."""
        try:
            if line.startswith("/"):
                await self._command(line)
            elif (question := self.question) is not None:
                await self._answer(question, line)
            else:
                await self._submit(line, self._when_busy)
        except Exception as error:
            problem = problem_of(error)
            if problem is None and not isinstance(error, ValueError):
                raise
            self._tell(Text(problem.text if problem else str(error), "red"))

    async def stop(self) -> None:
        """Stop the run; what is queued ends unanswered."""
        self._tell(Text("stopping the run …", "dim"))
        try:
            await self.conversation.abort()
        except Exception as error:
            if (problem := problem_of(error)) is None:
                raise
            self._tell(Text(problem.text, "red"))

    async def _submit(self, text: str, when_busy: WhenBusy) -> None:
        async with self._saying:  # of two that are under way at once either may come first
            submission = await self.conversation.submit(text, when_busy=when_busy)
        self.began.set()
        if submission.view is None:
            self._tell(Text("no worker answers: the server keeps the input until one is up", "yellow"))

    async def _answer(self, question: Question, line: str) -> None:
        person = _user()
        try:
            value = value_of(question, line, person)
        except NoValue as error:
            self._tell(Text(str(error), "yellow"))
            return
        name, key = await self._key(question)
        place = (question.task_id, question.since)
        self._aside.add(place)
        result = await self.harness.signal(question.task_id, name, key, value, by=person)
        said = _SAID.get(result.answer, f"{result.answer}: {' '.join(result.reason.split())}")
        if result.answer == "invalid":
            self._aside.discard(place)
        style = "green" if result.answer == "delivered" else "yellow"
        self._tell(Text.assemble(("  answer ", "dim"), (render.plain(said), style)))

    async def _key(self, question: Question) -> tuple[str, str]:
        """The whole key: lists show a long one as a hash."""
        name, _, key = question.keys[0].partition("/") if question.keys else ("", "", "")
        if name and not key.startswith("#"):
            return name, key
        keys = (await self.harness.task(question.task_id)).keys
        if not keys:
            raise ValueError("it waits for nothing any more")
        return keys[0].signal, keys[0].key

    async def _command(self, line: str) -> None:
        name, _, rest = line[1:].partition(" ")
        command = self.commands.get(name)
        if command is None:
            self._tell(Text(f"there is no /{name}; /help lists what there is", "yellow"))
            return
        done = command.do(rest.strip())
        if inspect.isawaitable(done):
            await done

    def _commands(self) -> dict[str, Command]:
        return {
            "help": Command("/help", "this list", self._help),
            "steer": Command("/steer TEXT", "say it between two turns of the run", self._steer),
            "follow": Command("/follow TEXT", "say it after the run", self._follow),
            "say": Command("/say TEXT", "an input, while a question is open", self._say),
            "later": Command("/later", "put the question aside", self._later),
            "stop": Command("/stop", "stop the run, like Ctrl-C", lambda _: self.stop()),
            "status": Command("/status", "what goes on", self._status),
            "usage": Command("/usage", "tokens spent by runs that are over", self._usage),
            "agent": Command("/agent", "what this conversation has chosen", self._agent),
            "compact": Command("/compact [WHAT]", "have a summary take the place of what is old", self._compact),
            "reset": Command("/reset [TEXT]", "begin anew; the transcript stays", self._reset),
            "subagents": Command("/subagents", "agents to delegate to, and those at work", self._subagents),
            "reload": Command("/reload", "let this host's agents and settings count", self._reload),
            "quit": Command("/quit", "leave, like Ctrl-D; a run goes on", self._quit),
        }

    def _help(self, _: str) -> None:
        for command in self.commands.values():
            self._tell(Text.assemble((f"  {command.usage:18}", "bold"), (command.about, "dim")))
        how = "between two turns of it" if self._when_busy == "steer" else "after it"
        self._tell(Text(f"  What you type while a run is open is said {how}. Ctrl-C stops the run.", "dim"))

    async def _steer(self, text: str) -> None:
        await self._submit(_required(text), "steer")

    async def _follow(self, text: str) -> None:
        await self._submit(_required(text), "follow_up")

    async def _say(self, text: str) -> None:
        await self._submit(_required(text), self._when_busy)

    def _later(self, _: str) -> None:
        if (question := self.question) is not None:
            self._aside.add((question.task_id, question.since))
            self._tell(Text(f"  put aside; tarry explain '{question.task_id}' shows how to answer it", "dim"))

    def _status(self, _: str) -> None:
        self._tell(Text(f"  conversation {self.conversation.id}: {self.doing or 'idle'}"))
        for item in self.view.inbox if self.view else ():
            self._tell(Text(f"  queued ({item.mode}): {render.cut(render.plain(item.text), 80)}", "dim"))
        for question in self.view.questions if self.view else ():
            self._tell(Text(f"  asks: {render.cut(render.plain(question.question), 80)}  {question.task_id}", "dim"))

    def _usage(self, _: str) -> None:
        usage = self.view.usage if self.view else None
        told = "nothing yet" if usage is None else f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out"
        self._tell(Text(f"  {told}"))

    def _agent(self, _: str) -> None:
        chosen = self.view.agent.model_dump(exclude_none=True) if self.view else {}
        for name, value in chosen.items():
            self._tell(Text(f"  {name}: {render.cut(render.plain(str(value)), 100)}"))
        if not chosen:
            self._tell(Text("  nothing is chosen: all goes by the application", "dim"))

    async def _compact(self, instructions: str) -> None:
        await self.conversation.compact(instructions)
        self._tell(Text("  asked for; the summary is placed between two turns", "dim"))

    async def _reset(self, handoff: str) -> None:
        async with self._saying:
            await self.conversation.reset(handoff or None)
        self.began.set()

    async def _subagents(self, _: str) -> None:
        for line in await subagents(self.harness, self.conversation.id):
            self._tell(line)

    async def _reload(self, _: str) -> None:
        for line in await reloaded(self.harness, self.conversation.id):
            self._tell(line)

    def _quit(self, _: str) -> None:
        self.left.set()


def _user() -> str:
    """Who types here; by number where that has no name, as in a container."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"user {os.getuid()}"


def _required(text: str) -> str:
    if not text:
        raise ValueError("give a text")
    return text
