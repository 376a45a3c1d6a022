"""What a process tells at its metrics address, read as Prometheus reads it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import httpx

_SAMPLE = re.compile(r"^(?P<name>[a-zA-Z_:]\w*)(?:\{(?P<labels>.*)\})? (?P<value>\S+)$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_SAID = re.compile(r"metrics at (http://\S+)")
ANY_PORT = {"TARRY_METRICS": "127.0.0.1:0"}


@dataclass(frozen=True)
class Sample:
    """A line."""

    name: str
    labels: dict[str, str]
    value: float


@dataclass(frozen=True)
class Scrape:
    """All that was told. `types`: of each metric, by its name."""

    samples: tuple[Sample, ...]
    types: dict[str, str]

    def total(self, name: str, **labels: str) -> float:
        """The sum of all series that have these labels."""
        return sum(one.value for one in self.samples if one.name == name and labels.items() <= one.labels.items())

    def labels(self, name: str) -> set[str]:
        """The names of the labels of a metric; of a histogram that of its buckets is not among them."""
        names = (name, f"{name}_count", f"{name}_sum")
        return {label for one in self.samples if one.name in names for label in one.labels}


def parse(text: str) -> Scrape:
    """What Prometheus's text format says."""
    found = [match for line in text.splitlines() if (match := _SAMPLE.match(line))]
    samples = tuple(
        Sample(one["name"], dict(_LABEL.findall(one["labels"] or "")), float(one["value"])) for one in found
    )
    return Scrape(samples, dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE)))


async def scrape(log: Path) -> Scrape:
    """What the process tells that writes this log."""
    async with httpx.AsyncClient(trust_env=False) as client:
        return parse((await client.get(address_in(log))).raise_for_status().text)


def address_in(log: Path) -> str:
    """Where the process serves its metrics, as it said last."""
    [*_, url] = _SAID.findall(log.read_text())
    return str(url)
