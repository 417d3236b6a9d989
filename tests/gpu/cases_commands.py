"""Every command that computes with a network does so on a pretended GPU."""

from __future__ import annotations

from pathlib import Path

import pytest
from pretended_gpu import OnDevice
from small_world import SMALL, make_photos

import levelfield
from levelfield.cli import main
from levelfield.embedder import Trunk
from levelfield.studies.runs.run import Options

COMMANDS = (
    "embed RUN PHOTOS --out rows.npy",
    "index RUN PHOTOS --out index",
    "search index PHOTO",
    "export RUN --out exported --to safetensors",
    "maps RUN --image PHOTO",
    "corrupt RUN --only gaussian_blur",
    "report STUDY",
    "compare STUDY/study.yaml --dry-run",
)


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of the device, with a page, a figure of a network, and corrupted images."""
    folder = tmp_path_factory.mktemp("commands")
    photos = make_photos(folder / "photos", classes=6, each=4)
    content = {
        "name": "small",
        "data": str(photos),
        "methods": ["proxy_anchor"],
        "seeds": 1,
        "metrics": ["recall@1"],
        "conditions": {**SMALL, "batch": "2x2", "steps": 2},
        "figures": ["activation-maps"],
        "corruptions": ["uniform_noise"],
    }
    options = Options(cache_folder=folder / "cache")
    report = levelfield.compare(content, out=folder, device="cuda", options=options)
    assert not report.not_drawn
    assert "can differ in the last bits" in " ".join(report.text().split())
    return folder / "small"


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_computes_on_the_device(command: str, study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [run] = [path.parent for path in study.rglob("model.yaml")]
    names = {"RUN": run, "STUDY": study, "PHOTOS": study.parent / "photos"}
    names |= {"PHOTO": min(names["PHOTOS"].rglob("*.png"))}
    for name in sorted(names, key=len, reverse=True):
        command = command.replace(name, str(names[name]))
    computed: list[bool] = []
    computes = Trunk._run

    def watched(trunk: Trunk, tensor: object, *args: object, **how: object) -> object:
        computed.append(isinstance(tensor, OnDevice))
        return computes(trunk, tensor, *args, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(Trunk, "_run", watched)
    monkeypatch.setenv("LEVELFIELD_CACHE", str(study.parent / "cache"))
    monkeypatch.chdir(study.parent)
    monkeypatch.setattr("sys.argv", ["levelfield", *command.split()])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    assert computed[-1]  # an earlier one may have asked the network for its width, on the host
