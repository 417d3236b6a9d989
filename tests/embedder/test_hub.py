"""A hub that cannot be reached is told once."""

from __future__ import annotations

import logging

import pytest

from levelfield.embedder.trunk import backbones
from levelfield.errors import MissingData


def test_attempts_to_reach_the_hub_are_one_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    client = logging.getLogger("huggingface_hub.utils._http")

    def unreachable(*_: object, **__: object) -> None:
        for attempt in range(5):
            client.warning(f"Retrying in 1s [Retry {attempt}/5].")
        raise OSError("no connection.")

    monkeypatch.setattr(backbones.timm, "create_model", unreachable)
    with pytest.raises(MissingData, match=r"weights of 'resnet50': no connection\. Give a local file"):
        backbones.create("resnet50")
    assert [record.name for record in caplog.records] == ["levelfield"]
    assert "the hub does not answer" in caplog.text
    client.warning("heard again")
    assert "heard again" in caplog.text
