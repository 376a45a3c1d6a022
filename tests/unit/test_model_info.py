"""What a model costs and how far it thinks (spec §7.6, §7.7)."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tarry.core.agent import ThinkingLevel
from tarry.core.messages import Usage
from tarry.core.model_info import LEVELS, ModelInfo, Prices

PRICES = Prices(input=Decimal("1.25"), output=Decimal(10), cached=Decimal("0.125"))


def test_a_request_costs_what_its_tokens_do_to_the_last_digit() -> None:
    usage = Usage(input_tokens=1_000, output_tokens=3, cached_tokens=400)

    assert PRICES.cost(usage) == Decimal("0.00083")
    assert str(PRICES.cost(Usage())) == "0"
    assert str(Prices(input=Decimal(3), output=Decimal(3)).cost(Usage(input_tokens=10**8))) == "300"


def test_cached_input_costs_as_other_input_where_no_price_is_given_for_it() -> None:
    assert Prices(input=Decimal(2), output=Decimal(0)).cost(Usage(input_tokens=10, cached_tokens=5)) == Decimal(
        "0.00002"
    )


@pytest.mark.parametrize("price", ["-1", "nan", "0.0000001", "1000000"])
def test_absurd_prices_are_refused(price: str) -> None:
    with pytest.raises(ValidationError):
        Prices(input=Decimal(price), output=Decimal(1))


TOKENS = st.integers(0, 10**9)


@given(st.lists(st.builds(Usage, input_tokens=TOKENS, output_tokens=TOKENS, cached_tokens=TOKENS), max_size=20))
def test_costs_add_up_without_rounding_and_survive_json(usages: list[Usage]) -> None:
    costed = [usage.model_copy(update={"cost": PRICES.cost(usage)}) for usage in usages]
    total = sum((Usage.model_validate_json(one.model_dump_json()) for one in costed), Usage())
    scale = 10**12

    assert (total.cost or 0) * scale == sum(int((one.cost or 0) * scale) for one in costed)


@pytest.mark.parametrize(
    ("chosen", "taken", "sent"),
    [
        ("off", ("low", "high"), "off"),
        ("max", ("low", "high"), "high"),
        ("medium", ("low", "high"), "low"),
        ("minimal", ("low", "high"), "low"),
        ("high", (), "off"),
        ("max", None, "medium"),
    ],
)
def test_thinking_is_clipped_to_what_the_model_takes(
    chosen: ThinkingLevel, taken: tuple[ThinkingLevel, ...] | None, sent: str
) -> None:
    assert ModelInfo(thinking=taken).thinks(chosen, otherwise=("low", "medium")) == sent


def test_levels_are_in_order() -> None:
    assert LEVELS == ("off", "minimal", "low", "medium", "high", "xhigh", "max")
