"""Slots of a quota: so many in any span, one a call, given back at once or by time (spec §5.6)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarry.gates import MemoryQuotas, QuotaStore, SqliteQuotas, quota

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
STORES: dict[str, Callable[[Path], QuotaStore]] = {
    "memory": lambda _: MemoryQuotas(),
    "sqlite": lambda folder: SqliteQuotas(folder / "quotas.db"),
}


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> QuotaStore:
    made: QuotaStore = STORES[request.param](tmp_path)
    return made


def take(store: QuotaStore, task_id: str, at: timedelta = timedelta(0), bucket: str = "b") -> timedelta | None:
    """Ask for one of two slots a minute; how long after noon there is one, None when it was taken."""
    free = store.reserve("q", bucket, task_id, limit=2, window=MINUTE, now=NOON + at)
    return None if free is None else free - NOON


def test_further_calls_are_told_when_the_oldest_slot_is_free(store: QuotaStore) -> None:
    assert [take(store, name, timedelta(seconds=at)) for at, name in enumerate("abc")] == [None, None, MINUTE]
    assert take(store, "c", MINUTE - timedelta(microseconds=1)) == MINUTE
    assert take(store, "c", MINUTE) is None
    assert take(store, "d", MINUTE) == MINUTE + timedelta(seconds=1)


def test_a_call_that_is_asked_again_has_one_slot_that_begins_anew(store: QuotaStore) -> None:
    assert [take(store, "a"), take(store, "a", timedelta(seconds=30)), take(store, "b")] == [None, None, None]
    assert take(store, "c", timedelta(seconds=59)) == MINUTE
    assert take(store, "c", MINUTE) is None
    assert take(store, "d", MINUTE) == MINUTE + timedelta(seconds=30)


def test_a_slot_that_is_given_back_is_free_at_once(store: QuotaStore) -> None:
    assert [take(store, "a"), take(store, "b")] == [None, None]
    store.release("q", "a")
    store.release("q", "a")
    store.release("q", "never had one")

    assert [take(store, "c"), take(store, "d")] == [None, MINUTE]


def test_buckets_and_quotas_share_no_slots(store: QuotaStore) -> None:
    assert [take(store, "a"), take(store, "b"), take(store, "c", bucket="other")] == [None, None, None]
    assert store.reserve("another", "b", "a", limit=1, window=MINUTE, now=NOON) is None
    store.release("another", "a")
    assert take(store, "d") == MINUTE


def test_slots_in_a_file_outlive_the_process_that_took_them(tmp_path: Path) -> None:
    assert [take(SqliteQuotas(tmp_path / "q.db"), name) for name in "abc"] == [None, None, MINUTE]


def test_threads_that_ask_at_once_get_no_slot_too_many(store: QuotaStore) -> None:
    found: list[timedelta | None] = []
    threads = [threading.Thread(target=lambda name=f"t{n}": found.append(take(store, name))) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(one is None for one in found) == [False] * 10 + [True] * 2


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 9), st.booleans()), max_size=40))
def test_no_span_ever_holds_more_than_the_limit_and_who_comes_when_told_is_let_in(
    steps: list[tuple[int, int, bool]],
) -> None:
    store, now, ran = MemoryQuotas(), NOON, dict[str, datetime]()
    for ahead, number, released in steps:
        now += timedelta(seconds=ahead)
        task_id = f"t{number}"
        free = store.reserve("q", "b", task_id, limit=2, window=MINUTE, now=now)
        if free is None:
            ran[task_id] = now
            if released:
                store.release("q", task_id)
                del ran[task_id]
        else:
            assert now < free <= now + MINUTE
        assert sum(at > now - MINUTE for at in ran.values()) <= 2


@pytest.mark.parametrize(("limit", "window"), [(0, MINUTE), (1, timedelta(0))])
def test_a_quota_that_lets_nothing_run_is_refused(limit: int, window: timedelta) -> None:
    with pytest.raises(ValueError, match="at least one call"):
        quota(limit, window, MemoryQuotas())
