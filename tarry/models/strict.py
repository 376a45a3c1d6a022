"""A strict provider's rules: what the pickiest of them refuses, checked without one.

The rules are of the field, not of ours: a request that passes is taken by every provider (spec §6.4).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from tarry.core.messages import AssistantMessage, Message, SystemMessage, ToolCallRequest, ToolMessage, UserMessage
from tarry.models import ModelError, ModelRequest

_LEGAL_NAME = re.compile("[a-zA-Z0-9_-]{1,64}")


class InvalidRequest(ModelError):
    """A request no provider should see. Permanent, as a provider's answer 400 is."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"invalid request: {reason}", "permanent")
        self.reason = reason


def check_request(request: ModelRequest) -> None:
    """Let a valid request pass.

    Raises:
        InvalidRequest: the first rule that `request` breaks, and the message that breaks it.
    """
    _check_text(request.instructions, "the instructions")
    _check_tools(request)
    if not request.messages:
        raise InvalidRequest("there are no messages")
    if not isinstance(request.messages[0], UserMessage):
        raise InvalidRequest(f"message 0 is of role {request.messages[0].role}, not of the user")
    _check_messages(request.messages)


def _check_messages(messages: tuple[Message, ...]) -> None:
    ids: set[str] = set()
    numbered = iter(enumerate(messages))
    for index, message in numbered:
        where = f"message {index}"
        _check_text(message.text, where)
        match message:
            case UserMessage() | SystemMessage():
                if not message.text.strip():
                    raise InvalidRequest(f"{where}: the {message.role}'s text is empty")
            case ToolMessage():
                raise InvalidRequest(f"{where}: a result of {message.call_id!r}, which is no open call of a response")
            case AssistantMessage():
                _check_assistant(message, where)
                for call in message.calls:
                    _check_call(call, where, ids)
                    _check_result(call, numbered)


def _check_assistant(message: AssistantMessage, where: str) -> None:
    if message.is_empty:
        raise InvalidRequest(f"{where}: the response is empty")
    if message.stop == "aborted":
        raise InvalidRequest(f"{where}: the response was aborted")


def _check_call(call: ToolCallRequest, where: str, ids: set[str]) -> None:
    if not call.call_id.strip():
        raise InvalidRequest(f"{where}: a call of {call.name} has no id")
    if call.call_id in ids:
        raise InvalidRequest(f"{where}: the call id {call.call_id!r} was used before")
    ids.add(call.call_id)
    _check_name(call.name, where)
    try:
        arguments = json.loads(call.arguments, parse_constant=_refuse)
        json.dumps(arguments, ensure_ascii=False).encode()
    except ValueError as error:
        raise InvalidRequest(f"{where}: the arguments of {call.name} are not JSON: {error}") from error
    if not isinstance(arguments, dict):
        raise InvalidRequest(f"{where}: the arguments of {call.name} are not an object")


def _check_result(call: ToolCallRequest, following: Iterator[tuple[int, Message]]) -> None:
    """The very next message answers `call`."""
    index, message = next(following, (-1, None))
    if not isinstance(message, ToolMessage):
        raise InvalidRequest(f"no result of {call.call_id!r} in its place directly behind its response")
    if message.call_id != call.call_id:
        raise InvalidRequest(f"message {index}: a result of {message.call_id!r} where {call.call_id!r} has its place")
    if message.name != call.name:
        raise InvalidRequest(f"message {index}: the result is of {message.name}, the call of {call.name}")
    _check_text(message.text, f"message {index}")


def _check_tools(request: ModelRequest) -> None:
    names = [tool.name for tool in request.tools]
    for tool in request.tools:
        _check_name(tool.name, "the tools")
        _check_text(tool.description, f"the description of {tool.name}")
        if names.count(tool.name) > 1:
            raise InvalidRequest(f"two tools are named {tool.name}")
        if tool.parameters.get("type") != "object":
            raise InvalidRequest(f"the parameters of {tool.name} are not the schema of an object")


def _check_name(name: str, where: str) -> None:
    if not _LEGAL_NAME.fullmatch(name):
        raise InvalidRequest(f"{where}: the tool name {name!r} is not 1 to 64 letters, digits, _ or -")


def _check_text(text: str, where: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidRequest(f"{where}: the text is not valid Unicode: {error}") from error


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is no JSON number")
