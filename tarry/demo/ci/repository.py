"""The repository the agent works on: a module, and a test of it that passes only now and then.

Strings hash differently in every process, so the set in it comes out in another order.
"""

from __future__ import annotations

from pathlib import Path

TESTS = "test_labels"
"""The module of the tests, as `python -m unittest` is told it."""

FILE = "labels.py"
FLAKY = 'list({order["city"] for order in orders})'
STABLE = 'list(dict.fromkeys(order["city"] for order in orders))'

_FILES = {
    FILE: f'''\
"""Shipping labels."""


def cities(orders):
    """The city of every order, each once, in the order in which the orders came."""
    return {FLAKY}
''',
    f"{TESTS}.py": """\
import unittest

from labels import cities


class CitiesTest(unittest.TestCase):
    def test_each_city_comes_once_and_in_order(self):
        orders = [{"city": name} for name in ("Lisbon", "Oslo", "Kyoto", "Oslo")]
        self.assertEqual(cities(orders), ["Lisbon", "Oslo", "Kyoto"])


if __name__ == "__main__":
    unittest.main()
""",
}


def check_out(folder: Path) -> Path:
    """The repository in `folder`, which stays as it is when it holds one."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in _FILES.items():
        if not (folder / name).exists():
            (folder / name).write_text(text)
    return folder


def edit(folder: Path, path: str, old: str, new: str) -> None:
    """Replace `old`, which must occur exactly once in the file, by `new`.

    Raises:
        ValueError: `path` leads out of the repository or to no file, or `old` occurs never or several times.
    """
    file = (folder / path).resolve()
    if not file.is_relative_to(folder.resolve()) or not file.is_file():
        raise ValueError(f"there is no file {path} in the repository")
    text = file.read_text()
    if (found := text.count(old)) != 1:
        raise ValueError(f"the text to replace occurs {found} times in {path}, it must occur once")
    file.write_text(text.replace(old, new))
