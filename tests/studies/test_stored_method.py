"""The learned state of a method besides the model can be loaded from its run folder."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from small_world import run_one, small_study

from levelfield.errors import BadInput, NotTrusted
from levelfield.studies.runs.folder.files import read_training, write_training
from levelfield.studies.runs.folder.method_file import load_method
from levelfield.training import checkpoint
from levelfield.trust import trusting

OWN = """
import torch
class Own(torch.nn.Module):
    def __init__(self, num_classes, dim):
        super().__init__()
        self.proxies = torch.nn.Parameter(torch.randn(num_classes, dim))
    def forward(self, embeddings, labels):
        return torch.nn.functional.cross_entropy(embeddings @ self.proxies.T, labels)
class Remembers(Own):
    def get_extra_state(self):
        return {"seen": 3}
    def set_extra_state(self, state):
        pass
"""


def test_the_weights_that_a_run_ended_with_are_loaded(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = []
    monkeypatch.setattr(checkpoint, "save", lambda path, state: kept.append(copy.deepcopy(state)))
    folder = run_one(small_study(photos, ["message_passing"]), tmp_path)
    method = load_method(folder)
    saved = kept[-1]["weights"]["method"]
    assert not method.training
    assert method.state_dict().keys() == saved.keys()
    for name, value in method.state_dict().items():
        assert torch.equal(value, saved[name]), name
    start = small_study(photos, ["message_passing"], steps=1, lr=1e-9)
    other = load_method(run_one(start, tmp_path / "start"))
    assert not torch.equal(other.objective.aux_weight, method.objective.aux_weight)


def test_a_custom_loss_is_made_again_from_its_file(photos: Path, tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.write_text(OWN)
    remembers = run_one(small_study(photos, [f"{file}:Remembers"]), tmp_path)
    with trusting(file), pytest.raises(BadInput, match="not a tensor"):
        load_method(remembers)
    folder = run_one(small_study(photos, [f"{file}:Own"]), tmp_path)
    stored = load_file(folder / "method.safetensors")
    (name,) = (name for name in stored if name.endswith("proxies"))
    with pytest.raises(NotTrusted, match=r"own\.py"):
        load_method(folder)
    with trusting(file):
        assert torch.equal(load_method(folder).state_dict()[name], stored[name])
        file.unlink()
        with pytest.raises(BadInput, match="does not exist"):
            load_method(folder)


def test_a_method_needs_no_image_but_a_finished_run_with_its_own_intact_file(photos: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="not a finished run"):
        load_method(tmp_path)
    folder = run_one(small_study(photos, ["proxy_anchor"]), tmp_path)
    text = (folder / "run.yaml").read_text()
    (folder / "run.yaml").write_text(text.replace(str(photos), str(tmp_path / "gone")))
    write_training(folder, read_training(folder))  # with the checksum of that
    assert load_method(folder).proxies.shape == (4, 8)
    stored = folder / "method.safetensors"
    content = stored.read_bytes()
    flipped = bytearray(content)
    flipped[-5] ^= 1
    for damaged in (content[:100], bytes(flipped)):
        stored.write_bytes(damaged)
        with pytest.raises(BadInput, match="damaged"):
            load_method(folder)
    facts = '{"num_classes": 4, "width": 3, "left_out": []}'
    save_file({"objective.other": torch.zeros(1)}, stored, {"levelfield": facts})
    write_training(folder, read_training(folder))
    with pytest.raises(BadInput, match="does not match"):
        load_method(folder)
    stored.unlink()
    with pytest.raises(BadInput, match="does not exist"):
        load_method(folder)
    write_training(folder, read_training(folder))
    with pytest.raises(BadInput, match="does not match the method"):
        load_method(folder)
