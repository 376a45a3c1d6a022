"""The application of the drills with its tools on workers of a name."""

from __future__ import annotations

from dataclasses import replace

from tests.support import drill_app

app = replace(drill_app.app, extensions=[replace(one, worker="special") for one in drill_app.app.extensions])
