"""Texts of models as a person should see them: nothing in them is markup, and nothing in them hides.

Characters that reorder, hide or imitate others are shown by their number, so that what is approved is what is read.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

from markupsafe import Markup, escape

_PLAIN_BLANKS = frozenset(" \n\t")
_HIDING = frozenset({"Cc", "Cf", "Co", "Cn", "Cs", "Zl", "Zp", "Zs"})
"""Categories: controls, formats such as bidi marks, private and unassigned ones, and blanks of other widths."""
_ALIKE = ("LATIN", "CYRILLIC", "GREEK", "CHEROKEE", "ARMENIAN", "COPTIC", "FULLWIDTH", "MATHEMATICAL")
_BLANK_LETTERS = frozenset("\u115f\u1160\u3164\uffa0\u2800")
"""Letters and symbols that leave no mark."""


def seen(text: str) -> Markup:
    """The text, escaped, with every character marked that could deceive who reads it."""
    return Markup("").join(_parts(text))


def _parts(text: str) -> Iterator[Markup]:
    word: list[str] = []
    plain: list[str] = []
    for character in text:
        if character.isalpha() and not _hides(character):
            if plain:
                yield escape("".join(plain))
                plain.clear()
            word.append(character)
            continue
        yield from _word(word)
        word.clear()
        if _hides(character):
            if plain:
                yield escape("".join(plain))
                plain.clear()
            yield _marked(f"U+{ord(character):04X}", character)
        else:
            plain.append(character)
    if plain:
        yield escape("".join(plain))
    yield from _word(word)


def _word(letters: list[str]) -> Iterator[Markup]:
    """A run of letters: those of a script that imitates the one of the others are marked."""
    scripts = [_script(letter) for letter in letters]
    if len({script for script in scripts if script}) < 2:
        yield escape("".join(letters))
        return
    for letter, script in zip(letters, scripts, strict=True):
        yield escape(letter) if script in ("", "LATIN") else _marked(letter, letter)


def _script(letter: str) -> str:
    if letter.isascii():
        return "LATIN"
    name = unicodedata.name(letter, "")
    return next((script for script in _ALIKE if name.startswith(script)), "")


def _hides(character: str) -> bool:
    if character in _PLAIN_BLANKS:
        return False
    return character in _BLANK_LETTERS or unicodedata.category(character) in _HIDING


def _marked(shown: str, character: str) -> Markup:
    name = unicodedata.name(character, "a control character").lower()
    title = f"U+{ord(character):04X} {name}"
    return Markup('<span class="odd" title="{}">{}</span>').format(title, shown)
