"""How often one pinned request for a summary is made: the budgets of a model request (spec §6.3, §11.4). Pure."""

from __future__ import annotations

from pydantic import BaseModel

from tarry.core.budgets import backoff
from tarry.core.protocol import ModelFailure, RunSettings
from tarry.core.run import Event, Failed, WorkerLost, WorkerStopped


class GiveUp(Exception):
    """It is not made again; the message says why."""


class SummaryBudget(BaseModel):
    """Provider errors and lost workers in a row are counted apart; clean stops are free."""

    attempt: int = 1
    failures: int = 0
    lost: int = 0

    def pause(self, end: Event, settings: RunSettings) -> float:
        """Seconds to wait before the request is made again, after it ended without a summary.

        Raises:
            GiveUp: it is not made again.
        """
        seconds = 0.0
        match end:
            case Failed(failure=failure):
                seconds = self._failed(failure, settings)
            case WorkerLost():
                self.lost += 1
                if self.lost > settings.restart_limit:
                    raise GiveUp(f"{self.lost} workers in a row were lost in it")
            case WorkerStopped(paused=paused):
                if paused:
                    raise GiveUp("its request was paused")
            case _:
                raise GiveUp("stopped")
        self.attempt += 1
        return seconds

    def _failed(self, failure: ModelFailure, settings: RunSettings) -> float:
        self.lost = 0
        if failure.error != "retryable" or self.failures >= settings.provider_retries:
            raise GiveUp(failure.text)
        self.failures += 1
        return backoff(self.failures - 1, failure.retry_after)
