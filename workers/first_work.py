"""Telling once that a worker has begun to work: how long it took from a wake-up is for the supervisor to say."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from temporalio import activity
from temporalio.worker import (
    ActivityInboundInterceptor,
    ExecuteActivityInput,
    Interceptor,
    WorkflowInstance,
    WorkflowInstanceDetails,
    WorkflowRunner,
)

from tarry.core.registry import REGISTRY

FIRST_WORK = "first work: "
"""What the line in the log begins with; the id of the workflow follows."""


class FirstWorkTold(WorkflowRunner):
    """A runner that logs the first workflow it is given; the registry's does not count, each worker speaks to that."""

    def __init__(self, runner: WorkflowRunner) -> None:
        self._runner = runner
        self._is_told = False

    def prepare_workflow(self, defn: Any) -> None:
        """As the runner does."""
        self._runner.prepare_workflow(defn)

    def create_instance(self, det: WorkflowInstanceDetails) -> WorkflowInstance:
        """As the runner does; called for each workflow that is not in the worker's cache."""
        if not self._is_told and det.info.workflow_type != REGISTRY:
            self._is_told = True
            logging.info("%s%s", FIRST_WORK, det.info.workflow_id)
        return self._runner.create_instance(det)

    def set_worker_level_failure_exception_types(self, types: Sequence[type[BaseException]]) -> None:
        """As the runner does."""
        self._runner.set_worker_level_failure_exception_types(types)


class FirstRunTold(Interceptor):
    """The same of a worker that runs tools alone: it logs the first that it is given."""

    def __init__(self) -> None:
        self.is_told = False

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        """Called once for each activity."""
        return _Telling(next, self)


class _Telling(ActivityInboundInterceptor):
    def __init__(self, next: ActivityInboundInterceptor, told: FirstRunTold) -> None:
        super().__init__(next)
        self._told = told

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        if not self._told.is_told:
            self._told.is_told = True
            logging.info("%s%s", FIRST_WORK, activity.info().workflow_id)
        return await super().execute_activity(input)
