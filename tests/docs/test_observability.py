"""docs/observability.md and temporal-dev/observability: they name what there is, all of it, and nothing else."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import temporalio.bridge
import yaml

from tarry.seeing.metrics import METRICS
from tarry.settings import PREFIX, Settings
from tests.docs.tables import rows
from tests.support.programs import ROOT
from tests.support.trees_of_spans import DELEGATED

PAGE = (ROOT / "docs" / "observability.md").read_text()
FOLDER = ROOT / "temporal-dev" / "observability"
DASHBOARD = json.loads((FOLDER / "dashboard.json").read_text())
ALERTS = yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"]
COMMANDS = re.compile(r"`(tarry|temporal) ([a-z-]+)")

OF_THE_SDK = {"namespace", "task_queue", "workflow_type", "activity_type", "worker_type", "le"}
"""Labels that ours do not declare, because the SDK or a histogram has them, or gauges always do."""


def promtool() -> str:
    """The program, where it is installed or PROMTOOL names it; Debian has it in the package `prometheus`."""
    found = os.environ.get("PROMTOOL") or shutil.which("promtool")
    if found is None:
        pytest.skip("promtool is not installed: Debian has it in the package prometheus")
    return found


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def queries() -> Iterator[str]:
    """Every expression of the dashboard."""
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"]


def rules() -> list[dict[str, Any]]:
    return [rule for group in ALERTS for rule in group["rules"]]


def names_in(expression: str) -> set[str]:
    """The metrics that an expression reads."""
    return set(re.findall(r"\b(?:tarry|temporal)_\w+", expression))


def metric_of(name: str) -> str:
    return re.sub(r"_(bucket|sum|count)$", "", name)


def test_the_tables_of_the_page_are_the_metrics_that_there_are() -> None:
    told = [cells for cells in rows(section("Metrics")) if cells[0].startswith("`tarry_")]

    assert [
        (name.strip("`"), kind, re.findall(r"`(\w+)`", labels), meaning) for name, kind, labels, meaning in told
    ] == [
        (metric.name, metric.kind, list(metric.labels), metric.help)
        for metric in sorted(METRICS, key=lambda metric: [cells[0].strip("`") for cells in told].index(metric.name))
    ]


def test_every_setting_stands_there_with_its_default() -> None:
    told = {cells[0].strip("`"): cells[-1] for cells in rows(PAGE.partition("\n## ")[0])}
    names = ("trace_content", "metrics", "log_format", "log_level")

    assert {f"{PREFIX}{name.upper()}" for name in names} < told.keys()
    assert told["TARRY_TRACE_CONTENT"] == f"`{str(Settings.model_fields['trace_content'].default).lower()}`"
    assert told["TARRY_LOG_FORMAT"] == f"`{Settings.model_fields['log_format'].default}`"


def test_the_log_line_of_the_page_has_fields_of_the_table_alone() -> None:
    [line] = re.findall(r"^```json\n(.*)\n```", section("Logs"), re.MULTILINE)
    fields = {name for cells in rows(section("Logs")) for name in re.findall(r"`(\w+)`", cells[0])}

    assert set(json.loads(line)) <= fields


def test_the_trace_of_the_page_is_one_that_runs() -> None:
    assert f"```text\n{DELEGATED}\n```" in section("Traces")


def test_the_page_names_every_alert_and_how_bad_it_is() -> None:
    told = [(cells[0].strip("`"), cells[1]) for cells in rows(section("Dashboard and alerts")) if "Tarry" in cells[0]]

    assert told == [(rule["alert"], rule["labels"]["severity"]) for rule in rules()]


def test_each_alert_says_what_happened_and_what_to_do_with_which_command() -> None:
    for rule in rules():
        assert rule["annotations"].keys() == {"summary", "runbook"}
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert re.search(r"`[^`]+`|TARRY_", rule["annotations"]["runbook"]), rule["alert"]
    # `tarry` commands that the runbooks name are there.
    known = (ROOT / "docs" / "cli.md").read_text()
    named = {word for rule in rules() for program, word in COMMANDS.findall(str(rule)) if program == "tarry"}
    assert [word for word in sorted(named) if f"`tarry {word}" not in known] == []


def test_dashboard_and_alerts_read_metrics_and_labels_that_there_are() -> None:
    labels = {metric.name: {*metric.labels, *OF_THE_SDK} for metric in METRICS}
    sdk = b"".join(path.read_bytes() for path in Path(temporalio.bridge.__path__[0]).glob("*.so"))
    for expression in [*queries(), *(rule["expr"] for rule in rules())]:
        names = {metric_of(name) for name in names_in(expression)}
        assert names, expression
        ours = {name for name in names if name.startswith("tarry_")}
        assert ours <= labels.keys(), expression
        assert all(name.removeprefix("temporal_").encode() in sdk for name in names - ours), expression
        used = set(re.findall(r"(\w+)=~?\"", expression))
        for group in re.findall(r"\b(?:by|on) \(([^)]*)\)", expression):
            used |= {label.strip() for label in group.split(",")}
        assert not ours or used <= set().union(*(labels[name] for name in ours)), expression


def _span(start: int, length: int) -> range:
    return range(start, start + length)


def test_the_dashboard_shows_every_metric_of_ours_in_panels_that_do_not_overlap() -> None:
    shown = {metric_of(name) for expression in queries() for name in names_in(expression)}
    places = [panel["gridPos"] for panel in DASHBOARD["panels"]]
    cells = [
        (x, y) for at in places for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])
    ]

    assert {metric.name for metric in METRICS} <= shown
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) == 23
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(places)


def test_prometheus_takes_the_rules_and_the_configuration_and_each_alert_fires_when_it_is_to() -> None:
    for arguments in (("check", "config", "prometheus.yml"), ("test", "rules", "alerts.test.yml")):
        done = subprocess.run([promtool(), *arguments], cwd=FOLDER, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_fires_in_the_tests_of_the_rules() -> None:
    tested = (FOLDER / "alerts.test.yml").read_text()

    assert [rule["alert"] for rule in rules() if f'alertname="{rule["alert"]}"' not in tested] == []


def test_prometheus_takes_every_query_of_the_dashboard(tmp_path: Path) -> None:
    plain = [
        one.replace("$__rate_interval", "5m").replace("$namespace", ".*").replace("$task_queue", ".*")
        for one in queries()
    ]
    recorded = [{"record": f"shown:{number}", "expr": one} for number, one in enumerate(plain)]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": recorded}]}))

    done = subprocess.run(
        [promtool(), "check", "rules", "rules.yml"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )

    assert done.returncode == 0, done.stdout + done.stderr
