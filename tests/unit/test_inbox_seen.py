"""Texts of models as a person sees them (spec §23.5). Pure."""

from __future__ import annotations

import html
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.inbox.seen import seen

MARK = re.compile(r'<span class="odd" title="U\+([0-9A-F]+) [^"<>]*">[^<>]*</span>')
PLAIN = ["rm -rf build/\n\tdone", "Grüße, Ana!", "Привет, мир", "日本語", "naïve café №5", "٣ items"]
HIDING = ["a\u202eb", "a\u200bb", "a\u00a0b", "a\rb", "\x1b[2J", "x\u3164y", "a\ufeff", "\U000e0041", "\x00"]
ALIKE = ["p\u0430ypal", "\u03bfpen"]


@given(st.text())
def test_nothing_is_markup_but_the_marks_and_nothing_is_lost(text: str) -> None:
    parts = MARK.split(str(seen(text)))
    plain, marked = parts[::2], [chr(int(number, 16)) for number in parts[1::2]]

    assert not set("<>") & set("".join(plain))
    assert "".join(html.unescape(part) + mark for part, mark in zip(plain, [*marked, ""], strict=True)) == text


@pytest.mark.parametrize("text", PLAIN)
def test_ordinary_texts_are_left_as_they_are(text: str) -> None:
    assert html.unescape(seen(text)) == text


@pytest.mark.parametrize("text", [*HIDING, *ALIKE])
def test_what_hides_reorders_or_imitates_is_marked(text: str) -> None:
    assert 'class="odd" title="U+' in seen(text)
