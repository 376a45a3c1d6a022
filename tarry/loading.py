"""Loading an application by `module:attribute`, with errors that say what to do."""

from __future__ import annotations

import importlib
import sys
import traceback

from tarry.app import App


class LoadError(Exception):
    """The application cannot be loaded. One line, and where in its code an error was raised."""


def load_app(name: str) -> App:
    """Import the module and return its attribute; the current folder counts as a place of modules.

    Raises:
        LoadError: no such module or attribute, the module raises, or the attribute is no `App`.
    """
    module_name, _, attribute = name.partition(":")
    if not module_name or not attribute:
        raise LoadError(f"app {name!r} must be given as module:attribute, such as tarry.demo.triage:scripted")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and module_name.startswith(error.name):
            raise LoadError(f"app {name!r}: there is no module {module_name}; run this in its folder") from error
        raise LoadError(f"app {name!r}: its module needs {error.name}, which is not installed") from error
    except Exception as error:
        raise LoadError(f"app {name!r}: its module raises {_where(error)}") from error
    app = getattr(module, attribute, None)
    if not isinstance(app, App):
        found = "has no such attribute" if app is None else f"holds a {type(app).__name__} there, not a tarry.App"
        raise LoadError(f"app {name!r}: module {module_name} {found}")
    return app


def _where(error: Exception) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({frame.filename}:{frame.lineno})"
