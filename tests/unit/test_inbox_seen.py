"""Texts of models as a person sees them (spec §23.5). Pure."""

from __future__ import annotations

import html
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.inbox.seen import seen

MARK = re.compile(r'<span class="odd" title="U\+([0-9A-F]+) [^"<>]*">[^<>]*?(?: ×(\d+))?</span>')
PLAIN = ["rm -rf build/\n\tdone", "Grüße, Ana!", "Привет, мир", "日本語", "naïve café №5…", "nai\u0308ve", "٣ items"]
HIDING = ["a\u202eb", "a\u200bb", "a\u00a0b", "a\rb", "\x1b[2J", "x\u3164y", "a\ufeff", "\U000e0041", "\x00"]
INVISIBLE = ["a\u034fb", "a\ufe0fb", "a\U000e0100b", "\u180bx", "\u17b4"]
ALIKE = ["p\u0430ypal", "\u03bfpen", "rm\u037e", "\uff52m", "\u212a", "\ufb01le", "\u2024"]


@given(st.text())
def test_nothing_is_markup_but_the_marks_and_nothing_is_lost(text: str) -> None:
    parts = MARK.split(str(seen(text)))
    plain = parts[::3]
    marked = [chr(int(code, 16)) * int(count or 1) for code, count in zip(parts[1::3], parts[2::3], strict=True)]

    assert not set("<>") & set("".join(plain))
    assert "".join(html.unescape(part) + mark for part, mark in zip(plain, [*marked, ""], strict=True)) == text


@pytest.mark.parametrize("text", PLAIN)
def test_ordinary_texts_are_left_as_they_are(text: str) -> None:
    assert html.unescape(seen(text)) == text


@pytest.mark.parametrize("text", [*HIDING, *INVISIBLE, *ALIKE])
def test_what_hides_reorders_or_imitates_is_marked(text: str) -> None:
    assert 'class="odd" title="U+' in seen(text)


@pytest.mark.parametrize("between", ["\u034f", "\ufe0f", "\u0301", "\u200d"])
def test_what_stands_inside_of_a_word_does_not_part_its_scripts(between: str) -> None:
    assert 'title="U+0440 cyrillic small letter er">' in seen(f"pay{between}\u0440al")


def test_a_run_of_one_character_that_is_marked_is_told_by_its_length() -> None:
    text = seen("\u202e" * 50_000)

    assert ("U+202E ×50000" in text, len(text) < 100) == (True, True)
