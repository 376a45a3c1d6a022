"""The pass that judges what came is told of the very keys that the call holds after its wake (spec §5.7)."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from temporalio.contrib.pydantic import pydantic_data_converter

from signals.box import Box, Delivery
from signals.parking import Park, commit, wake
from signals.tokens import SignalKey
from tarry.core.gates import Arrived, Incoming, Judged, Pass, PassEnd, PassInput, keys_digest, woken
from tarry.core.protocol import ResolvedCall
from tarry.core.waiting import Verdict

NOW = datetime(2026, 6, 1, tzinfo=UTC)
AWAITED = (SignalKey("s", "a"), SignalKey("s", "b"))
PARK = Park(since=NOW, until=NOW + timedelta(hours=1), keys=AWAITED)
CALL = ResolvedCall(call_id="c", tool="edit", arguments={"path": "a"}, gated="quick")

numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | numbers | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
) | st.just("x" * 150_000)
deliveries = st.builds(
    Delivery,
    signal=st.sampled_from("st"),
    key=st.sampled_from(["a", "b", "c", "d/\n😀", ""]),
    value=values,
    version=st.none() | st.integers(1, 3),
    delivery_id=st.sampled_from(["", "1", "2"]),
)
seconds = st.integers(0, 3_599).map(lambda ahead: NOW + timedelta(seconds=ahead, microseconds=ahead))
arrivals = st.tuples(
    st.builds(Incoming, delivery=deliveries, at=seconds, late=st.booleans()),
    st.builds(Verdict, invalid=st.none() | st.just("no"), version=st.integers(1, 3)),
)


def take(box: Box, one: Incoming, verdict: Verdict) -> None:
    """As the port does."""
    box.take(
        one.delivery,
        verdict.invalid,
        verdict.version,
        one.at,
        awaited=PARK.keys,
        deadline_passed=one.late,
        closed=False,
    )


def asked(box: Box, incoming: tuple[Incoming, ...]) -> PassInput:
    """What is asked, as it comes out of the wire."""
    input = PassInput(
        task_id="t",
        conversation_id="c",
        caller="g",
        call=CALL,
        keys=box.keys,
        memos=box.memos,
        arrived=Arrived.before(incoming, PARK, box),
    )
    converter = pydantic_data_converter.payload_converter
    (found,) = converter.from_payloads(converter.to_payloads([input]), [PassInput])
    assert isinstance(found, PassInput)
    return found


@given(st.lists(arrivals, max_size=6), st.lists(arrivals, min_size=1, max_size=6), st.integers(0, 300_000))
def test_the_pass_has_the_keys_of_the_call_after_its_wake_and_there_is_none_without_one(
    earlier: list[tuple[Incoming, Verdict]], now: list[tuple[Incoming, Verdict]], memo: int
) -> None:
    box = Box()
    box.memo("m", "x" * memo)
    for one, verdict in earlier:
        take(box, one, verdict)
    input = asked(box, tuple(one for one, _ in now))
    assert input.arrived is not None
    before = copy.deepcopy(input)

    found = woken(input, input.arrived, [verdict for _, verdict in now])

    for one, verdict in now:
        take(box, one, verdict)
    reason = wake(PARK, box, NOW)
    if reason is None:
        assert found is None
    else:
        commit(PARK, reason, box)
        assert found is not None
        assert (found.keys, keys_digest(found.keys)) == (box.keys, keys_digest(box.keys))
        assert found == input.model_copy(update={"keys": box.keys, "arrived": None})
    assert input == before


def test_other_keys_have_another_digest() -> None:
    boxes = [Box() for _ in range(4)]
    for number, box in enumerate(boxes[1:], 1):
        delivery = Delivery(signal="s", key="a", value=number if number < 3 else True)
        box.take(delivery, None, 1, NOW, awaited=AWAITED)
    boxes.append(copy.deepcopy(boxes[1]))
    boxes[-1].consume(AWAITED[0])

    assert len({keys_digest(box.keys) for box in boxes}) == len(boxes)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"decision": "run"}, Pass(decision="run")),
        ({"verdicts": [{"version": 2}]}, Judged(verdicts=(Verdict(version=2),))),
        (
            {"verdicts": [], "found": {"decision": "run"}, "keys": "k"},
            Judged(verdicts=(), found=Pass(decision="run"), keys="k"),
        ),
    ],
)
def test_an_answer_is_read_as_what_it_is(answer: dict[str, Any], expected: Pass | Judged) -> None:
    assert PassEnd.model_validate(answer).root == expected
    assert PassEnd.model_validate_json(expected.model_dump_json()).root == expected
