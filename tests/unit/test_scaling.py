"""How many workers a supervisor keeps (spec §9.4): the machine alone, one event at a time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from tarry.core.scaling import Scaling, ScalingRules, Start, Stop
from tarry.core.wake_plan import WakePlan

T0 = datetime(2026, 1, 1, tzinfo=UTC)
RULES = ScalingRules(quiet=timedelta(seconds=10), ahead=timedelta(seconds=5), most=3)
IDLE = WakePlan(active=False)
BACKLOG = WakePlan(active=True, why="backlog")
RUNNING = WakePlan(active=True, why="running")


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def due(seconds: float) -> WakePlan:
    return WakePlan(active=False, at=at(seconds))


def scaling(**rules: object) -> Scaling:
    return Scaling(ScalingRules(**{**RULES.__dict__, **rules}))


def serving_one(machine: Scaling) -> Scaling:
    """With one worker that serves, started at 0."""
    machine.saw(BACKLOG, at(0))
    assert machine.decide(at(0)) == Start(1, "backlog", at(0))
    machine.ready()
    return machine


def test_nothing_is_started_while_nothing_is_active_or_due() -> None:
    machine = scaling()
    machine.saw(IDLE, at(0))

    assert (machine.decide(at(0)), machine.next_moment(at(0))) == (None, None)


def test_the_fewest_workers_run_whatever_is_seen() -> None:
    machine = scaling(fewest=2)

    assert machine.decide(at(0)) == Start(2, "minimum", at(0))
    machine.saw(IDLE, at(1))
    machine.saw(IDLE, at(60))
    assert machine.decide(at(60)) is None


def test_what_is_active_starts_one_worker_and_says_what_for_and_since_when() -> None:
    machine = scaling()
    machine.saw(RUNNING, at(1))

    assert machine.decide(at(2)) == Start(1, "running", at(1))
    assert machine.decide(at(2)) is None


def test_a_deadline_that_had_passed_when_it_was_seen_counts_from_the_look() -> None:
    machine = scaling()
    machine.saw(WakePlan(active=True, why="deadline"), at(1))

    assert machine.decide(at(1)) == Start(1, "overdue", at(1))


def test_a_poke_starts_one_worker_at_once_and_more_of_them_no_more() -> None:
    machine = scaling()
    machine.saw(IDLE, at(0))
    machine.poked(at(1))

    assert machine.decide(at(1)) == Start(1, "poke", at(1))
    machine.poked(at(2))
    assert machine.decide(at(2)) is None


def test_workers_are_started_a_little_ahead_of_a_deadline() -> None:
    machine = scaling()
    machine.saw(due(100), at(0))

    assert (machine.decide(at(94)), machine.next_moment(at(94))) == (None, at(95))
    assert machine.decide(at(95)) == Start(1, "deadline", at(100))


def test_a_deadline_that_has_moved_away_starts_nothing() -> None:
    machine = scaling()
    machine.saw(due(100), at(0))
    machine.saw(due(1_000), at(90))

    assert (machine.decide(at(96)), machine.next_moment(at(96))) == (None, at(995))


def test_workers_stop_when_nothing_was_active_for_the_quiet_time() -> None:
    machine = serving_one(scaling())
    machine.saw(IDLE, at(1))
    machine.saw(IDLE, at(3))

    assert (machine.decide(at(10)), machine.next_moment(at(10))) == (None, at(11))
    assert machine.decide(at(11)) == Stop(1)


def test_one_look_that_found_nothing_stops_nobody_however_long_ago() -> None:
    machine = serving_one(scaling())
    machine.saw(IDLE, at(1))

    assert machine.decide(at(100)) is None


def test_anything_active_or_a_poke_begins_the_quiet_time_anew() -> None:
    machine = serving_one(scaling())
    for second in (1, 3):
        machine.saw(IDLE, at(second))
    machine.saw(RUNNING, at(5))
    for second in (7, 9):
        machine.saw(IDLE, at(second))
    assert machine.decide(at(16)) is None
    machine.poked(at(16))
    for second in (17, 19):
        machine.saw(IDLE, at(second))

    assert machine.decide(at(26)) is None
    assert machine.decide(at(27)) == Stop(1)


def test_workers_stay_for_a_deadline_that_is_as_near_as_the_quiet_time_is_long() -> None:
    machine = serving_one(scaling())
    for second in (1, 3, 11):
        machine.saw(due(26), at(second))

    assert machine.decide(at(11)) is None  # they would be back at 21, after ten seconds
    machine.saw(due(100), at(12))
    assert machine.decide(at(12)) == Stop(1)


def test_a_worker_that_is_told_to_stop_makes_room_for_the_next_one_at_once() -> None:
    machine = serving_one(scaling(most=1))
    for second in (1, 3):
        machine.saw(IDLE, at(second))
    assert machine.decide(at(11)) == Stop(1)
    machine.leaves(was_ready=True)
    machine.poked(at(12))

    assert machine.decide(at(12)) == Start(1, "poke", at(12))


def test_a_worker_that_dies_is_replaced_after_a_pause_that_doubles_up_to_a_bound() -> None:
    machine = serving_one(scaling(longest_pause=timedelta(seconds=6)))
    now, pauses = 1.0, []
    for was_ready in (True, False, False, False, False):
        machine.died(at(now), lived=timedelta(seconds=1), was_ready=was_ready)
        assert machine.decide(at(now)) is None
        again = machine.next_moment(at(now))
        assert again is not None
        assert machine.decide(again) == Start(1, "replacement", at(now))
        pauses.append((again - at(now)).total_seconds())
        now += pauses[-1] + 1

    assert pauses == [1, 2, 4, 6, 6]


def test_a_poke_does_not_shorten_the_pause_after_a_death() -> None:
    machine = serving_one(scaling())
    machine.died(at(1), lived=timedelta(seconds=1), was_ready=True)
    machine.poked(at(1.5))

    assert machine.decide(at(1.5)) is None
    assert machine.decide(at(2)) == Start(1, "replacement", at(1))


def test_a_worker_that_lived_long_or_ended_in_order_ends_the_row_of_deaths() -> None:
    lived = serving_one(scaling())
    lived.deaths = 5
    lived.died(at(90), lived=timedelta(seconds=90), was_ready=True)
    left = serving_one(scaling())
    left.deaths = 5
    left.leaves(was_ready=True)
    unready = scaling()
    unready.deaths, unready.running = 5, 1
    unready.leaves(was_ready=False)

    assert (lived.deaths, left.deaths, unready.deaths) == (1, 0, 5)


def test_one_more_worker_is_started_when_tasks_keep_waiting_though_all_serve_up_to_the_most() -> None:
    machine = serving_one(scaling())
    machine.saw(BACKLOG, at(1))
    assert machine.decide(at(10)) is None
    assert machine.decide(at(11)) == Start(1, "growth", at(11))
    machine.saw(BACKLOG, at(12))
    assert machine.decide(at(30)) is None  # the second one does not serve yet
    machine.ready()
    machine.saw(BACKLOG, at(31))
    assert machine.decide(at(41)) == Start(1, "growth", at(41))
    machine.ready()
    machine.saw(BACKLOG, at(42))

    assert machine.decide(at(60)) is None


def test_a_queue_that_was_emptied_in_between_lets_nothing_grow() -> None:
    machine = serving_one(scaling())
    for second, plan in ((1, BACKLOG), (9, RUNNING), (10, BACKLOG)):
        machine.saw(plan, at(second))

    assert machine.decide(at(12)) is None


_EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["idle", "backlog", "running", "due", "poke", "ready", "death"]),
        st.floats(min_value=0, max_value=30),
    ),
    max_size=60,
)


@given(_EVENTS, st.integers(0, 2), st.integers(2, 4))
def test_whatever_happens_there_are_never_more_than_the_most_and_a_need_is_served_or_paused(
    events: list[tuple[str, float]], fewest: int, most: int
) -> None:
    machine = scaling(fewest=fewest, most=most)
    now = 0.0
    for event, passed in events:
        now += passed
        if event == "ready" and machine.serving < machine.running:
            machine.ready()
        elif event == "death" and machine.running:
            machine.died(at(now), lived=timedelta(seconds=passed), was_ready=machine.serving == machine.running)
        elif event == "poke":
            machine.poked(at(now))
        elif event in ("idle", "backlog", "running", "due"):
            seen = {"idle": IDLE, "backlog": BACKLOG, "running": RUNNING, "due": due(now + 20)}
            machine.saw(seen[event], at(now))
        match machine.decide(at(now)):
            case Stop(number=number):
                for _ in range(number):
                    machine.leaves(was_ready=machine.serving == machine.running)
        assert 0 <= machine.serving <= machine.running <= machine.size <= most
        assert machine.size >= fewest
        is_paused = machine.not_before is not None and machine.not_before > at(now)
        assert machine.running == machine.size or is_paused
        if event in ("backlog", "running", "poke"):
            assert machine.size >= 1
