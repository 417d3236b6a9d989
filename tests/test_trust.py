"""Permission to run code files, and running each file once."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from levelfield.errors import NotTrusted
from levelfield.registry import Registry, load_from_file, load_plugins
from levelfield.trust import as_trusted, trust, trusted, trusting
from made_parts import pretend_installed


@pytest.fixture
def counting(tmp_path: Path) -> Path:
    """A file that writes down each time it is run."""
    path = tmp_path / "mine.py"
    path.write_text(
        "from pathlib import Path\nwith open(__file__ + '.ran', 'a') as log: log.write('x')\n"
        "def one(): return 1\ndef two(): return 2\n"
    )
    return path


def times(path: Path) -> int:
    log = path.with_name(path.name + ".ran")
    return len(log.read_text()) if log.exists() else 0


def test_a_caller_who_names_a_file_runs_it_once(counting: Path) -> None:
    assert load_from_file(f"{counting}:one") is load_from_file(f"{counting}:one")
    assert load_from_file(f"{counting}:two")() == 2
    assert times(counting) == 1


def test_a_changed_file_is_run_again(counting: Path) -> None:
    load_from_file(f"{counting}:one")
    counting.write_text("def one(): return 'changed'\n")
    assert load_from_file(f"{counting}:one")() == "changed"


def test_two_files_of_one_name_stay_apart(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "mine.py").write_text(f"def which(): return {name!r}\n")
    assert [load_from_file(f"{tmp_path}/{name}/mine.py:which")() for name in ("a", "b", "a")] == ["a", "b", "a"]


def test_inside_only_what_is_named_runs(counting: Path) -> None:
    with trusting(), pytest.raises(NotTrusted, match=r"--trust .*mine\.py"):
        load_from_file(f"{counting}:one")
    with trusting(f"{counting}:one"):
        assert load_from_file(f"{counting}:one")() == 1
        with pytest.raises(NotTrusted):
            load_from_file(f"{counting}:two")
        with trusting():
            assert load_from_file(f"{counting}:one")() == 1
    with trusting(counting):
        assert load_from_file(f"{counting}:two")() == 2


def test_trust_ends_with_its_context(counting: Path) -> None:
    trust(counting)
    assert trusted() is None  # nothing was restricted
    with trusting():
        trust(counting)
        assert load_from_file(f"{counting}:one")() == 1
        handed = trusted()
    assert trusted() is None
    with as_trusted(handed):
        assert load_from_file(f"{counting}:one")() == 1
    with trusting(), pytest.raises(NotTrusted):
        load_from_file(f"{counting}:one")


def test_a_trusted_file_stands_for_one_that_lay_elsewhere(counting: Path, tmp_path: Path) -> None:
    with trusting(counting):
        assert load_from_file("gone/mine.py:one")() == 1
        with pytest.raises(NotTrusted, match="does not exist: find it"):
            load_from_file("gone/other.py:one")


def test_a_package_in_the_working_directory_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_installed(tmp_path, "evil", "levelfield_evil")
    (tmp_path / "levelfield_evil.py").write_text("raise SystemExit('the folder ran')\n")
    monkeypatch.chdir(tmp_path)
    for folder in ("", ".", str(tmp_path)):
        monkeypatch.setattr("sys.path", [folder, *sys.path])
        load_plugins.cache_clear()
        assert Registry[int]("thing", "things").names() == []
