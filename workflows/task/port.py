"""The port of a task: how values from the world come in, by update or by plain signal, judged in order.

Nothing that comes is trusted and nothing fails a workflow task: what cannot be read, or what its token
refuses, is answered and leaves a receipt (spec §3.2 to §3.4). Who gives the verdicts is given to the port; where a
plain signal is first seen at or after the deadline it is for, an activity asks the history which of the two came first
(spec §3.7).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pydantic import ValidationError
from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ActivityError, ApplicationError

from signals.box import Answer, Box, Delivery, Receipt
from signals.data import clean, json_size
from signals.schema import MAX_NAME
from tarry import serving
from tarry.core.task_state import State
from tarry.core.waiting import (
    CROWDED,
    REFEREE,
    REFUSED,
    RefereeInput,
    Ruling,
    Verdict,
)
from tarry.seeing import metrics
from workflows import ends, metering, options
from workflows.supervise import StopSwitch
from workflows.task.judging import Arrival, Judging

MAX_UPDATES = 1_800
"""Temporal takes 2,000 updates in one run; the rest is for results and Stop (spec §1.5)."""
MAX_BATCH = 100
MAX_BATCH_BYTES = 1024 * 1024
"""Deliveries that are judged at once: so many, and so many bytes of them, but always one. Both decide on commands:
change them only behind `workflow.patched`."""


class Port:
    """The door of one task, with what came through it in `box`. `judging` gives the verdicts."""

    def __init__(self, box: Box, state: State, stop: StopSwitch) -> None:
        self._box = box
        self._state = state
        self._stop = stop
        self._queue: list[Arrival] = []
        self._is_over = False
        self.judging = Judging(stop)
        self.signals = 0
        self.updates = 0

    @property
    def is_quiet(self) -> bool:
        """Whether everything that came has its receipt."""
        return not self._queue

    @property
    def is_closed(self) -> bool:
        """Whether nothing is taken any more: the task holds its outcome, or was stopped."""
        return self._is_over or self._stop.is_set

    def close(self) -> None:
        """The task holds its outcome: from here on every delivery is `closed`."""
        self._is_over = True

    def count_signal(self) -> None:
        """A plain signal came, whatever its name: the referee finds it by its number."""
        self.signals += 1

    def check(self, delivery: Delivery) -> None:
        """For an update's validator: refuse now what would be refused anyway, and leave no event.

        Raises:
            ApplicationError: REFUSED with the receipt it would have, or CROWDED.
        """
        # What came before it, and is not judged yet, may decide.
        if self.is_closed or not self._queue:
            self._check_answer(delivery)
        if self.updates >= MAX_UPDATES:
            raise ApplicationError("this run has taken as many updates as it may", type=CROWDED)

    def _check_answer(self, delivery: Delivery) -> None:
        invalid = serving.judge(workflow.info().task_queue, delivery)
        answer, reason = self._answer(delivery, invalid)
        is_repeat = self._box.answered(delivery) is not None
        if answer != "delivered" or is_repeat:
            if not is_repeat:
                metering.count(metrics.DELIVERIES, answer=answer)
            raise ApplicationError(reason or answer, self._told(delivery, answer, reason), type=REFUSED)

    async def deliver(self, delivery: Delivery) -> Receipt:
        """For an update's handler: the receipt, once it is judged."""
        self.updates += 1
        now = workflow.now()
        park = self._state.park
        late = park is not None and park.is_over(now)
        arrival = Arrival(delivery, now, late=late, problem=delivery.problem or "")
        self._post(arrival)
        await workflow.wait_condition(lambda: arrival.receipt is not None)
        assert arrival.receipt is not None
        return arrival.receipt

    def receive(self, name: str, args: Sequence[RawValue]) -> None:
        """A plain signal: the name is the token's, the one input an object with key and value (spec §3.3)."""
        arrival = Arrival(Delivery(signal=clean(name, MAX_NAME), key=""), workflow.now(), self.signals)
        try:
            envelope = _envelope(args)
            arrival.delivery = _best_effort(arrival.delivery, envelope)
            arrival.delivery = Delivery.model_validate({"signal": name} | envelope)
            arrival.problem = arrival.delivery.problem or ""
        except (ValueError, TypeError) as error:
            arrival.problem = _said(error)
        self._post(arrival)

    async def serve(self) -> None:
        """Judge what comes, in order, for as long as the run lasts."""
        while True:
            await workflow.wait_condition(lambda: bool(self._queue))
            batch = list(self._batch())
            verdicts = await self._judge(batch)
            late = await self._late(batch)
            for arrival, verdict in zip(batch, verdicts, strict=True):
                self._take(arrival, verdict, is_late=arrival.late or arrival.number in late)
            del self._queue[: len(batch)]

    def _batch(self) -> Iterator[Arrival]:
        size = 0
        for arrival in self._queue[:MAX_BATCH]:
            # What is refused already is not sent to be judged.
            size += 0 if arrival.problem else json_size(arrival.delivery.value)
            if size > MAX_BATCH_BYTES:
                return
            yield arrival

    def _post(self, arrival: Arrival) -> None:
        if self.is_closed and not self._queue:
            self._take(arrival, Verdict(), is_late=False)
        else:
            self._queue.append(arrival)

    def _take(self, arrival: Arrival, verdict: Verdict, *, is_late: bool) -> None:
        park = self._state.park
        is_repeat = self._box.answered(arrival.delivery) is not None
        arrival.receipt = self._box.take(
            arrival.delivery,
            arrival.problem or verdict.invalid,
            verdict.version,
            arrival.seen,
            awaited=park.keys if park else (),
            deadline_passed=is_late,
            closed=self.is_closed,
        )
        if not is_repeat:
            metering.count(metrics.DELIVERIES, answer=arrival.receipt.answer)

    def _answer(self, delivery: Delivery, invalid: str | None) -> tuple[Answer, str]:
        park = self._state.park
        return self._box.answer(
            delivery,
            invalid,
            awaited=park.keys if park else (),
            deadline_passed=park is not None and park.is_over(workflow.now()),
            closed=self.is_closed,
        )

    def _told(self, delivery: Delivery, answer: Answer, reason: str) -> Receipt:
        known = self._box.answered(delivery)
        return known or Receipt(
            delivery_id=delivery.delivery_id,
            signal=clean(delivery.signal, MAX_NAME),
            key=clean(delivery.key, MAX_NAME),
            answer=answer,
            at=workflow.now(),
            reason=reason,
        )

    async def _judge(self, batch: list[Arrival]) -> Iterable[Verdict]:
        """What the registry says of them; where it says nothing at all, that they could not be judged."""
        doubtful = [arrival for arrival in batch if not arrival.problem]
        # Whatever is said of a value, a task that is over does not take it.
        if not doubtful or self.is_closed:
            return [Verdict()] * len(batch)
        verdicts = iter(await self.judging.verdicts(doubtful))
        return [Verdict() if arrival.problem else next(verdicts) for arrival in batch]

    async def _late(self, batch: list[Arrival]) -> set[int]:
        """The numbers of the plain signals that the server stored too late for the park."""
        park = self._state.park
        if park is None or park.until is None:
            return set()
        numbers = tuple(arrival.number for arrival in batch if arrival.is_doubtful(park, self._box))
        if not numbers:
            return set()
        try:
            input = RefereeInput(numbers=numbers, deadline=park.until)
            answer = await self._stop.watch(
                workflow.start_activity(REFEREE, input, result_type=RawValue, **options.REFEREE)
            )
        except ActivityError:  # by a Stop, or given up by hand: nobody can say that they were in time
            return set(numbers)
        ruling = ends.read(answer, Ruling)
        return set(numbers) - set(ruling.in_time if ruling else ())


def _envelope(args: Sequence[RawValue]) -> dict[str, Any]:
    if len(args) != 1:
        raise ValueError(f"one JSON object with key and value is expected, {len(args)} inputs came")
    try:
        found = workflow.payload_converter().from_payload(args[0].payload)
    # Anything at all may come from outside, and an exception here would wedge the workflow.
    except Exception as error:
        raise ValueError(f"it is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"one JSON object with key and value is expected, not a {type(found).__name__}")
    unknown = sorted(str(name) for name in found.keys() - {"key", "value", "version", "delivery_id"})
    if unknown:
        raise ValueError(f"unknown field {unknown[0]!r}; known are key, value, version and delivery_id")
    if missing := [name for name in ("key", "value") if name not in found]:
        raise ValueError(f"the field {missing[0]!r} is missing")
    return found


def _best_effort(delivery: Delivery, envelope: dict[str, Any]) -> Delivery:
    """What can be told of an envelope that may not be right: its receipt is found by these."""
    readable = {name: envelope.get(name) for name in ("key", "delivery_id") if isinstance(envelope.get(name), str)}
    return delivery.model_copy(update=readable)


def _said(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return clean(str(error), 400)
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return clean(f"{'.'.join(map(str, first['loc']))}: {first['msg']}", 400)
