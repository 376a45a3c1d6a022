"""How each process of an application begins: settings, log, application, metrics; so that a mistake shows at once."""

from __future__ import annotations

from tarry.app import App
from tarry.loading import LoadError, load_app
from tarry.redaction import redact_logs
from tarry.seeing.exporting import begin_metrics
from tarry.seeing.logs import begin_logging
from tarry.settings import Settings, load_settings


def begin(process: str, name: str | None, level: str = "info") -> tuple[Settings, str, App]:
    """Load the application of that name, TARRY_APP by default, and let `process` log and count as it and settings say.

    Raises:
        SettingsError: a setting cannot be used.
        LoadError: no application is named, or it cannot be loaded.
    """
    settings = load_settings()
    begin_logging(settings, process, level)
    name = name or settings.app
    if name is None:
        raise LoadError("no application: give --app module:attribute or set TARRY_APP")
    app = load_app(name)
    redact_logs(app.redact)
    begin_metrics(settings.metrics)
    return settings, name, app
