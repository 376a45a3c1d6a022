"""Texts of models as a person should see them: nothing in them is markup, and nothing in them hides.

Characters that reorder, hide or imitate others are shown by their number, so that what is approved is what is read.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from itertools import groupby

from markupsafe import Markup, escape

_PLAIN_BLANKS = frozenset(" \n\t")
_PLAIN_SYMBOLS = frozenset("№…™²³¹ªº")
"""They have letters or digits of ASCII as their plain form, and nobody takes them for these."""
_HIDING = frozenset({"Cc", "Cf", "Co", "Cn", "Cs", "Zl", "Zp", "Zs"})
"""Categories: controls, formats such as bidi marks, private and unassigned ones, and blanks of other widths."""
_WITHIN_WORDS = frozenset({"Cf", "Mn", "Mc", "Me"})
"""Categories that stand inside of a word, and do not end it."""
_ALIKE = ("LATIN", "CYRILLIC", "GREEK", "CHEROKEE", "ARMENIAN", "COPTIC", "FULLWIDTH", "MATHEMATICAL")
_NO_MARK = frozenset("\u115f\u1160\u3164\uffa0\u2800\u034f\u17b4\u17b5").union(
    *(map(chr, range(first, last + 1)) for first, last in ((0x180B, 0x180F), (0xFE00, 0xFE0F), (0xE0100, 0xE01EF)))
)
"""Letters, symbols and variation selectors that leave no mark."""
_MOST_ALIKE = 3
"""Of one character that is marked, in a row; of more it is told how many."""


def seen(text: str) -> Markup:
    """The text, escaped, with every character marked that could deceive who reads it."""
    if text.isascii() and text.translate(_WITHOUT_BLANKS).isprintable():
        return escape(text)
    return Markup("").join(_parts(text))


_WITHOUT_BLANKS = dict.fromkeys(map(ord, _PLAIN_BLANKS))


def _parts(text: str) -> Iterator[Markup]:
    for (shown, character), run in groupby(_judged(text), lambda one: (one[1], one[0] if one[1] else "")):
        if not shown:
            yield escape("".join(plain for plain, _ in run))
            continue
        count = sum(1 for _ in run)
        if count > _MOST_ALIKE:
            yield _marked(f"{shown} ×{count}", character)
        else:
            yield _marked(shown, character) * count


def _judged(text: str) -> Iterator[tuple[str, str]]:
    """Each character, and what is shown in its place, marked; empty: it stands as it is."""
    word: list[str] = []
    for character in text:
        if character.isalpha() or (word and unicodedata.category(character) in _WITHIN_WORDS):
            word.append(character)
            continue
        yield from _of_word(word)
        word.clear()
        yield character, _alone(character)
    yield from _of_word(word)


def _of_word(letters: list[str]) -> Iterator[tuple[str, str]]:
    """A run of letters: those of a script that imitates the one of the others are marked."""
    scripts = [_script(letter) for letter in letters]
    is_mixed = len({script for script in scripts if script}) > 1
    for letter, script in zip(letters, scripts, strict=True):
        imitates = is_mixed and script not in ("", "LATIN")
        yield letter, _alone(letter) or (letter if imitates else "")


def _alone(character: str) -> str:
    """What is shown of a character that deceives whatever stands beside it: its number, where it cannot be seen."""
    if character.isascii():
        return "" if character.isprintable() or character in _PLAIN_BLANKS else _number(character)
    if character in _NO_MARK or unicodedata.category(character) in _HIDING:
        return _number(character)
    imitates = character not in _PLAIN_SYMBOLS and unicodedata.normalize("NFKC", character).isascii()
    return character if imitates else ""


def _script(letter: str) -> str:
    if letter.isascii():
        return "LATIN"
    name = unicodedata.name(letter, "")
    return next((script for script in _ALIKE if name.startswith(script)), "")


def _number(character: str) -> str:
    return f"U+{ord(character):04X}"


def _marked(shown: str, character: str) -> Markup:
    title = f"{_number(character)} {unicodedata.name(character, 'a control character').lower()}"
    return Markup('<span class="odd" title="{}">{}</span>').format(title, shown)
