"""Our own settings, from `TARRY_…` environment variables. The only reader of the environment for them.

Where the Temporal server is belongs to Temporal's own variables (`tarry.connect`).
"""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError
from pydantic_settings import BaseSettings, SettingsConfigDict

from tarry.core.protocol import QueueMode, RunSettings
from tarry.core.routing import ALL, DEFAULT

PREFIX = "TARRY_"
_RUN_SCHEMA = RunSettings.model_json_schema()["properties"]


_SECRET_LENGTH = 32
_MODES = "one-at-a-time or all"

_BUILD = r"^[A-Za-z0-9][A-Za-z0-9_{}-]{{0,99}}$"
_BUILD_ALLOWED = "a name of 1 to 100 letters, digits, {} that begins with a letter or digit"

_KEY_ID = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
_KEY = rf"{_KEY_ID}=(file:\S+|env:[A-Za-z_]\w*)"
_WORKER = r"[a-z0-9][a-z0-9_-]{0,49}"
_ORIGIN = r"https?://[^\s/]+"
NO_KEY = "none"
"""In place of the active key's id: payloads are written in the clear."""


class SettingsError(Exception):
    """A setting is not allowed. One line: the variable, what it holds and what it may hold."""


def _seconds(default: float, low: float, high: float) -> Any:
    allowed = f"a number of seconds from {low:g} to {high:g}"
    return Field(default, ge=low, le=high, allow_inf_nan=False, description=allowed)


def _count(default: int, low: int, high: int) -> Any:
    return Field(default, ge=low, le=high, description=f"a whole number from {low} to {high}")


def _of_run(name: str) -> Any:
    """The run's setting of that name: its default and its bounds stand there alone."""
    schema = _RUN_SCHEMA[name]
    of_kind = _count if schema["type"] == "integer" else _seconds
    return of_kind(schema["default"], schema["minimum"], schema["maximum"])


def _switch(default: bool) -> Any:
    return Field(default, description="true or false")


def _text(default: str | None, pattern: str, allowed: str) -> Any:
    return Field(default, pattern=pattern, description=allowed)


class Settings(BaseSettings):
    """What a process of ours may be told. An empty variable counts as not set; names are not case-sensitive.

    Keyword arguments win over the environment.
    """

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_ignore_empty=True, frozen=True, extra="ignore")

    task_queue: str = _text("tarry", r"^\S{1,200}$", "a name of 1 to 200 characters without blanks")
    """The Temporal task queue of workflows and activities."""

    store: str = _text(
        ".tarry/store",
        r"^(s3://[^/\s]+(/.*)?|file://(localhost)?/.*|[^:]+(:[^/:][^:]*)*)$",
        "a directory, file:///directory or s3://bucket/prefix",
    )
    """Where large payloads and pages are kept (spec §8.1). The same for every process of a deployment."""

    config_dir: str = _text("~/.config/tarry", r"^(~/|/).*$", "an absolute folder, or one that begins with ~/")
    """Where agents to delegate to, and settings of subagents, are on this host (spec §17.20)."""

    app: str | None = _text(
        None, r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*$", "module:attribute, such as tarry.demo.triage:scripted"
    )
    """The application a worker serves."""

    deployment: str | None = _text(None, _BUILD.format(""), _BUILD_ALLOWED.format("- and _"))
    """The worker deployment that workers are of (spec §22.1); set together with `build`."""

    build: str | None = _text(None, _BUILD.format(".+"), _BUILD_ALLOWED.format("-, _, . and +"))
    """The build that a worker is: one name for one state of the code, ours and the application's."""

    serves: str = _text(
        DEFAULT, rf"^\s*{_WORKER}(\s+{_WORKER})*\s*$", f"{DEFAULT}, {ALL}, or names of workers with blanks between them"
    )
    """Which workers this process is: the default one, or those that tools name, or all of them (spec §25.1)."""

    heartbeat_timeout: float = _of_run("heartbeat_timeout")
    """Silence after which a worker counts as lost (spec §4.4)."""

    progress_interval: float = _seconds(0.2, 0.1, 60)
    """Between two heartbeats of what streams: a crash loses as much of it, a watcher sees it as late (spec §25.6)."""

    restart_limit: int = _of_run("restart_limit")
    """Lost workers in a row after which work is held (spec §4.4)."""

    shutdown_grace: float = _seconds(30.0, 0, 3_600)
    """How long a stopping worker lets running work finish (spec §4.4)."""

    max_cached_workflows: int = _count(1_000, 0, 100_000)
    """Workflows a worker keeps in memory, at some 50 to 140 KB each; 0 replays on every task."""

    max_concurrent_activities: int = _count(200, 1, 10_000)
    """Model requests, tools and reads or writes of the store that one worker runs at a time, together."""

    max_turns: int = _of_run("max_turns")
    """Model responses in one run (spec §6.4)."""

    model_idle_timeout: float = _of_run("model_idle_timeout")
    """Silence after which a model's stream counts as stalled (spec §6.4)."""

    provider_retries: int = _of_run("provider_retries")
    """Retries of one model request after provider errors (spec §6.3)."""

    compaction: bool = _switch(RunSettings().compaction)
    """Whether a context that grows too large is compacted by itself (spec §11.2)."""

    reserve_tokens: int = _of_run("reserve_tokens")
    """Tokens of a model's window that a request leaves free (spec §11.2)."""

    keep_recent_tokens: int = _of_run("keep_recent_tokens")
    """Tokens that a compaction keeps as they are (spec §11.2)."""

    background_tokens: int = _of_run("background_tokens")
    """Tokens before the limit, where compaction begins beside the run; 0: it does not (spec §11.2)."""

    entry_cache_bytes: int = _count(64 * 1024 * 1024, 0, 16 * 1024**3)
    """Transcript entries a worker keeps in memory (spec §6.1)."""

    turnover_events: int = _of_run("turnover_events")
    """History events after which a quiet workflow continues as new (spec §8.4)."""

    steering_mode: QueueMode = Field(default="one-at-a-time", description=_MODES)
    """How many of the steers that wait a turn boundary places (spec §6.6)."""

    follow_up_mode: QueueMode = Field(default="one-at-a-time", description=_MODES)
    """How many of the inputs that wait one run answers (spec §6.6)."""

    gateway_host: str = _text("127.0.0.1", r"^\S{1,255}$", "a host name or address of this machine")
    """Where the gateway listens."""

    gateway_port: int = _count(7280, 0, 65_535)
    """The gateway's port; 0: any free one."""

    gateway_url: str | None = _text(None, r"^https?://[^\s?#]{1,500}$", "an http(s) URL without query")
    """The address at which services reach the gateway; callback URLs begin with it."""

    callback_secrets: SecretStr | None = Field(
        default=None, description=f"secrets of {_SECRET_LENGTH} characters or more, with blanks between them"
    )
    """They sign callback URLs, the first one, and check them, each; so that one can be changed for another."""

    gateway_token: SecretStr | None = Field(
        default=None, description=f"tokens of {_SECRET_LENGTH} characters or more, with blanks between them"
    )
    """Who sends one as `Authorization: Bearer` may read conversations at the gateway; without any nobody may."""

    inbox_tokens: SecretStr | None = Field(
        default=None,
        description=f"name=token for each person, with blanks between, tokens of {_SECRET_LENGTH} characters or more, "
        "no name and no token twice",
    )
    """Who may sign in to the inbox, and with what (spec §23.3)."""

    inbox_user_header: str | None = _text(None, r"^[A-Za-z][A-Za-z0-9-]{0,99}$", "the name of a header")
    """The header in which a proxy says who is signed in; it counts with the proxy's secret alone."""

    inbox_proxy_secret: SecretStr | None = Field(
        default=None, description=f"a secret of {_SECRET_LENGTH} characters or more"
    )
    """What that proxy sends as `X-Tarry-Proxy-Secret`, so that nobody else can say who is signed in."""

    scale_min: int = _count(0, 0, 100)
    """Workers that `tarry scale` keeps although all is parked (spec §9.4)."""

    scale_max: int = _count(1, 1, 100)
    """Workers that it runs at a time."""

    scale_quiet: float = _seconds(60.0, 1, 86_400)
    """For how long nothing must be active before it stops workers."""

    scale_ahead: float = _seconds(10.0, 0, 3_600)
    """How long before a deadline it starts them."""

    scale_socket: str = _text(".tarry/scale.sock", r"^.{1,100}$", "a path of at most 100 characters")
    """Where it hears of deliveries: a Unix datagram socket, to which gateways of this host send."""

    codec_keys: str | None = _text(
        None,
        rf"^\s*{_KEY}(\s+{_KEY})*\s*$",
        "id=file:/path or id=env:NAME for each key, with blanks between them; never a key itself",
    )
    """Where the keys are that payloads are encrypted with (spec §20.2); without any nothing is."""

    codec_active: str | None = _text(None, rf"^{_KEY_ID}$", f"the id of one of the keys, or {NO_KEY}")
    """The key that encrypts; all of them decrypt."""

    codec_clear: bool = _switch(False)
    """Whether payloads that are not encrypted are read although there are keys (spec §20.3)."""

    codec_host: str = _text("127.0.0.1", r"^\S{1,255}$", "a host name or address of this machine")
    """Where the codec server listens."""

    codec_port: int = _count(7281, 0, 65_535)
    """The codec server's port; 0: any free one."""

    codec_token: SecretStr | None = Field(
        default=None, description=f"tokens of {_SECRET_LENGTH} characters or more, with blanks between them"
    )
    """Who sends one to the codec server may read everything."""

    codec_origins: str = _text(
        "http://localhost:8233 http://127.0.0.1:8233",
        rf"^\s*{_ORIGIN}(\s+{_ORIGIN})*\s*$",
        "origins such as https://temporal.example.org, with blanks between them",
    )
    """The Web UIs whose pages may ask the codec server."""

    log_format: Literal["text", "json"] = Field(default="text", description="text or json")
    """Of what workers, gateways and supervisors log: lines for people, or JSON objects (spec §24.8)."""

    log_level: Literal["debug", "info", "warning", "error"] | None = Field(
        default=None, description="debug, info, warning or error"
    )
    """From which level on they log; without it workers and gateways from `info` on, supervisors from `warning` on."""

    metrics: str | None = _text(
        None, r"^[^\s:]\S*:\d{1,5}(-\d{1,5})?$", "host:port, or host:first-last for the first free port of these"
    )
    """Where a process serves its metrics (spec §24.5); without it nowhere."""

    trace_content: bool = _switch(False)
    """Whether spans hold arguments, results and what is said, as the redactor leaves them (spec §24.4)."""

    @field_validator("callback_secrets", "gateway_token", "codec_token", "inbox_proxy_secret")
    @classmethod
    def _check_secrets(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and any(len(one) < _SECRET_LENGTH for one in value.get_secret_value().split() or [""]):
            raise PydanticCustomError("too_short", "a secret is too short")
        return value

    @field_validator("inbox_tokens")
    @classmethod
    def _check_people(cls, value: SecretStr | None) -> SecretStr | None:
        pairs = [one.partition("=") for one in value.get_secret_value().split()] if value is not None else []
        if any(not name or len(token) < _SECRET_LENGTH for name, _, token in pairs):
            raise PydanticCustomError("too_short", "a name or a long enough token is missing")
        if any(
            len({*column}) < len(pairs) for column in zip(*((name, token) for name, _, token in pairs), strict=True)
        ):
            raise PydanticCustomError("not_apart", "two people have one name, or one token")
        return value

    @model_validator(mode="after")
    def _check_build(self) -> Self:
        if (self.deployment is None) != (self.build is None):
            set_, missing = ("deployment", "build") if self.build is None else ("build", "deployment")
            text = f"{PREFIX}{set_.upper()} is set without {PREFIX}{missing.upper()}: set both, or neither"
            raise PydanticCustomError("lone_build", "{text}", {"text": text})
        return self

    @property
    def workers(self) -> tuple[str, ...]:
        """The names in `serves`."""
        return tuple(dict.fromkeys(self.serves.split()))

    def run_settings(self) -> RunSettings:
        """The subset that is pinned in a workflow's input, so that a deploy never changes an open run (spec §1.4)."""
        return RunSettings.model_validate(self, from_attributes=True)


def load_settings() -> Settings:
    """Read the environment.

    Raises:
        SettingsError: a variable holds something else than it may.
    """
    try:
        return Settings()
    except ValidationError as error:
        raise SettingsError("; ".join(_line(detail) for detail in error.errors())) from None


def _line(detail: ErrorDetails) -> str:
    if not detail["loc"]:
        return detail["msg"]
    name = str(detail["loc"][0])
    field = Settings.model_fields[name]
    # What a secret variable holds is nothing to print, nor what may be a key in the place of its name.
    held = "" if field.annotation == SecretStr | None or name == "codec_keys" else f"={detail['input']!r}"
    return f"{PREFIX}{name.upper()}{held} is refused: give {field.description}"
