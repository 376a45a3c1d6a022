"""The mailbox of an agent: messages wait in it, in order, until a turn has them (spec §17.3).

Pure. A turn claims every message that waits and is not claimed yet. They stay, and count, until its user turn is
durable; then they are consumed, once. A turn that does not come to that gives them back to where they were.
"""

from __future__ import annotations

from collections.abc import Container

from pydantic import BaseModel, Field

from tarry.core.messages import Frozen
from tarry.core.subagents.protocol import Text
from tarry.core.subagents.refusing import Refused

MAX_CHARACTERS = 131_072
"""Of one message."""
MAX_MESSAGES = 256
MAX_BYTES = 256 * 1024
"""UTF-8, of all messages in a mailbox."""
MAX_INLINE = 1_024
"""UTF-8 bytes of a text that travels itself; a longer one is in the store, so that what a tree carries stays small."""


class Message(Frozen):
    """A message that waits. `claim` names the request that it goes into; empty: none yet."""

    number: int
    text: Text
    claim: str = ""


class Mailbox(BaseModel):
    """Messages in the order in which they came; those that are claimed come first, in the order of their claims."""

    messages: list[Message] = Field(default_factory=list)
    count: int = Field(default=0, description="of all that ever came")

    @property
    def unclaimed(self) -> int:
        """How many messages no turn has claimed."""
        return sum(not message.claim for message in self.messages)

    @property
    def utf8_bytes(self) -> int:
        """Of all messages that wait."""
        return sum(message.text.utf8_bytes for message in self.messages)

    def check(self, text: Text) -> None:
        """Whether there is room for a message.

        Raises:
            Refused: `invalid`, `message_too_large`, or `mailbox_full`; nothing that waits is ever dropped for it.
        """
        check_text(text)
        if len(self.messages) >= MAX_MESSAGES:
            raise Refused(
                "mailbox_full", f"{MAX_MESSAGES} messages wait there: let followup_task start a turn with them first"
            )
        if (size := self.utf8_bytes + text.utf8_bytes) > MAX_BYTES:
            raise Refused(
                "mailbox_full",
                f"the mailbox would hold {size} bytes of UTF-8, {MAX_BYTES} are allowed: let followup_task start a "
                "turn with what waits there first",
            )

    def put(self, text: Text) -> int:
        """Append a message that `check` let through; its number."""
        self.count += 1
        self.messages.append(Message(number=self.count, text=text))
        return self.count

    def claim(self, name: str) -> int:
        """Claim every message that is not claimed yet, under this name; how many."""
        number = self.unclaimed
        self.messages = [one if one.claim else one.model_copy(update={"claim": name}) for one in self.messages]
        return number

    def claimed(self, name: str) -> tuple[Text, ...]:
        """What is claimed under a name, in order."""
        return tuple(message.text for message in self.messages if message.claim == name)

    def consume(self, name: str) -> None:
        """The user turn with these messages is durable; a repeat changes nothing."""
        self.messages = [message for message in self.messages if message.claim != name]

    def give_back(self, name: str, sent: Container[str] = ()) -> None:
        """No user turn came of this claim: its messages wait again, or go with a later claim, lest it overtake.

        `sent`: claims whose messages are on their way, so that none can go along.
        """
        following, kept = "", list[Message]()
        for message in reversed(self.messages):
            if message.claim == name:
                message = message.model_copy(update={"claim": following})
            if message.claim not in sent:
                following = message.claim
            kept.insert(0, message)
        self.messages = kept


def check_text(text: Text) -> None:
    """Whether a text may be a message.

    Raises:
        Refused: `invalid` or `message_too_large`.
    """
    inline = len(text.text.encode("utf-8", "surrogatepass"))
    if text.characters <= 0 or text.utf8_bytes < text.characters:
        raise Refused("invalid", "a message needs a text, and its size in characters and in bytes of UTF-8")
    if inline > MAX_INLINE:
        raise Refused("invalid", f"a text of over {MAX_INLINE} bytes is put into the store, and named by its reference")
    if not text.blob and (len(text.text), inline) != (text.characters, text.utf8_bytes):
        raise Refused("invalid", "the size of the text is not what was said")
    if text.characters > MAX_CHARACTERS:
        raise Refused(
            "message_too_large",
            f"the message has {text.characters} characters, {MAX_CHARACTERS} are allowed: put it into a file and name "
            "that",
        )
    if text.utf8_bytes > MAX_BYTES:
        raise Refused(
            "message_too_large",
            f"the message has {text.utf8_bytes} bytes of UTF-8, {MAX_BYTES} are allowed: put it into a file and name "
            "that",
        )
