"""Asks the extensions what they offer at a request, and keeps what was shown last where one fails (spec §13.7)."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from activities.calling import called
from activities.reports import Reports
from tarry.app import Registry
from tarry.core import output
from tarry.core.messages import ToolSpec
from tarry.core.prompt import INSTRUCTIONS, Prompt, SectionPatch, declaration
from tarry.core.text import clean_json
from tarry.offers import Offer, OfferAsked, Offered, ToolOffer
from tarry.schemas import parameters_of
from tarry.sections import Section

SECONDS = 10.0
"""How long all extensions may take together: they may ask a server."""
MOST_KNOWN = 1_000


@dataclass(frozen=True)
class OnOffer:
    """What there is for one request: the registry with the tools that are offered, and how these are shown."""

    registry: Registry
    tools: tuple[ToolSpec, ...]
    sections: tuple[Section, ...] = ()
    kept: tuple[SectionPatch, ...] = ()


class Offering:
    """Asks for every request of a process.

    The transcript says of a tool only by which declaration it was shown, so the declarations are remembered. Of one
    that this process never saw the extension's own is shown.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[str, ToolSpec] = OrderedDict()

    async def ask(self, registry: Registry, asked: OfferAsked, last: Prompt, reports: Reports) -> OnOffer:
        """What every extension offers; of one that fails, what `last` shows of it."""
        shown = {spec.name: spec for spec in registry.specs()}
        offers = registry.offers
        if not offers:
            return OnOffer(registry, tuple(shown.values()))
        ends = time.monotonic() + SECONDS
        sections: list[Section] = []
        failed = False
        for extension, offer in offers:
            own = [name for name in registry.tools_of(extension) if name in shown]
            try:
                answer = await self._asked(offer, asked, shown, own, ends)
            except Exception as error:  # an offer is application code and may raise or return anything
                reports.add(f"offer of {extension}", error)
                failed, answer = True, _Answer(self._last(own, shown, last))
            sections += answer.sections
            for name in own:
                if (spec := answer.tools.get(name)) is None:
                    del shown[name]
                else:
                    shown[name] = spec
        kept = _unclaimed(registry, sections, last) if failed else ()
        return OnOffer(registry.offering(tuple(shown)), tuple(shown.values()), tuple(sections), kept)

    async def _asked(
        self, offer: Offer, asked: OfferAsked, declared: Mapping[str, ToolSpec], own: Sequence[str], ends: float
    ) -> _Answer:
        offered = await called(partial(offer, asked), ends)
        if offered is None:
            offered = Offered()
        if not isinstance(offered, Offered) or not all(isinstance(one, Section) for one in offered.sections):
            raise TypeError(f"it is no Offered but {type(offered).__name__}, or its sections are none")
        tools = {name: self._shown(declared[name], offered.tools.get(name, ToolOffer())) for name in own}
        return _Answer({name: spec for name, spec in tools.items() if spec is not None}, tuple(offered.sections))

    def _shown(self, declared: ToolSpec, offer: ToolOffer | None) -> ToolSpec | None:
        if offer is None:
            return None
        changed: dict[str, Any] = {}
        if offer.description is not None:
            changed["description"] = offer.description
        if offer.parameters is not None:
            changed["parameters"] = clean_json(dict(offer.parameters))
        spec = ToolSpec.model_validate({**dict(declared), **changed})
        mark = declaration(spec)
        if mark not in self._known and offer.parameters is not None:
            parameters_of(spec.name, spec.parameters)
        self._known[mark] = spec
        self._known.move_to_end(mark)
        if len(self._known) > MOST_KNOWN:
            self._known.popitem(last=False)
        return spec

    def _last(self, own: Sequence[str], declared: Mapping[str, ToolSpec], last: Prompt) -> dict[str, ToolSpec]:
        if last.is_empty:
            return {name: declared[name] for name in own}
        return {name: self._known.get(last.tools[name], declared[name]) for name in own if name in last.tools}


@dataclass(frozen=True)
class _Answer:
    tools: Mapping[str, ToolSpec]
    sections: tuple[Section, ...] = ()


def _unclaimed(registry: Registry, sections: Sequence[Section], last: Prompt) -> tuple[SectionPatch, ...]:
    """The sections that were shown last and may be those of an extension that failed: nobody else has them."""
    claimed = {INSTRUCTIONS, output.KEY, *(section.key for section in (*registry.sections, *sections))}
    return tuple(section for key, section in last.sections.items() if key not in claimed)
