"""Sites with a part of another class, such as one in which a line is broken."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import msgspec

from coterie.lab.trials.clients import BusySite
from coterie.transactions.site.site import Site
from tests.harness import broken_class

SiteT = TypeVar("SiteT", bound=Site)


class Kinds(NamedTuple):
    """The two classes of sites that tests run."""

    site: type[Site] = Site
    busy_site: type[BusySite] = BusySite


def with_part(kind: type[SiteT], name: str, part: type[Any]) -> type[SiteT]:
    """Return sites of this kind that have a part of that class under this name."""
    fields = [(name, part, msgspec.field(default_factory=part))]
    made: type[Any] = msgspec.defstruct(
        kind.__name__, fields, bases=(kind,), module=kind.__module__, array_like=True
    )
    return made


def broken_sites(part: type[msgspec.Struct], old: str, new: str) -> Kinds:
    """Return the classes of sites in which one line of a part is broken."""
    [name] = [field.name for field in msgspec.structs.fields(Site) if field.type is part]
    broken = broken_class(part, old, new)
    return Kinds(with_part(Site, name, broken), with_part(BusySite, name, broken))
