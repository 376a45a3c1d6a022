# People answer at the gateway, with every worker off: one by a link that a chat had opened before, to look at it, and
# one who signs in at the inbox. A history says who it was, and no tool can answer for them.
#
#     .venv/bin/python examples/24_inbox.py

from __future__ import annotations

import asyncio
import re
import secrets
from datetime import UTC, datetime, timedelta
from functools import partial
from html import unescape

import httpx
from pydantic import SecretStr

from tarry import App, Extension, Submission, tool
from tarry.gates import DECISION, approvals
from tarry.inbox import answer_link
from tarry.testing import ScriptedModel, Stage, call, eventually, say


@tool
def deploy(version: str) -> str:
    """Deploy a version."""
    return f"deployed {version}"


app = App(
    model=ScriptedModel([call("deploy", version="2.4"), lambda request: say(request.messages[-1].text)]),
    extensions=[Extension("ops", [deploy]), approvals(lambda wanted: wanted.tool == "deploy")],
)


async def main() -> None:
    token, secret = secrets.token_hex(16), secrets.token_hex(16)
    async with Stage("examples.24_inbox:app") as stage:
        gateway = await stage.start_gateway(TARRY_INBOX_TOKENS=f"Ben={token}", TARRY_CALLBACK_SECRETS=secret)
        first, second = [await parked(stage) for _ in range(2)]
        settings = stage.harness.settings.model_copy(
            update={"gateway_url": gateway.ready_line, "callback_secrets": SecretStr(secret)}
        )
        question = next(one for one in await stage.harness.questions() if one.task_id == first[0])
        key = DECISION.key(question.keys[0].partition("/")[2])
        until = datetime.now(UTC) + timedelta(hours=1)
        link = answer_link(
            settings, first[0], key, {"allow": True}, digest=question.digest, person="Ana", expires=until
        )
        async with httpx.AsyncClient(base_url=gateway.ready_line, timeout=60, follow_redirects=True) as browser:
            preview = await browser.get(link)
            print("a preview opens the link:", "the question" if "Allow deploy" in preview.text else "nothing")
            print("Ana presses its button:", told(await press(browser, preview, link, {"reason": "go"})))
            await press(browser, await browser.get("/inbox"), "/inbox/sign-in", {"token": token})
            page = await browser.get("/inbox/question", params={"task": second[0]})
            denial = {"choice": "deny", "reason": "the database first"}
            print("Ben denies the other:", told(await press(browser, page, "/inbox/answer", denial)))
            await stage.start_worker()
            for _, submission in (first, second):
                print((await submission.wait()).answer_text)
            look = partial(browser.get, "/inbox/history")
            history = await eventually(look, lambda page: "came ran" in page.text and "came not_run" in page.text)
        for who, what in sorted(re.findall(r"<strong>(\w+)</strong> (\w+)", history.text)):
            print(f"history: {who} {what} it")


async def parked(stage: Stage) -> tuple[str, Submission]:
    """A call that waits for a person, and no worker any more."""
    worker = await stage.start_worker()
    conversation = stage.harness.conversation()
    submission = await conversation.submit("Release 2.4.")
    task = await stage.parked(conversation.id)
    await worker.stop()
    return task, submission


async def press(browser: httpx.AsyncClient, page: httpx.Response, where: str, fields: dict[str, str]) -> httpx.Response:
    """Send a form as a browser does: with all that the page put into it."""
    hidden = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', page.text)
    sent = {name: unescape(value) for name, value in hidden} | fields
    return await browser.post(where, data=sent, headers={"Sec-Fetch-Site": "same-origin"})


def told(page: httpx.Response) -> str:
    """What the page says became of it."""
    found = re.search(r'role="status">\s*<p>(.*?)</p>', page.text, re.DOTALL)
    return re.sub(r"<[^>]+>", "", found[1]).strip().partition(":")[0] if found else page.text


if __name__ == "__main__":
    asyncio.run(main())
