"""``shardfeed`` in this process, with Dataflow and buckets on this machine."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from shardfeed.cli.main import main
from shardfeed.storage.gcs_clients import google_client
from tests.dataflow.service import PROJECT, REGION, FakeDataflow
from tests.engines.launcher import Launcher, launched

BUILD = ("build", "--input", "gs://photos/in", "--image_size", "16")


@dataclass(frozen=True)
class Ended:
    """One command: exit code and what it said."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Cloud:
    """Buckets: ``photos`` holds images in ``in/``, ``data`` is empty, ``scratch`` is Beam's."""

    service: FakeDataflow
    gcs: str
    tree: Path

    @property
    def options(self) -> list[str]:
        """What Beam needs to submit, to this service."""
        return [
            *("--runner", "DataflowRunner", "--project", PROJECT, "--region", REGION),
            *("--temp_location", "gs://scratch/tmp", "--dataflow_endpoint", self.service.url),
        ]

    @property
    def setup(self) -> list[str]:
        return ["--setup_file", str(self.tree / "setup.py")]

    def build(self, *flags: str, out: str = "gs://data/out") -> Ended:
        """``shardfeed build`` in this process; a flag given again in ``flags`` wins."""
        return run(*BUILD, "--output", out, *flags)

    def submit(self, *flags: str, out: str = "gs://data/out") -> Ended:
        """The same on Dataflow."""
        return self.build(*self.options, *flags, out=out)

    def launcher(
        self, folder: Path, *flags: str, hooks: tuple[Callable[[], None], ...] = ()
    ) -> AbstractContextManager[Launcher]:
        """The same in another process, for signals; ``folder`` is for temporary files."""
        env = {name: os.environ[name] for name in ("STORAGE_EMULATOR_HOST", "GOOGLE_APPLICATION_CREDENTIALS")}
        args = (*BUILD, "--output", "gs://data/out", *self.options, *flags)
        return launched(args, folder, hooks=hooks, env=env)

    def plan(self, *flags: str) -> Ended:
        """``shardfeed plan`` with the arguments of a build on Dataflow."""
        places = ("--input", "gs://photos/in", "--output", "gs://data/plan")
        return run("plan", *places, *self.options, *self.setup, *flags)

    def put(self, bucket: str, files: Mapping[str, bytes]) -> None:
        """Uploads."""
        for name, data in files.items():
            google_client().bucket(bucket).blob(name).upload_from_string(data)

    def objects(self, bucket: str) -> dict[str, bytes]:
        """Content of a bucket."""
        client = google_client()
        return {blob.name: blob.download_as_bytes() for blob in client.list_blobs(bucket)}

    def digests(self, folder: str) -> dict[str, str]:
        """SHA-256 of each file of a dataset in ``gs://data``, except ``run.json``."""
        files = {
            name.removeprefix(folder): data for name, data in self.objects("data").items() if name.startswith(folder)
        }
        return {name: hashlib.sha256(data).hexdigest() for name, data in files.items() if name != "run.json"}


def run(*argv: str) -> Ended:
    """One command in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(argv)
        except SystemExit as end:
            code = int(str(end.code))
    return Ended(code, out.getvalue(), err.getvalue())
