"""What an application lets out of payloads, and that one that fails lets out nothing (spec §20.4)."""

from __future__ import annotations

import io
import logging
from datetime import date
from typing import Any

import pytest
from pydantic import SecretStr

from signals.parking import Ask
from tarry.core.protocol import CallError, ResolvedCall
from tarry.redaction import HIDDEN, LogRedaction, Shown, show_ask, show_calls
from workflows.options import summary

CALL = ResolvedCall(call_id="c", tool="pay", arguments={"card": "4711", "amount": 3, "to": {"iban": "DE1"}})


def without_cards(shown: Shown) -> Any:
    if shown.field == "arguments":
        shown.value["to"].clear()
        return {name: value for name, value in shown.value.items() if name != "card"}
    return shown.value.replace("4711", "…")


def broken(shown: Shown) -> Any:
    raise ValueError(f"no idea what to do with {shown.value}")


def test_without_a_redactor_everything_is_shown_as_it_is() -> None:
    assert show_calls(None, [CALL]) == (CALL,)
    assert summary(CALL) == "pay(card='4711', amount=3, to={'iban': 'DE1'})"


def test_arguments_are_shown_as_the_redactor_leaves_them_and_stay_what_they_are() -> None:
    (call,) = show_calls(without_cards, [CALL])

    assert call.arguments == {"card": "4711", "amount": 3, "to": {"iban": "DE1"}}
    assert call.shown == {"amount": 3, "to": {}}
    assert summary(call) == "pay(amount=3, to={})"


def test_a_question_is_shown_as_the_redactor_leaves_it() -> None:
    ask = show_ask(without_cards, Ask(text="Pay with 4711?", for_whom="ana"), "pay")

    assert ask == Ask(text="Pay with …?", for_whom="ana")


@pytest.mark.parametrize(
    "redactor", [broken, lambda _: None, lambda _: 3, lambda shown: [shown.value], lambda _: {"card": object()}]
)
def test_a_redactor_that_fails_lets_nothing_out(redactor: Any, caplog: pytest.LogCaptureFixture) -> None:
    (call,) = show_calls(redactor, [CALL])
    ask = show_ask(redactor, Ask(text="Pay with 4711?"), "pay")

    assert (call.shown, ask) == ({}, Ask(text=HIDDEN))
    assert "4711" not in caplog.text


def test_what_a_redactor_leaves_is_kept_as_json_data() -> None:
    (call,) = show_calls(lambda _: {"card": SecretStr("4711"), "on": date(2030, 1, 31), 1: float("nan")}, [CALL])

    assert call.shown == {"card": "**********", "on": "2030-01-31", "1": None}


def test_a_call_that_cannot_run_is_not_asked_about() -> None:
    refused = ResolvedCall(call_id="c", tool="gone", error=CallError(code="tool_unavailable", text="no such tool"))

    assert show_calls(broken, [refused]) == (refused,)


def logged(redactor: Any) -> str:
    """A message with arguments, and a traceback, as a handler writes them."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.addFilter(LogRedaction(redactor))
    logger = logging.Logger("test")
    logger.addHandler(handler)
    try:
        raise ValueError("the card 4711 was declined")
    except ValueError as error:
        logger.warning("paying with %s failed", "4711", exc_info=error)
    return written.getvalue()


def test_log_lines_and_tracebacks_pass_through_the_redactor() -> None:
    assert "4711" not in logged(without_cards)
    assert "paying with … failed" in logged(without_cards)
    assert "ValueError: the card … was declined" in logged(without_cards)
    assert logged(broken) == f"{HIDDEN}\n{HIDDEN}\n"


def test_a_line_whose_arguments_do_not_fit_harms_nobody_who_logs_it() -> None:
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.addFilter(LogRedaction(without_cards))
    logger = logging.Logger("test")
    logger.addHandler(handler)
    logger.warning("paid %d with 4711", "three")

    assert written.getvalue() == "paid %d with …\n"
