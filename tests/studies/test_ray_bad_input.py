"""What is wrong with a cluster is one clear message, soon and before anything trains. Starts no Ray."""

from __future__ import annotations

import dataclasses
import errno
import fcntl
import signal
import socket
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from levelfield.cli import main
from levelfield.cli.running import get_ready
from levelfield.distributed import ray_connection as connect
from levelfield.errors import BadInput, MissingExtra
from levelfield.studies.execution.cluster.nodes import (
    Answer,
    Mark,
    Node,
    NodeState,
    inspect_node,
    marked,
    ready,
    survey,
)
from levelfield.studies.execution.cluster.on_ray import claim_run
from levelfield.studies.execution.cluster.resources import Demands
from levelfield.studies.execution.cluster.task import Changes, pack, unpack
from levelfield.studies.runs.run import Options, versions
from levelfield.studies.specification.choices import Data


def test_a_port_where_nothing_listens_is_refused_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    began = time.monotonic()
    with pytest.raises(BadInput, match=rf"No Ray at {address}: connection refused. Start a cluster with `ray start"):
        connect.check_address(address)
    assert time.monotonic() - began < 15


def test_a_server_that_is_no_ray_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "STATUS_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        with pytest.raises(BadInput, match="it does not answer"):
            connect.check_address(address)
        monkeypatch.setattr("shutil.which", lambda name, path: "false")
        with pytest.raises(BadInput, match="what answers there is not ray"):
            connect.check_address(address)


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("127.0.0.1", "not the address of a Ray cluster. Give HOST:PORT"),
        ("127.0.0.1:port", "not the address of a Ray cluster"),
        ("ray://127.0.0.1:10001", "Ray Client, which cannot stream results"),
        ("127.0.0.1:99999", "No Ray at 127.0.0.1:99999"),
    ],
)
def test_what_is_no_address_is_refused(address: str, told: str) -> None:
    with pytest.raises(BadInput, match=told):
        connect.check_address(address)


def test_the_command_refuses_a_wrong_address_before_it_reads_images(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # tests of other commands in this process may have left Ray out
    monkeypatch.setattr("levelfield.cli.running.get_ready", get_ready)
    (tmp_path / "study.yaml").write_text("data: nowhere\nmethods: [margin]\n")
    with pytest.raises(SystemExit) as ended:
        main(["compare", str(tmp_path / "study.yaml"), "--ray", "127.0.0.1:1"])
    assert ended.value.code == 1
    assert "No Ray at 127.0.0.1:1" in capsys.readouterr().err


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match=r'pip install "levelfield\[ray\]"'):
        connect.import_ray()
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(__version__="2.9.3"))
    with pytest.raises(MissingExtra, match=r"Ray 2.9.3 is too old, 2.50 or newer"):
        connect.import_ray()


def test_a_cluster_with_another_version_is_named_and_a_request_to_end_is_like_ctrl_c(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(**_: object) -> None:
        raise RuntimeError(
            "Version mismatch: The cluster was started with:\n    Ray: 2.51.0\n    Python: 3.12.1\nThis process..."
        )

    def start(**_: object) -> None:  # as Ray's
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(number))

    fake = SimpleNamespace(__version__="2.60.0", is_initialized=lambda: False, init=refuse, shutdown=lambda: None)
    monkeypatch.setitem(sys.modules, "ray", fake)
    monkeypatch.setattr(connect, "check_address", lambda _: None)
    told = r"at 127.0.0.1:6379 runs Ray 2.51.0 with Python 3.12.1, this is Ray 2.60.0 with Python 3.*same versions"
    with pytest.raises(BadInput, match=told), connect.connected("127.0.0.1:6379"):
        pass
    fake.init = start
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), connect.connected("127.0.0.1:6379"):
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) == before


def test_on_a_file_system_without_locks_the_claim_of_the_study_is_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flock(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    assert claim_run(tmp_path / "run") is not None


def node(name: str) -> Node:
    return Node(name, name, 4.0, 0.0, 10**9)


def test_a_look_finds_what_a_node_has(photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the look changes the working directory
    with marked(tmp_path) as mark:
        found = inspect_node(Data(name=str(photos)), mark, "cpu", None, tmp_path)
        another = dataclasses.replace(mark, content="another")
        assert inspect_node(None, another, "cpu", None, tmp_path).sees_folder is False
    assert found.sees_folder
    assert (found.images, found.no_data, found.no_device) == (40, "", "")
    assert found.described["versions"] == versions()
    missing = inspect_node(Data(name=str(tmp_path / "none")), mark, "cuda:9", None, tmp_path)
    assert missing.sees_folder is False
    assert missing.no_data
    assert "cuda:9" in missing.no_device


def test_the_mark_of_a_killed_driver_is_removed(tmp_path: Path) -> None:
    left = tmp_path / f".cluster.{socket.gethostname()}~{2**30}~0.tmp"
    left.write_text("of a process that is gone")
    with marked(tmp_path) as mark:
        assert list(tmp_path.iterdir()) == [mark.path]
    assert not list(tmp_path.iterdir())


def test_a_node_that_is_lost_while_it_looks_is_left_out() -> None:
    good, old, broken = (56 * digit for digit in "abc")
    alive = dict.fromkeys((good, old, broken), True)

    class Lost(Exception):
        pass

    def get(promised: str, timeout: float) -> str:
        if promised == good:
            return "found"
        alive[old] = False  # noticed now
        raise Lost("The node doesn't exist any more.")

    def options(*, scheduling_strategy: NodeAffinitySchedulingStrategy, **_: object) -> SimpleNamespace:
        return SimpleNamespace(remote=lambda *_: scheduling_strategy.node_id)

    errors = SimpleNamespace(GetTimeoutError=TimeoutError, RayTaskError=KeyError, RayError=Lost)
    facts = {"NodeManagerHostname": "vm", "NodeManagerAddress": "", "Resources": {"CPU": 1.0}}
    fake = SimpleNamespace(
        nodes=lambda: [{**facts, "NodeID": name, "Alive": lives} for name, lives in alive.items()],
        remote=lambda _: SimpleNamespace(options=options),
        get=get,
        exceptions=errors,
    )
    answers = survey(fake, None, Mark(Path(), ""), "cpu", None)
    assert [(answer.node.identity, answer.state) for answer in answers] == [(good, "found"), (broken, None)]


def test_a_node_without_the_data_is_named(photos: Path) -> None:
    good = inspect_node(Data(name=str(photos)), Mark(Path(), ""), "cpu", None, Path())
    bad = dataclasses.replace(good, no_data="There is no folder '/data/cub'.")
    answers = [Answer(node("a"), good), Answer(node("b"), bad), Answer(node("c"), bad)]
    with pytest.raises(BadInput, match=r"2 nodes \(b, c\): There is no folder '/data/cub'. Make the data available"):
        ready(answers)
    with pytest.raises(BadInput, match=r"1 node \(d\) cannot run levelfield: ModuleNotFoundError: levelfield"):
        ready([*answers, Answer(node("d"), None, "ModuleNotFoundError: levelfield")])
    other = NodeState({"versions": {**versions(), "levelfield": "9.9"}, "machine": {}}, True)
    with pytest.raises(BadInput, match=r"The nodes have levelfield .*9.9.*install the same version"):
        ready([Answer(node("a"), good), Answer(node("e"), other)])


def test_a_cluster_without_a_gpu_is_refused() -> None:
    with pytest.raises(BadInput, match="--device cuda: no node of the cluster has a GPU"):
        Demands(Options(device="cuda")).check([], [node("a")])


def test_a_parcel_of_a_whole_folder_replaces_all_of_its_files(tmp_path: Path) -> None:
    (tmp_path / "run" / "members").mkdir(parents=True)
    (tmp_path / "run" / "model.safetensors").write_bytes(b"weights")
    (tmp_path / "run" / "members" / "run.yaml").write_bytes(b"seed: 0")
    (tmp_path / "run" / "lock").touch()
    parcel = pack(tmp_path / "run")
    assert sorted(parcel.files) == ["members/run.yaml", "model.safetensors"]
    other = tmp_path / "other"
    (other / "old").mkdir(parents=True)
    (other / "old" / "file").touch()
    unpack(parcel, other)
    assert (other / "members" / "run.yaml").read_bytes() == b"seed: 0"
    assert not (other / "old" / "file").exists()


def test_changes_are_sent_with_a_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_bytes(b"seed: 0")
    changes = Changes(tmp_path)
    (tmp_path / "log.jsonl").write_bytes(b"{}")
    assert changes.new() is None
    (tmp_path / "checkpoint").write_bytes(b"state")
    parcel = changes.new()
    assert not parcel.whole
    assert list(parcel.files) == ["checkpoint", "log.jsonl"]
    assert changes.new() is None
