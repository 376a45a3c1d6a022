"""The benches run, name the server they measured on, and tell people and programs the same facts."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from bench import parked, run_cost, subagents
from tarry.embedded import DYNAMIC_CONFIG, SQLITE_PRAGMAS
from tests.support.programs import PATIENCE

BENCH = Path(__file__).parents[2] / "bench"
SERVER = f"Server: in memory, {', '.join(DYNAMIC_CONFIG)}"


def run(script: str, *options: str) -> subprocess.CompletedProcess[str]:
    """A bench, run to its end as a person runs it."""
    command = [sys.executable, str(BENCH / script), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)


def facts_of(script: str, *options: str) -> dict[str, Any]:
    """The one object that `--json` prints; nothing else is on stdout."""
    ended = run(script, *options, "--json")
    assert ended.returncode == 0, ended.stderr
    facts: dict[str, Any] = json.loads(ended.stdout)
    return facts


@pytest.fixture(scope="module")
def cost() -> dict[str, Any]:
    return facts_of("run_cost.py", "--runs", "2", "--rounds", "2", "--concurrency", "2")


def test_run_cost_compares_both_sides_within_each_round(cost: dict[str, Any]) -> None:
    assert [set(figures) for figures in cost["rounds"]] == [{"ours", "flat"}] * 2
    for name, ratio in cost["ratio"].items():
        ratios = [figures["ours"][name] / figures["flat"][name] for figures in cost["rounds"]]
        assert [ratio["low"], ratio["high"]] == pytest.approx([min(ratios), max(ratios)], abs=0.01)
        assert ratio["low"] <= ratio["median"] <= ratio["high"]


def test_run_cost_counts_what_the_shapes_cost(cost: dict[str, Any]) -> None:
    ours, flat = cost["median"]["ours"], cost["median"]["flat"]

    assert (flat["events"], flat["workflow_tasks"]) == (23, 4)
    assert ours["events"] <= 52
    assert ours["workflow_tasks"] <= 10


def test_run_cost_names_the_server_to_people_and_programs(cost: dict[str, Any]) -> None:
    shown = io.StringIO()

    run_cost.show(Console(file=shown, width=80), cost)

    assert cost["server_flags"] == ["in memory", *DYNAMIC_CONFIG]
    assert SERVER in shown.getvalue()
    assert f"{cost['ratio']['events']['median']:.2f}" in shown.getvalue()


def test_long_conversation_marks_the_turns_asked_for() -> None:
    facts = facts_of("long_conversation.py", "--turns", "12")

    assert [mark["turn"] for mark in facts["marks"]] == [10, 12]
    assert all(mark["bytes"] == mark["conversation_bytes"] + mark["generations_bytes"] for mark in facts["marks"])
    first, last = facts["marks"]
    assert last["bytes_per_turn"] == pytest.approx((last["bytes"] - first["bytes"]) / 2, abs=1)
    assert (facts["continued_as_new"], facts["carried_bytes"]) == (0, None)


CALLS = 12


@pytest.fixture(scope="module")
def parked_facts() -> dict[str, Any]:
    return facts_of("parked.py", "--n", str(CALLS), "--watch", "1")


def test_parked_counts_what_a_call_keeps_and_that_waiting_adds_nothing(parked_facts: dict[str, Any]) -> None:
    off, history, whole = (parked_facts[part] for part in ("workers_off", "history", "conversation"))

    assert [off[name] for name in ("calls", "history_events", "worker_processes", "pollers")] == [CALLS, 0, 0, 0]
    assert history["events"] == 13
    assert history["bytes"] < 4_000
    assert history["events"] < whole["events"] <= 39


def test_parked_drains_every_call_and_measures_both_roads_warm_and_cold(parked_facts: dict[str, Any]) -> None:
    resume, drain = parked_facts["resume"], parked_facts["drain"]
    latencies = [resume[road][state] for road in ("update", "signal") for state in ("warm", "cold")]

    assert (drain["calls"], resume["samples"], parked_facts["cached_calls"]) == (CALLS, 2, CALLS)
    assert all(0 < figures["p50_ms"] <= figures["p95_ms"] for figures in latencies)
    ratio = latencies[1]["p50_ms"] / latencies[0]["p50_ms"]
    assert resume["update"]["ratio"]["p50_ms"] == pytest.approx(ratio, abs=0.01)


def test_parked_tells_people_what_it_tells_programs(parked_facts: dict[str, Any]) -> None:
    shown = io.StringIO()

    parked.show(Console(file=shown, width=80), parked_facts)

    flags = ["in a file", *SQLITE_PRAGMAS, *DYNAMIC_CONFIG]
    assert parked_facts["server_flags"] == flags
    assert f"Server: {', '.join(flags)}" in shown.getvalue()
    assert set(parked_facts["bytes"]) == {"server", "worker", "database"}
    assert f"{parked_facts['bytes']['database']['after'] / 1e6:,.1f}" in shown.getvalue()
    assert f"{parked_facts['drain']['calls_per_second']:,g} calls/s" in shown.getvalue()


CHILDREN = 3


@pytest.fixture(scope="module")
def tree_facts() -> dict[str, Any]:
    return facts_of("subagents.py", "--children", str(CHILDREN), "--limits", "2")


def test_subagents_counts_where_a_child_a_message_and_a_turn_cost_what(tree_facts: dict[str, Any]) -> None:
    [found] = tree_facts["limits"]
    phases = {phase: (parts["tree"], parts["root"], parts["child"]) for phase, parts in found["phases"].items()}

    assert list(phases) == list(subagents.PHASES)
    for parts in phases.values():
        assert all(part["events"] > 0 and part["bytes"] > 0 for part in parts[:2])
    began, read, message, turn = (parts[2] for parts in phases.values())
    assert (read["events"], message["events"]) == (0, 0)
    assert (began["activities"], turn["activities"]) == (2, 2)
    assert 0 < found["peak"] <= found["limit"] == 2
    assert found["waits"] >= 2


def test_subagents_tells_people_what_it_tells_programs(tree_facts: dict[str, Any]) -> None:
    shown = io.StringIO()

    subagents.show(Console(file=shown, width=120), tree_facts)

    assert SERVER in shown.getvalue()
    assert f"{tree_facts['limits'][0]['children_per_second']:g} children/s" in shown.getvalue()


def test_a_bench_without_json_prints_a_table_and_the_server() -> None:
    ended = run("long_conversation.py", "--turns", "1")

    assert ended.returncode == 0, ended.stderr
    assert "events/turn" in ended.stdout
    assert SERVER in ended.stdout


@pytest.mark.parametrize(
    ("script", "option", "value"),
    [
        ("run_cost.py", "--rounds", "0"),
        ("run_cost.py", "--runs", "-1"),
        ("run_cost.py", "--concurrency", "many"),
        ("parked.py", "--n", "9"),
        ("subagents.py", "--children", "1001"),
    ],
)
def test_a_bench_refuses_what_cannot_be_counted(script: str, option: str, value: str) -> None:
    ended = run(script, option, value)

    assert (ended.returncode, ended.stdout) == (2, "")
    assert option in ended.stderr
