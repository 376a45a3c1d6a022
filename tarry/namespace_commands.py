"""The commands by which a person makes a namespace what it must be, where we may not (spec §25.4)."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from tarry.core.attributes import Attribute

_CLOUD = (".tmprl.cloud", ".api.temporal.io")
"""In addresses of a namespace, and of a region."""


@dataclass(frozen=True)
class NamespaceCommands:
    """Those for one namespace at one address: of the `temporal` program, or on Temporal Cloud of `tcld`."""

    namespace: str
    address: str

    @property
    def is_cloud(self) -> bool:
        """Whether it is Temporal Cloud, which takes such orders at another place."""
        return any(part in self.address for part in _CLOUD)

    def create(self, retention: timedelta) -> str:
        """Make the namespace."""
        if self.is_cloud:
            name = shlex.quote(self.namespace.partition(".")[0])
            how = "--auth-method api_key"
            return f"tcld namespace create --namespace {name} --region REGION --retention-days {retention.days} {how}"
        return f"temporal operator namespace create --retention {retention.days}d {self._place}"

    def create_attributes(self, attributes: Sequence[Attribute]) -> str:
        """Register search attributes."""
        if self.is_cloud:
            flags = " ".join(f"--search-attribute {one.name}={one.type}" for one in attributes)
            return f"tcld namespace search-attributes add --namespace {shlex.quote(self.namespace)} {flags}"
        flags = " ".join(f"--name {attribute.name} --type {attribute.type}" for attribute in attributes)
        return f"temporal operator search-attribute create {flags} {self._place}"

    def remove_attribute(self, attribute: Attribute) -> str:
        """Take one away that is registered as something else: what is indexed by it is found by it no more."""
        if self.is_cloud:
            return f"ask support.temporal.io to remove {attribute.name} from {self.namespace}"
        return f"temporal operator search-attribute remove --name {attribute.name} {self._place}"

    def set_retention(self, retention: timedelta) -> str:
        """Keep closed workflows for so long."""
        if self.is_cloud:
            name = shlex.quote(self.namespace)
            return f"tcld namespace retention set --namespace {name} --retention-days {retention.days}"
        return f"temporal operator namespace update --retention {retention.days}d {self._place}"

    @property
    def _place(self) -> str:
        return f"--namespace {shlex.quote(self.namespace)} --address {self.address}"
