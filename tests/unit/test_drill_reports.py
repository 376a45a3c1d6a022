"""What a drill tells: its steps, and the drawing that a person is shown."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console, RenderableType

from tarry.cli import drill_story
from tarry.drills.kit.cell import Cell
from tarry.drills.kit.drill import drill
from tarry.drills.kit.ground import Ground
from tarry.drills.kit.report import DrillReport, StepReport
from tarry.drills.kit.step import Step
from tarry.drills.registry import DRILLS, UnknownDrill, drills_named

OK = StepReport(title="Look", did=("temporal workflow list",), expected="one", found=(), ok=True, seconds=0.4)
WRONG = StepReport(title="Count", did=("counted",), expected="two", found=("1 (wanted: 2)",), ok=False, seconds=1.0)


def drawn(what: RenderableType) -> str:
    console = Console(width=120, color_system=None)
    with console.capture() as capture:
        console.print(what)
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


def report_of(*steps: StepReport, problem: str = "", matrix: tuple[Cell, ...] = ()) -> DrillReport:
    ok = not problem and all(step.ok for step in steps)
    return DrillReport(
        name="one", title="One.", ok=ok, problem=problem, seconds=1.4, state="x", steps=steps, matrix=matrix
    )


def test_a_step_tells_facts_and_what_was_wanted_instead_and_one_wrong_fact_fails_it() -> None:
    step = Step("Count", "two", {})
    step.did("counted")
    step.check("tickets", 2, 2)
    step.check("read", ["interrupted"], [])
    step.check("left", {"done": 3}, {"done": 3})
    step.check("nobody", None, None)
    step.found("it rains")

    assert step.report(1.23) == StepReport(
        title="Count",
        did=("counted",),
        expected="two",
        found=("tickets: 2", "read: interrupted (wanted: nothing)", "left: done 3", "nobody: nothing", "it rains"),
        ok=False,
        seconds=1.2,
    )


async def test_a_step_waits_for_a_fact_and_tells_it() -> None:
    answers = iter([1, 2, 3])

    async def count() -> int:
        return next(answers)

    step = Step("Wait", "three", {})
    await step.until("counted", count, 3)

    assert step.report(0).found == ("counted: 3",)


def test_the_title_of_a_drill_is_the_first_line_of_its_docstring() -> None:
    @drill("rain")
    async def rain(on: Ground) -> None:
        """It rains.

        Nobody knows why.
        """

    assert (rain.name, rain.title) == ("rain", "It rains.")


def test_drills_are_found_by_name_each_once_in_the_order_of_the_list() -> None:
    first, second = DRILLS[:2]

    assert drills_named([second.name, first.name, second.name]) == [first, second]
    with pytest.raises(UnknownDrill, match="there is no drill 'rain': known are crash-matrix, list-parked"):
        drills_named([first.name, "rain"])


def test_names_of_drills_differ() -> None:
    assert len({one.name for one in DRILLS}) == len(DRILLS)


def test_a_person_reads_of_each_step_what_was_done_expected_and_found() -> None:
    assert (
        drawn(drill_story.told(report_of(OK, WRONG, problem="CommandFailed: no")))
        == """
one  One.  FAILED

 1  Look  ok
    did       temporal workflow list
    expected  one
    found     as expected

 2  Count  FAILED
    did       counted
    expected  two
    found     1 (wanted: 2)

    ended before its end: CommandFailed: no
"""
    )


def test_the_matrix_has_a_row_for_each_point_with_the_effects_of_one_call_and_what_was_read() -> None:
    twice = Cell(policy="safe", point="in the tool", calls=3, runs=6, effects=6, duplicates=3, read={"Opened": 3})
    never = twice.model_copy(update={"policy": "unsafe", "effects": 0, "duplicates": 0, "read": {"interrupted": 3}})

    told = drawn(drill_story.summary([report_of(OK, matrix=(never, twice))], Path("there")))

    assert "in the tool            0 interrupted  2 Opened" in told
    assert "Happened twice: unsafe 0, safe, no key 3, safe, keyed 0, unsafe, reconciled 0." in told
