"""A server that speaks the protocol of S3, of a test's own: SeaweedFS, all of it in one process."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from coterie.cluster.membership.ports import free_ports
from coterie.engines.s3.bucket import Bucket, BucketAccess
from coterie.engines.s3.http import HttpClient
from coterie.engines.s3.records import Keys, PastObject, write
from coterie.engines.s3.signature import AccessKeys
from coterie.errors import CoterieError

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Self

ResultT = TypeVar("ResultT")

ENGINES = Path(__file__).parents[2] / ".venv" / "engines"
PROGRAM = ENGINES / "bin" / "weed"
MISSING = "" if PROGRAM.exists() else "no SeaweedFS: run `make .venv/engines/ready`"
START_SECONDS_MAX = 60
KEYS = AccessKeys("access", "secret")
BUCKET = "locks"
PARTS = ("master", "volume", "filer", "s3")


class SeaweedfsServer:
    """One server with one bucket."""

    def __init__(self, *prefix: str) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="coterie-s3-"))
        self._process: subprocess.Popen[bytes] | None = None
        ports = dict(zip([f"{part}{end}" for part in PARTS for end in (".port", ".port.grpc")],
                         free_ports(2 * len(PARTS)), strict=True))  # fmt: skip
        self._ports = ports
        self.port = ports["s3.port"]
        keys = {"accessKey": KEYS.access_key, "secretKey": KEYS.secret_key}
        actions = ["Admin", "Read", "Write", "List"]
        users = [{"name": "coterie", "credentials": [keys], "actions": actions}]
        self._path("s3.json").write_text(json.dumps({"identities": users}), encoding="utf-8")
        options = {
            "dir": self._folder,
            "ip": "127.0.0.1",
            "ip.bind": "127.0.0.1",
            **ports,
            "filer": "true",
            "filer.localSocket": self._path("filer.sock"),
            "s3": "true",
            "s3.config": self._path("s3.json"),
            "s3.iam": "false",
            "s3.localSocket": self._path("s3.sock"),
            "s3.port.iceberg": 0,
            "s3.port.lance": 0,
            "master.electionTimeout": "300ms",
            "master.heartbeatInterval": "50ms",
            "master.resumeState": "false",
            "master.telemetry": "false",
            "master.volumeSizeLimitMB": 64,
            "volume.max": 32,
            "volume.preStopSeconds": 0,
        }
        words = [f"-{name}={value}" for name, value in options.items()]
        self._command = [*prefix, str(PROGRAM), "server", *words]

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def url(self, lease: float | None = None, *, port: int | None = None, user: str = "") -> str:
        """Return the URL of the bucket, or of what stands before the server at another port."""
        user = user or f"{KEYS.access_key}:{KEYS.secret_key}"
        query = "" if lease is None else f"?lease={lease:g}"
        return f"s3://{user}@127.0.0.1:{port or self.port}/{BUCKET}{query}"

    def start(self) -> None:
        """Start it unless it is up, and wait until objects can be written."""
        if self._process is None:
            with self._path("log").open("ab") as log:
                self._process = subprocess.Popen(
                    self._command,
                    stdout=log,
                    stderr=log,
                    stdin=subprocess.DEVNULL,
                    env={**os.environ, "HOME": str(self._folder), "TMPDIR": str(self._folder)},
                )
        end = time.monotonic() + START_SECONDS_MAX
        while not _run(self._answers()):
            assert time.monotonic() < end, self.log()
            time.sleep(0.02)

    def begin(self) -> None:
        """Open the first run of a bucket that was never used, so that no lease is waited for."""

        async def write_past() -> bool:
            bucket = self.bucket()
            try:
                past = PastObject(run="begun", is_open=True, lease=1.0)
                await bucket.put(Keys("coterie").past, write(past), None)
            except CoterieError:
                return False  # a server that has just begun may be slow
            finally:
                await bucket.close()
            return True

        end = time.monotonic() + START_SECONDS_MAX
        while not _run(write_past()):
            assert time.monotonic() < end, self.log()

    def kill(self) -> None:
        """Kill the server without a word."""
        self._signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()
            self._process = None

    def suspend(self) -> None:
        """Stop the server for a moment, as a machine does that hangs."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        self._signal(signal.SIGCONT)

    def bucket(self, keys: AccessKeys = KEYS, limit: float = 5.0) -> Bucket:
        """Return the bucket, to be used in one event loop and closed there."""
        client = HttpClient("s3", ("127.0.0.1", self.port), None, limit)
        access = BucketAccess(f"127.0.0.1:{self.port}", BUCKET, "us-east-1", keys)
        return Bucket("s3", client, access)

    def empty(self) -> None:
        """Remove all objects."""

        async def remove() -> None:
            bucket = self.bucket()
            for each in await bucket.list(""):
                await bucket.delete(each.key)
            await bucket.close()

        _run(remove())

    def keys(self, prefix: str = "") -> list[str]:
        """List the keys of all objects."""

        async def find() -> list[str]:
            bucket = self.bucket()
            try:
                return [each.key for each in await bucket.list(prefix)]
            finally:
                await bucket.close()

        return _run(find())

    def log(self) -> str:
        """Return what the server has said."""
        return self._path("log").read_text(encoding="utf-8", errors="replace")

    def remove(self) -> None:
        """Kill the server, and remove all that it has."""
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)
        for part in PARTS:
            socket = Path(f"/tmp/seaweedfs-{part}-grpc-{self._ports[f'{part}.port.grpc']}.sock")  # noqa: S108 - there
            socket.unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self._folder / name

    async def _answers(self) -> bool:
        """Whether the bucket is there, or could be made, and objects can be written."""
        bucket = self.bucket(limit=1.0)
        try:
            await bucket.make()
            await bucket.put(f"begun/{time.monotonic_ns()}", b"", None)
            await bucket.get(Keys("coterie").past)  # which may be elsewhere
        except CoterieError:
            return False
        finally:
            await bucket.close()
        return True

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)


def _run(work: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Run it in a thread of its own: a test may have a loop already."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()
