"""What spans hold of messages (spec §24.4)."""

from __future__ import annotations

import json

from tarry.core.messages import UserMessage
from tarry.seeing.content import Content

SAID = UserMessage(text="half a pair: \ud800")


def test_a_message_is_not_even_made_into_text_unless_content_is_shown() -> None:
    assert Content().message("said", SAID) == {}


def test_a_message_that_no_wire_takes_is_shown_with_what_is_wrong_replaced() -> None:
    shown = Content(is_shown=True).message("said", SAID)["said"]

    assert isinstance(shown, str)
    assert json.loads(shown)["text"] == "half a pair: \ufffd"
