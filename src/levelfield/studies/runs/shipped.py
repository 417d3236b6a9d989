"""Catalog and features that this process received from another machine, for runs on a node without the images."""

from __future__ import annotations

from dataclasses import dataclass

from levelfield.data import Catalog
from levelfield.embedder.trunk.cache import FeatureCache


@dataclass(frozen=True)
class Shipped:
    """Catalog and features of one dataset. shipment: identifies what was sent."""

    shipment: str
    catalog: Catalog
    cache: FeatureCache


_SHIPPED: dict[str, Shipped] = {}


def receive(data_digest: str, shipped: Shipped) -> None:
    """Use `shipped` for the data with this digest."""
    _SHIPPED[data_digest] = shipped


def shipped_data(data_digest: str) -> Shipped | None:
    """What this process received for the data with this digest; None: this machine has its images."""
    return _SHIPPED.get(data_digest)
