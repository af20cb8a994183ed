"""Running papermill, and running it again and again without importing everything each time.

`alone` starts papermill and its kernel as two new processes, which import for some seconds. On
Linux, `forks` pays that once: a server imports all that notebooks use, and then splits off two
processes for each notebook, one for papermill and one for the kernel. No notebook ever runs in the
server, so each kernel is as new as one that was started for it.
"""

from __future__ import annotations

import gc
import importlib
import io
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, suppress
from functools import partial
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from retrieval_quality.errors import needing

with needing("book"):
    from jupyter_client.provisioning import KernelProvisionerFactory, LocalProvisioner

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jupyter_client.connect import KernelConnectionInfo

# On macOS a process that has loaded its libraries is not safe to split; Windows cannot split any.
_CAN_FORK = sys.platform == "linux"

_PRELOADED = (
    "papermill.cli",
    "ipykernel.kernelapp",
    "retrieval_quality.book.pages",
    "retrieval_quality.exhibits.catalogue",
    "retrieval_quality.exhibits.claims",
    "retrieval_quality.statistics.agreement",
    "retrieval_quality.data.hub",
)
_PROVISIONER = "forked"
_DONE, _NOTHING = b"done", "it ended without saying why"
_SERVE = (
    "import sys; sys.path = [folder for folder in sys.path if folder]; "  # not the working folder
    "from retrieval_quality.book.kernels import serve; serve({})"
)

Papermill = Callable[[Sequence[str]], str]


def alone(arguments: Sequence[str], environment: Mapping[str, str]) -> str:
    """Run papermill as a new process.

    Parameters
    ----------
    arguments : sequence of str
        Of papermill's command line.
    environment : mapping
        What differs from the environment of this process, for papermill and its kernel.

    Returns
    -------
    str
        What it said where it failed; empty where it did not.
    """
    done = subprocess.run(
        [sys.executable, "-m", "papermill", *arguments],
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )
    said = done.stderr.decode("utf-8", "replace")
    return (said.strip() or _NOTHING) if done.returncode else ""


@contextmanager
def forks(environment: Mapping[str, str]) -> Iterator[Papermill]:
    """Start a server, and give a function that runs papermill in a process split off from it.

    The function takes the arguments of papermill's command line and returns what it said where it
    failed, like `alone`; several threads may call it at the same time. The server and everything
    that came from it is one process group: it ends with this context, or with this process.
    Elsewhere than on Linux the function is `alone`.

    Parameters
    ----------
    environment : mapping
        What differs from the environment of this process, for papermill and the kernels.
    """
    if not _CAN_FORK:
        yield partial(alone, environment=environment)
        return
    control, theirs = socket.socketpair()
    with control, tempfile.TemporaryFile() as log:
        with theirs:
            number = _above_standard(theirs)
            server = subprocess.Popen(
                [sys.executable, "-c", _SERVE.format(number)],
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                pass_fds=[number],
                process_group=0,
            )
            os.close(number)
        try:
            yield lambda arguments: _answer(control, arguments, log.fileno())
        finally:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()


def _above_standard(end: socket.socket) -> int:
    """Copy a descriptor past 0, 1 and 2: where one of them is closed, a socket may have it."""
    import fcntl

    return fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 3)


def _answer(control: socket.socket, arguments: Sequence[str], log: int) -> str:
    """Ask for papermill, and wait for what it answers; the log says why where there is none."""
    ours, theirs = socket.socketpair()
    answer = b""
    with ours, suppress(OSError):  # the server, or what it split off, is gone
        with theirs:
            socket.send_fds(control, [b"."], [theirs.fileno()])
        ours.sendall(b"\0".join(map(os.fsencode, arguments)))
        ours.shutdown(socket.SHUT_WR)
        answer = _read(ours)
    if not answer:
        answer = os.pread(log, os.fstat(log).st_size, 0) + f"\n{_NOTHING}".encode()
    return "" if answer == _DONE else answer.decode("utf-8", "replace").strip()


def _read(stream: socket.socket) -> bytes:
    with stream.makefile("rb") as file:
        return file.read()


def serve(number: int) -> None:
    """Be the server of `forks`, which ends what it started when nobody can ask for more.

    Parameters
    ----------
    number : int
        Descriptor of the socket on which it is sent sockets: one for each notebook, from which
        papermill's arguments are read and to which the answer is written.
    """
    _end_with_parent(signal.SIGKILL)  # nobody reads the socket yet
    for name in _PRELOADED:
        importlib.import_module(name)
    _warm_up()
    _end_with_parent(0)  # from here on the socket says so, and what was started ends too
    gc.freeze()  # what is shared with the forks is never looked at, which would copy it
    control = socket.socket(fileno=number)
    while True:
        descriptors = socket.recv_fds(control, 1, 1)[1]
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:  # those that have ended
                pass
        if not descriptors:
            os.killpg(0, signal.SIGKILL)
        with socket.socket(fileno=descriptors[0]) as asked:
            if os.fork() == 0:
                control.close()
                _serve_one(asked)
                return  # to the end of the program, as any other process


def _end_with_parent(number: int) -> None:
    """Have this process sent a signal when the one that started it ends; 0 for none."""
    import ctypes

    ctypes.CDLL(None).prctl(1, number)  # PR_SET_PDEATHSIG


def _warm_up() -> None:
    """Have libraries set up what they put off until they are first used."""
    import nbformat
    import numba

    numba.njit(lambda: 0)()
    nbformat.validate(nbformat.v4.new_notebook())


def _serve_one(asked: socket.socket) -> None:
    """Become papermill, after splitting off a kernel for it while nothing has run yet."""
    read, write = os.pipe()
    kernel = os.fork()
    if kernel == 0:
        asked.close()
        os.close(write)
        _become_kernel(read)
        return
    os.close(read)
    ForkedKernel.waiting = _Fork(kernel), write
    arguments = [os.fsdecode(part) for part in _read(asked).split(b"\0")]
    asked.sendall(_papermill(arguments).encode("utf-8", "replace") or _DONE)


def _become_kernel(read: int) -> None:
    """Wait until papermill asks for the kernel; it does not where it fails before."""
    from ipykernel.kernelapp import IPKernelApp

    with open(read, "rb") as pipe:
        wanted = pipe.read()
    if wanted:
        wanted = json.loads(wanted)
        os.environ.clear()
        os.environ.update(wanted["environment"])
        os.chdir(wanted["folder"])
        sys.argv = wanted["arguments"]
        IPKernelApp.launch_instance(sys.argv[1:], parent_handle=os.getppid())


def _papermill(arguments: list[str]) -> str:
    """Run papermill in this process, with the kernel that waits; give what it said on failure."""
    from papermill.cli import papermill

    factory = KernelProvisionerFactory.instance(default_provisioner_name=_PROVISIONER)
    factory.provisioners[_PROVISIONER] = EntryPoint(
        _PROVISIONER, f"{__name__}:{ForkedKernel.__name__}", factory.GROUP_NAME
    )
    said = io.StringIO()
    with redirect_stderr(said):
        try:
            papermill(arguments)
        except SystemExit as end:
            if not end.code:
                return ""
        except Exception:
            traceback.print_exc()
    return said.getvalue().strip() or _NOTHING


class _Fork:
    """What a provisioner needs of `subprocess.Popen`, for a process that was split off."""

    stdin = stdout = stderr = None

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    wait = poll  # only called after it has ended

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)


class ForkedKernel(LocalProvisioner):
    """Gives papermill the kernel that was split off for it."""

    waiting: ClassVar[tuple[Any, int]]  # the process, and where it waits for what to do

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> KernelConnectionInfo:
        """Tell the waiting process to become the kernel that the command would start."""
        self.process, write = self.waiting
        self.pid, self.cwd = self.process.pid, kwargs.get("cwd") or str(Path.cwd())
        wanted = {
            "arguments": cmd[cmd.index("ipykernel_launcher") :],
            "environment": {**kwargs["env"], "JPY_PARENT_PID": str(os.getpid())},
            "folder": self.cwd,
        }
        with open(write, "wb") as pipe:
            pipe.write(json.dumps(wanted).encode())
        return self.connection_info
