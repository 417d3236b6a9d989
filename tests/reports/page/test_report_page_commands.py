"""The page from the command line: `report --page`, `evaluate --images --page`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from looked_at import LABELS, array, content_of, draw, embeddings, write_study_of

from levelfield.cli import main


def run(capfd: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str]:
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    out, err = capfd.readouterr()
    return end.value.code, " ".join((out + err).split())


@pytest.fixture
def arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """e.npy, y.npy and images.txt, with paths relative to it."""
    monkeypatch.chdir(tmp_path)
    paths = draw(tmp_path / "photos")
    np.save("e.npy", embeddings(noise=0.3))
    np.save("y.npy", LABELS)
    Path("images.txt").write_text("\n".join(str(path.relative_to(tmp_path)) for path in paths), encoding="utf-8")
    return tmp_path


def test_report_writes_the_page_unless_told_not_to(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "study"
    write_study_of(folder, tmp_path / "photos", methods=["contrastive"], seeds=1)
    code, said = run(capfd, "report", folder, "--no-page")
    assert code == 0
    assert "report.html" not in said
    assert not list(folder.glob("report.*"))
    code, said = run(capfd, "report", folder)
    assert code == 0
    assert said.endswith(f"Open {folder / 'report.html'}")
    (folder / "report.html").write_text("old", encoding="utf-8")
    code, _ = run(capfd, "report", folder, "--page")
    assert code == 0
    assert content_of(folder / "report.html")["study"] == "study"
    (folder / "report.html").unlink()
    (folder / "report.html").mkdir()
    code, said = run(capfd, "report", folder)
    assert code != 0
    assert "Use contrastive" in said
    assert "The leaderboard is complete, but the page could not be written." in said


def test_evaluate_writes_a_page_of_arrays(arrays: Path, capfd: pytest.CaptureFixture[str]) -> None:
    given = ["--embeddings", "e.npy", "--labels", "y.npy", "--metrics", "recall@1,nmi"]
    code, said = run(capfd, "evaluate", *given, "--images", "images.txt", "--page", "out.html")
    assert code == 0
    assert said.endswith("Open out.html")
    page = content_of(arrays / "out.html")
    assert page["tests"][0]["lost"] == []
    assert page["answer"][0].startswith("cosine, dim 6: recall@1 ")
    right = array(page["tests"][0]["methods"][0]["right"])
    assert (right == 1).mean() == pytest.approx(page["rows"][0]["cells"]["recall@1"]["mean"])


def test_evaluate_with_a_gallery_and_a_table_of_images(arrays: Path, capfd: pytest.CaptureFixture[str]) -> None:
    lines = (arrays / "images.txt").read_text(encoding="utf-8").splitlines()
    (arrays / "images.csv").write_text("n,path\n" + "".join(f"0,{path}\n" for path in lines), encoding="utf-8")
    rows = np.load("e.npy")
    for name, part in (("q", slice(0, 50)), ("g", slice(50, None))):
        np.save(f"{name}.npy", rows[part])
        np.save(f"{name}y.npy", LABELS[part] % 10)
    given = ["--embeddings", "q.npy", "--labels", "qy.npy", "--gallery", "g.npy", "--gallery-labels", "gy.npy"]
    code, _ = run(capfd, "evaluate", *given, "--images", "images.csv", "--page", "out.html", "--metrics", "recall@1")
    assert code == 0
    [test] = content_of(arrays / "out.html")["tests"]
    assert array(test["query"]).sum() == 50
    assert array(test["methods"][0]["neighbours"]).min() >= 50


def test_options_that_do_not_fit_are_refused(arrays: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (arrays / "few.txt").write_text("a.png\nb.png\n", encoding="utf-8")
    for options, message in {
        ("--page", "out.html"): "give --images FILE",
        ("--images", "images.txt"): "give the page's file, too",
        ("--images", "images.txt", "--page", "out.pdf"): "must end with .html",
        ("--images", "few.txt", "--page", "out.html"): "lists 2 images for 200 embeddings",
        ("--images", "none.txt", "--page", "out.html"): "none.txt",
    }.items():
        code, said = run(capfd, "evaluate", "--embeddings", "e.npy", "--labels", "y.npy", *options)
        assert code != 0
        assert message in said
        assert not (arrays / "out.html").exists()
