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

from bench import run_cost
from tarry.embedded import DYNAMIC_CONFIG

BENCH = Path(__file__).parents[2] / "bench"
SERVER = f"Server: in memory, {', '.join(DYNAMIC_CONFIG)}"
PATIENCE = 120
"""Seconds. What is run here takes some five, when nothing else runs."""


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
    assert ours["events"] <= 51
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


def test_a_bench_without_json_prints_a_table_and_the_server() -> None:
    ended = run("long_conversation.py", "--turns", "1")

    assert ended.returncode == 0, ended.stderr
    assert "events/turn" in ended.stdout
    assert SERVER in ended.stdout


@pytest.mark.parametrize("options", [("--rounds", "0"), ("--runs", "-1"), ("--concurrency", "many")])
def test_a_bench_refuses_what_cannot_be_counted(options: tuple[str, str]) -> None:
    ended = run("run_cost.py", *options)

    assert (ended.returncode, ended.stdout) == (2, "")
    assert options[0] in ended.stderr
