from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from tarry.webhooks import GITHUB, Event, HmacSha256, StandardWebhooks, WebhookError, WebhookSource
from tarry.webhooks.sources import sources_by_name

SECRET = "whsec_c2VjcmV0IG9mIHRoZSBzb3VyY2U="


def told(body: Any, headers: Mapping[str, str]) -> Event | None:
    """Give back what the body says, whatever that is."""
    return body  # type: ignore[no-any-return]


def source(name: str = "ci", **fields: Any) -> WebhookSource:
    given: dict[str, Any] = {"signature": StandardWebhooks(), "secret": "CI_SECRET", "event": told}
    return WebhookSource(name, **given | fields)


def test_secrets_are_read_by_the_name_of_their_variable() -> None:
    assert source().secrets({"CI_SECRET": SECRET, "OTHER": "x"}) == (SECRET,)
    assert source().secrets({"CI_SECRET": f" {SECRET}\nwhsec_b2xk  "}) == (SECRET, "whsec_b2xk")


@pytest.mark.parametrize("environment", [{}, {"CI_SECRET": ""}, {"CI_SECRET": " \n"}])
def test_a_missing_secret_is_named(environment: Mapping[str, str]) -> None:
    with pytest.raises(WebhookError) as refused:
        source().secrets(environment)

    assert str(refused.value) == "webhook source ci: set CI_SECRET to the secret that its sender signs with"


def test_a_secret_that_cannot_be_one_is_named_and_not_shown() -> None:
    with pytest.raises(WebhookError) as refused:
        source().secrets({"CI_SECRET": f"{SECRET} hunter2!"})

    assert str(refused.value) == "webhook source ci: CI_SECRET holds no secret of its scheme"
    assert refused.value.__cause__ is None


@pytest.mark.parametrize("name", ["", "CI", "a/b", "a b", "-a", "é", "x" * 65])
def test_a_name_that_cannot_stand_in_a_url_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="a name is 1 to 64 of a-z"):
        source(name)


def test_a_secret_in_place_of_the_name_of_its_variable_is_refused_and_not_shown() -> None:
    with pytest.raises(ValueError, match=r"^webhook source ci: secret is the name of an environment variable$"):
        source(secret="whsec_+a/b")


@pytest.mark.parametrize("limits", [{"max_bytes": 0}, {"unexpected_for": timedelta(seconds=-1)}])
def test_limits_that_nothing_could_keep_are_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="cannot be that small"):
        source(**limits)


def test_two_sources_of_one_name_are_refused() -> None:
    sources = [source("ci"), source("bank"), source("ci", signature=GITHUB)]

    assert list(sources_by_name(sources[:2])) == ["ci", "bank"]
    with pytest.raises(WebhookError, match="two webhook sources are named ci"):
        sources_by_name(sources)


def test_an_event_is_what_the_application_says() -> None:
    assert source().read(Event("build 7", {"status": "passed"}), {}) == Event("build 7", {"status": "passed"})
    assert source().read(None, {}) is None


@pytest.mark.parametrize(
    ("returned", "problem"),
    [
        ("build 7", "an Event or None is wanted, not str"),
        (Event("", 1), "a match has 1 to 8192 bytes, this one has 0"),
        (Event("m" * 8_193, 1), "a match has 1 to 8192 bytes, this one has 8193"),
        (Event(7, 1), "a match is a string, not int"),  # type: ignore[arg-type]
        (Event("\udc80", 1), "a match must be valid Unicode"),
        (Event("m", float("nan")), "the value is not JSON data: nan is not a JSON number"),
        (Event("m", "v" * 262_144), "the value has 262146 bytes, 262144 are allowed; send a reference instead"),
    ],
)
def test_an_event_that_nobody_could_be_told_is_refused(returned: Any, problem: str) -> None:
    with pytest.raises((TypeError, ValueError)) as refused:
        source().read(returned, {})

    assert str(refused.value) == problem


def test_declarations_hold_no_secret() -> None:
    assert source(signature=HmacSha256("X-Sig")) == source(signature=HmacSha256("X-Sig"))
    assert SECRET not in repr(source())
