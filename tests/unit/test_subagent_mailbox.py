"""The mailbox of an agent: order, limits, claims (spec §17.3)."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tarry.core.subagents.mailbox import MAX_BYTES, MAX_CHARACTERS, MAX_MESSAGES, Mailbox
from tarry.core.subagents.protocol import Text
from tests.support.trees import refusal, text


def filled(*contents: str) -> Mailbox:
    mailbox = Mailbox()
    for content in contents:
        mailbox.check(text(content))
        mailbox.put(text(content))
    return mailbox


def waiting(mailbox: Mailbox) -> list[str]:
    return [message.text.text for message in mailbox.messages]


def test_a_turn_claims_what_waits_and_what_comes_later_stays_for_the_next() -> None:
    mailbox = filled("1", "2")
    assert mailbox.claim("turn") == 2
    mailbox.put(text("3"))
    assert [one.text for one in mailbox.claimed("turn")] == ["1", "2"]
    mailbox.consume("turn")
    assert (waiting(mailbox), mailbox.unclaimed) == (["3"], 1)


def test_a_claim_that_is_given_back_waits_where_it_was() -> None:
    mailbox = filled("1", "2")
    mailbox.claim("turn")
    mailbox.put(text("3"))
    mailbox.give_back("turn")
    assert (waiting(mailbox), mailbox.unclaimed, mailbox.claim("next")) == (["1", "2", "3"], 3, 3)


def test_a_claim_that_is_given_back_is_not_overtaken_by_a_later_claim() -> None:
    mailbox = filled("1")
    mailbox.claim("first")
    mailbox.put(text("2"))
    mailbox.claim("second")
    mailbox.give_back("first")
    assert [one.text for one in mailbox.claimed("second")] == ["1", "2"]


def test_a_claim_that_is_given_back_does_not_go_with_one_that_is_on_its_way() -> None:
    mailbox = filled("1")
    mailbox.claim("first")
    mailbox.put(text("2"))
    mailbox.claim("sent")
    mailbox.put(text("3"))
    mailbox.claim("next")
    mailbox.give_back("first", sent={"first", "sent"})
    assert [[one.text for one in mailbox.claimed(name)] for name in ("sent", "next")] == [["2"], ["1", "3"]]


def test_256_messages_wait_and_the_next_one_is_refused_until_there_is_room() -> None:
    mailbox = filled(*map(str, range(MAX_MESSAGES)))
    assert refusal(lambda: mailbox.check(text("one more"))) == "mailbox_full"
    assert len(mailbox.messages) == MAX_MESSAGES
    mailbox.claim("turn")
    assert refusal(lambda: mailbox.check(text("claimed ones count"))) == "mailbox_full"
    mailbox.consume("turn")
    mailbox.check(text("one more"))


@pytest.mark.parametrize(
    ("waits", "content", "refused"),
    [
        ((), "x" * MAX_CHARACTERS, None),
        ((), "x" * (MAX_CHARACTERS + 1), "message_too_large"),
        ((), "あ" * MAX_CHARACTERS, "message_too_large"),
        (("あ" * 87_381,), "x", None),
        (("あ" * 87_381,), "x" * 10, "mailbox_full"),
        ((), "🙂" * (MAX_BYTES // 4), None),
        (("🙂" * (MAX_BYTES // 4),), "x", "mailbox_full"),
        (("x" * 100_000, "x" * 100_000), "x" * 100_000, "mailbox_full"),
        ((), '"\\\n' * 43_690, None),
        ((), "", "invalid"),
    ],
)
def test_characters_and_bytes_are_limits_of_their_own_exact_at_the_edge(
    waits: tuple[str, ...], content: str, refused: str | None
) -> None:
    mailbox = filled(*waits)
    if refused is None:
        mailbox.check(text(content))
    else:
        assert refusal(lambda: mailbox.check(text(content))) == refused


@pytest.mark.parametrize(
    "lie",
    [
        Text(text="x" * 2_000, characters=2_000, utf8_bytes=2_000),
        Text(text="あ", characters=1, utf8_bytes=1),
        Text(text="ab", characters=1, utf8_bytes=2),
        Text(blob="ref", characters=0, utf8_bytes=0),
        Text(blob="ref", characters=5, utf8_bytes=3),
        Text(text="x" * 2_000, blob="ref", characters=1, utf8_bytes=1),
    ],
)
def test_a_text_that_is_not_what_it_says_is_refused(lie: Text) -> None:
    assert refusal(lambda: Mailbox().check(lie)) == "invalid"


class Mail(RuleBasedStateMachine):
    """Messages come, are claimed, consumed and given back in any order that a tree can lead to."""

    def __init__(self) -> None:
        super().__init__()
        self.mailbox = Mailbox()
        self.sent = 0
        self.consumed: list[str] = []
        self.claims: list[str] = []
        self.names = 0

    @rule()
    def send(self) -> None:
        self.sent += 1
        self.mailbox.put(text(str(self.sent)))

    @rule()
    def claim(self) -> None:
        self.names += 1
        before = self.mailbox.unclaimed
        assert self.mailbox.claim(f"c{self.names}") == before
        self.claims.append(f"c{self.names}")

    @rule()
    @precondition(lambda self: self.claims)
    def consume_the_first(self) -> None:
        name = self.claims.pop(0)
        self.consumed += [one.text for one in self.mailbox.claimed(name)]
        self.mailbox.consume(name)
        self.mailbox.consume(name)

    @rule(data=st.data())
    @precondition(lambda self: self.claims)
    def give_back(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(self.claims))
        self.claims.remove(name)
        self.mailbox.give_back(name)
        self.mailbox.give_back(name)

    @invariant()
    def nothing_is_lost_doubled_or_overtaken(self) -> None:
        assert self.consumed + waiting(self.mailbox) == [str(number) for number in range(1, self.sent + 1)]

    @invariant()
    def claims_come_first_and_in_their_order(self) -> None:
        claims = [message.claim for message in self.mailbox.messages]
        held = [claim for claim in claims if claim]
        assert claims == held + [""] * (len(claims) - len(held))
        assert list(dict.fromkeys(held)) == [name for name in self.claims if name in held]


TestMail = Mail.TestCase
TestMail.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
