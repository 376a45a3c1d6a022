"""A worker is killed in the middle of a compaction: the old state stands until the same summary is made again."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.drills import Drill, kinds, settled

LONG = "say " + "word " * 200


async def test_a_worker_killed_in_mid_compaction_leaves_the_old_state_and_the_same_request_is_sent_again(
    drill: Callable[..., Drill],
) -> None:
    async with drill(keep_recent_tokens=1) as on:
        first = await on.worker()
        submission = await on.submit(LONG)
        await settled(submission)
        conversation = on.harness.conversation(submission.conversation_id)
        await settled(await conversation.submit(LONG))
        summary = f"{conversation.id}/compaction"
        on.points.plan(summary, ["mid-stream"], deadly=False)

        compaction = await conversation.compact("the words")
        assert (await on.points.reached(summary)).pid == first.pid
        await first.kill()
        await on.worker()
        before = kinds(await conversation.transcript())
        ended = await compaction.wait()

        assert before == ["user", "assistant", "user", "assistant"]
        assert (ended.status, ended.attempt, ended.entry) == ("placed", 2, 5)
        once, again = on.requests(summary)
        assert once == again
        assert kinds(await conversation.transcript()) == [*before, "compaction"]
        await settled(await conversation.submit("say and on"))
        assert [message.role for message in on.requests(conversation.id)[-1].messages] == ["user", "assistant", "user"]
