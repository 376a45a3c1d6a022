"""The triage agent on a real model.

Apart from `tarry.demo.triage`, whose scripted agents start a good deal sooner without the model's library.
"""

from __future__ import annotations

import os

from tarry.app import App, Extension
from tarry.demo.triage import INSTRUCTIONS, open_ticket, search_logs
from tarry.models.openai import OpenAIModel

app = App(
    model=OpenAIModel(os.environ.get("OPENAI_MODEL", "gpt-5.6-luna")),
    instructions=INSTRUCTIONS,
    extensions=[Extension("triage", [search_logs, open_ticket])],
)
