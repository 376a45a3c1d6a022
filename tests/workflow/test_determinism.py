"""Determinism as plain tests: no cache, so that every task replays; other hash seeds; the same commands each time."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowHistory

from tarry.core.protocol import ABORT
from tarry.embedded import EmbeddedServer
from tarry.testing import ScriptedModel, say
from tests.replay import kept
from tests.replay.record import SCENARIOS
from tests.replay.studio import Studio
from tests.support.stage import app_of, stage

ROOT = Path(__file__).parents[2]

CORE = (
    "plain_run",
    "parallel_round",
    "sequential_round_with_memos",
    "large_input_and_result",
    "provider_errors_and_empty_answers",
    "stopped_in_tools",
    "terminated_run_and_call",
    "long_run",
    "long_conversation",
    "archived_submissions",
    "refused_signals",
    "reset_run",
    "conversation_with_a_parked_call",
    "woken_by_an_update",
    "parked_and_stopped",
    "polled",
    "durable_task",
    "nested_calls",
    "asked_at_two_gates",
    "asked_anew_by_a_deploy",
    "denied_at_its_gate",
    "judged_by_the_pass_that_it_wakes",
    "pass_ahead_that_counts_for_nothing",
    "ended_by_a_task_after_its_round",
    "sent_back_before_its_answer_stands",
    "gave_way_to_a_person",
    "subagent_that_answers",
    "documents_edited_by_a_tool_and_a_person",
    "stopped_with_a_tree",
    "acknowledged_result",
    "rested_and_granted",
    "stopped_while_it_waits_for_its_permit",
)
SEEDED = (
    "parallel_round",
    "sequential_round_with_memos",
    "provider_errors_and_empty_answers",
    "large_input_and_result",
)


def scheduled(histories: Iterable[WorkflowHistory]) -> Counter[str]:
    """How often each activity was scheduled, and each local one recorded."""
    counts: Counter[str] = Counter()
    for history in histories:
        for event in history.events:
            if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
                counts[event.activity_task_scheduled_event_attributes.activity_type.name] += 1
            elif event.event_type == EventType.EVENT_TYPE_MARKER_RECORDED:
                counts[event.marker_recorded_event_attributes.marker_name] += 1
            elif event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED:
                counts[event.workflow_task_failed_event_attributes.failure.message] += 1
    return counts


def changed(counts: Counter[str], name: str) -> Counter[str]:
    """What a kept scenario schedules today, where a patch, or what it is begun with or told, has changed it since."""
    if name == "archived_submissions":  # two look-ups, each in a run of its own, with the marker of the patch
        looked_up = counts.pop("core_local_activity")
        counts |= Counter({"tarry.find-submission": looked_up, "core_patch": looked_up})
    if name in ("asked_at_two_gates", "asked_anew_by_a_deploy", "denied_at_its_gate"):  # now by the pass that it wakes
        del counts["tarry.judge"]
    if name == "reset_run":  # now what earlier timelines left behind is looked for
        counts["tarry.leave-behind"] = 1
    return counts


@pytest.mark.parametrize("name", CORE)
async def test_scenario_without_a_cache_schedules_exactly_the_activities_of_the_kept_one(
    lowered_server: EmbeddedServer, tmp_path: Path, name: str
) -> None:
    studio = Studio(lowered_server, tmp_path, max_cached_workflows=0)

    await SCENARIOS[name](studio)

    counts = scheduled(studio.histories)
    assert counts == changed(scheduled(kept.read(name)), name)
    assert counts.total() > 0


async def test_two_hash_seeds_give_the_same_commands() -> None:
    first, second = await asyncio.gather(*(commands_under(seed) for seed in ("1", "2")))

    assert [scenario[0] for scenario in first] == list(SEEDED)
    assert first == second


async def commands_under(seed: str) -> list[list[object]]:
    """What a process of its own with that hash seed commands, ids and times masked."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.support.seeded", *SEEDED),
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": seed},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    commands: list[list[object]] = json.loads(output)
    return commands


async def test_updates_right_after_the_end_of_a_run_replay_where_nothing_was_cached(
    lowered_server: EmbeddedServer, tmp_path: Path
) -> None:
    app = app_of(ScriptedModel.for_each_input([say("fine")]))
    async with stage(lowered_server, app, tmp_path, max_cached_workflows=0) as on:
        conversation = on.harness.conversation()
        for _ in range(3):
            await (await conversation.submit("go on", when_busy="steer")).wait()
        await on.client.get_workflow_handle(conversation.id).execute_update(ABORT)
        await (await conversation.submit("and now?")).wait()

        events = (await on.client.get_workflow_handle(conversation.id).fetch_history()).events

    assert [event.event_id for event in events if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED] == []
