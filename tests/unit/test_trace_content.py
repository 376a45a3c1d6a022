"""What spans hold of messages (spec §24.4)."""

from __future__ import annotations

import json
from typing import Any

from tarry.core.messages import UserMessage
from tarry.redaction import Shown
from tarry.seeing.content import Content

SAID = UserMessage(text="half a pair: \ud800")


def test_a_message_is_not_even_made_into_text_unless_content_is_shown() -> None:
    assert Content().message("said", SAID) == {}


def test_a_message_that_no_wire_takes_is_shown_with_what_is_wrong_replaced() -> None:
    shown = Content(is_shown=True).message("said", SAID)["said"]

    assert isinstance(shown, str)
    assert json.loads(shown)["text"] == "half a pair: \ufffd"


def test_what_a_redactor_changes_in_the_arguments_that_it_is_shown_changes_nothing_that_runs() -> None:
    def without_account(shown: Shown) -> Any:
        shown.value["to"].clear()
        return shown.value

    arguments = {"to": {"iban": "DE1"}, "amount": 3}
    shown = Content(is_shown=True, redact=without_account).arguments("given", arguments, "pay")

    assert shown == {"given": '{"to": {}, "amount": 3}'}
    assert arguments == {"to": {"iban": "DE1"}, "amount": 3}
