"""Connect to Ray: start one on this machine, or join a running cluster. An address that does not answer is refused
within seconds; Ray itself would try for minutes."""

from __future__ import annotations

import logging
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from levelfield.errors import BadInput, LevelfieldError, MissingExtra, import_extra

LOCAL = "local"
OLDEST = (2, 50)
STORE = 256 * 1024**2  # bytes of shared memory of a local Ray
PATIENCE = 5.0  # seconds until an open port accepts a connection
STATUS_SECONDS = 20.0  # until `ray status` has answered; alone it would try for 40 seconds
_HOST = re.compile(r"(?P<host>\[[0-9a-fA-F:.]+\]|[\w.-]+):(?P<port>\d{1,5})")


def import_ray() -> Any:
    """The module `ray`, or an error that says what to install."""
    ray = import_extra("ray", "ray", "Ray is not installed")
    version = str(ray.__version__)
    if tuple(int(part) for part in re.findall(r"\d+", version)[:2]) < OLDEST:
        needed = ".".join(map(str, OLDEST))
        raise MissingExtra(f'Ray {version} is too old, {needed} or newer is needed: pip install "levelfield[ray]"')
    return ray


def address_of(named: str) -> str:
    """The address that the user named, or else `RAY_ADDRESS`; `local` if there is none.

    >>> address_of("127.0.0.1:6379")
    '127.0.0.1:6379'
    """
    return named or os.environ.get("RAY_ADDRESS", "") or LOCAL


@contextmanager
def connected(address: str, *, cpus: int | None = None) -> Iterator[Any]:
    """Context in which this process uses the Ray at `address`; yields the module. A Ray in use stays connected.

    cpus: of a local Ray, which is started here and ends with the context; None: all of this machine.
    """
    ray = import_ray()
    if ray.is_initialized():
        yield ray
        return
    address = address_of(address)
    local = {"num_cpus": cpus, "object_store_memory": STORE, "include_dashboard": False} if address == LOCAL else {}
    if address != LOCAL:
        check_address(address)
    stoppable = threading.current_thread() is threading.main_thread()  # others cannot change handlers
    before = signal.getsignal(signal.SIGTERM)
    with ExitStack() as stack:
        if stoppable:
            stack.callback(signal.signal, signal.SIGTERM, before or signal.SIG_DFL)
        logger = logging.getLogger("ray")  # it warns that others do not need a token
        stack.callback(logger.setLevel, logger.level)
        logger.setLevel(logging.ERROR)
        stack.callback(ray.shutdown)
        try:
            # without a working directory, Ray adds that of the command to the path of every process; it copies this one
            with tempfile.TemporaryDirectory() as empty:
                quiet = {"log_to_driver": False, "configure_logging": False}
                ray.init(address=address, runtime_env={"working_dir": empty}, **quiet, **local)
        except (RuntimeError, ConnectionError, ValueError) as error:
            raise _explained(ray, address, error) from error
        if stoppable:  # Ray's own handler calls sys.exit in the middle of its work, which aborts the process
            signal.signal(signal.SIGTERM, _stop)
        yield ray


def _stop(*_: object) -> None:
    raise KeyboardInterrupt  # as Ctrl-C


def check_address(address: str) -> None:
    """Refuse an address where no Ray answers.

    >>> check_address("nowhere")
    Traceback (most recent call last):
    ...
    levelfield.errors.BadInput: 'nowhere' is not the address of a Ray cluster. Give HOST:PORT, such as ...
    """
    if address == "auto":
        return  # Ray knows the address of the cluster of this machine
    if address.startswith("ray://"):
        raise BadInput(
            f"{address} is the address of a Ray Client, which cannot stream results. Run the command on a machine of "
            "the cluster and give HOST:PORT of its head, such as head-node:6379, or auto."
        )
    match = _HOST.fullmatch(address)
    if match is None:
        raise BadInput(
            f"'{address}' is not the address of a Ray cluster. Give HOST:PORT, such as head-node:6379, or auto for the "
            "cluster of this machine."
        )
    try:
        with socket.create_connection((match["host"].strip("[]"), int(match["port"])), timeout=PATIENCE):
            pass  # a closed port refuses at once
        _ask_status(address)
    except (OSError, OverflowError) as error:
        reason = "it does not answer" if isinstance(error, TimeoutError) else getattr(error, "strerror", "") or error
        raise BadInput(
            f"No Ray at {address}: {str(reason).lower()}. Start a cluster with `ray start --head --port=6379`, or give "
            "the address of its head."
        ) from error


def _ask_status(address: str) -> None:
    """Raise OSError unless the Ray at `address` tells its status."""
    ray = shutil.which("ray", path=os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")]))
    if ray is None:
        return  # installed without its command: `ray.init` will say what is wrong
    command = [ray, "status", "--address", address]
    try:
        subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=STATUS_SECONDS, check=True)
    except subprocess.TimeoutExpired as error:
        raise TimeoutError from error
    except subprocess.CalledProcessError as error:
        raise ConnectionError("what answers there is not Ray") from error


def _explained(ray: Any, address: str, error: Exception) -> LevelfieldError:
    """What to do about an error of `ray.init`."""
    message = " ".join(str(error).split())
    if "ersion mismatch" in message:
        theirs = re.search(r"Ray: (\S+) Python: (\S+)", message)
        other = f"Ray {theirs[1]} with Python {theirs[2]}" if theirs else "another version of Ray or Python"
        return BadInput(
            f"The cluster at {address} runs {other}, this is Ray {ray.__version__} with Python "
            f"{'.'.join(map(str, sys.version_info[:3]))}: install the same versions on all machines."
        )
    if address == "auto":
        return BadInput(f"There is no Ray cluster on this machine: `ray start --head` starts one. ({message[:200]})")
    return BadInput(
        f"Cannot join the Ray at {address}: {message[:300]} The command has to run on a machine of the cluster: "
        f"`ray start --address={address}` makes this machine one."
    )
