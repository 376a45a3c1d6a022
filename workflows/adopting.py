"""Adopting a child that an earlier timeline started under the same id: a reset repeats no effect (spec §1.7)."""

from __future__ import annotations

from typing import TypeVar

from pydantic import BaseModel, ValidationError
from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ActivityError

from tarry.core.keeping import ADOPT, Adopted, AdoptInput
from tarry.core.protocol import RunSettings
from workflows import ends, options
from workflows.supervise import StopSwitch

M = TypeVar("M", bound=BaseModel)


async def adopt(child_id: str, content: str, settings: RunSettings, stop: StopSwitch) -> Adopted:
    """Whether it is the same, by the digest of its content, and its end, which is waited for; a Stop gives it up."""
    input = AdoptInput(workflow_id=child_id, digest=content)
    try:
        answer = await stop.watch(
            workflow.start_activity(ADOPT, input, result_type=RawValue, **options.adopt(settings))
        )
    except ActivityError:
        return Adopted(matches=True)
    return ends.read(answer, Adopted) or Adopted(matches=True)


def result_of(adopted: Adopted, as_type: type[M]) -> M | None:
    """What it left, if anything that can be read."""
    try:
        return as_type.model_validate(adopted.result)
    except ValidationError:
        return None
