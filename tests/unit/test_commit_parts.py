"""The parts of a commit are checked before it is sent: what it names can be started and taken (spec §7.3)."""

from __future__ import annotations

import pytest

from tarry import DurableTask, Send, Signal, Start
from tarry.client.commits import Sender
from tarry.core.commits import CommitInput, SendSignal, StartTask
from tarry.settings import load_settings

NEWS = Signal("app.news", 1, str)


def composed(*, send: Send[str] | None = None, start: Start[str] | None = None) -> CommitInput:
    sender = Sender(load_settings(), "c", "client", "c~n")
    return sender.compose("k", [], [], [send] if send else [], [start] if start else [])


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("", "it rains", "a key has 1 to 8192 bytes, this one has 0"),
        ("k" * 8_193, "it rains", "a key has 1 to 8192 bytes, this one has 8193"),
        ("k", "x" * 300_000, "the value has 300002 bytes, 262144 are allowed; send a reference instead"),
    ],
)
def test_a_signal_that_no_task_could_take_is_refused_with_its_reason(key: str, value: str, problem: str) -> None:
    with pytest.raises(ValueError, match=f"^the signal app.news to t: {problem}$"):
        composed(send=Send("t", NEWS, key, value))


def test_a_signal_that_a_task_may_take_is_sent() -> None:
    (sent,) = composed(send=Send("t", NEWS, "k", "it rains")).sends

    assert isinstance(sent, SendSignal)
    assert (sent.task_id, sent.delivery.target, sent.delivery.value) == ("t", NEWS.key("k"), "it rains")


@pytest.mark.parametrize("key", ["k" * 100, "k" * 101, "k" * 2_000, "a key/with ~ anything"])
def test_a_task_has_an_id_that_can_be_started_whatever_its_key(key: str) -> None:
    topics = DurableTask("app.wait", str, str)

    @topics.phase
    async def begin(topic: str) -> str:
        return topic

    (started,) = composed(start=Start(topics, "a", key)).sends

    assert isinstance(started, StartTask)
    prefix, name = started.task_id.split("/k.")
    assert (prefix, name == key) == ("c~n", len(key) <= 100 and key.isalnum())
    assert len(name) <= 100
