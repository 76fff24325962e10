"""Dataflow's front door, on this machine: takes jobs as the service does, and answers for them.

The real ``DataflowRunner`` speaks to it over REST (Beam does that for an endpoint with
``localhost`` in it), with a token that the same server gives out for a service account's key. A
test says how a job ends: with a state and messages, or with a function that executes what was
staged.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.kit.servers.in_a_thread import InAThread

Job = dict[str, Any]

PROJECT, REGION = "my-project", "us-central1"
_ERROR = 5  # JOB_MESSAGE_ERROR


@dataclass
class End:
    """How jobs end: a state of the API, and error messages, the first seen first."""

    state: str = "JOB_STATE_DONE"
    errors: list[str] = field(default_factory=list)


@dataclass
class Refusal:
    """Why jobs are not taken, as Google's APIs say it."""

    code: int
    status: str
    message: str


class FakeDataflow(InAThread):
    """The service. ``jobs``: what was submitted; ``execute``: runs a job, in a thread."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.counters: dict[str, int] = {}
        self.refusal: Refusal | None = None
        self.busy: dict[
            str, int
        ] = {}  # how often the rest of a job's address ("", "/messages", "/metrics") is answered by 429
        self.taking: Callable[[], object] = lambda: None  # what happens while a job is handed over
        self.looked_at = threading.Event()  # whether anybody has looked at a job
        self.ended = threading.Event()  # whether a job has ended by itself
        self.asked_for: list[int] = []  # states that jobs were asked to go to
        self.execute: Callable[[Job], End] = lambda _job: End()
        self.meanwhile: Callable[[], str] = lambda: "JOB_STATE_RUNNING"  # state of a job that has not ended
        self.asked_for_metrics: Callable[[], object] = lambda: None
        self.authorizations: set[str | None] = set()
        self._ends: dict[str, End] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.url = f"http://localhost:{self._server.server_port}"

    def key_file(self, folder: Path) -> Path:
        """A service account's key whose tokens come from here."""
        key = rsa.generate_private_key(65537, 2048)
        secret = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        raw = {
            "type": "service_account",
            "project_id": PROJECT,
            "private_key_id": "1",
            "private_key": secret.decode(),
            "client_email": f"launcher@{PROJECT}.iam.gserviceaccount.com",
            "client_id": "1",
            "token_uri": f"{self.url}/token",
        }
        path = folder / "key.json"
        path.write_text(json.dumps(raw))
        return path

    def answer(self, method: str, path: str, body: bytes, authorization: str | None) -> tuple[int, Any]:
        """(status, JSON) of one request."""
        if path == "/token":
            return 200, {"access_token": "token", "expires_in": 3600, "token_type": "Bearer"}
        self.authorizations.add(authorization)
        jobs = f"/v1b3/projects/{PROJECT}/locations/{REGION}/jobs"
        if self.refusal is not None:
            return self.refusal.code, {"error": vars(self.refusal)}
        if method == "POST" and path == jobs:
            self.taking()
            return 200, self._take(json.loads(body))
        if found := re.fullmatch(re.escape(jobs) + r"/([^/]+)(/messages|/metrics)?", path):
            if method == "PUT":
                self.asked_for.append(json.loads(body)["requestedState"])
                self._ends[found[1]] = End("JOB_STATE_CANCELLED")
                return 200, self._about(found[1], None)
            self.looked_at.set()
            if self.busy.get(found[2] or "", 0):
                self.busy[found[2] or ""] -= 1
                return 429, {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "quota"}}
            return 200, self._about(found[1], found[2])
        return 404, {"error": {"code": 404, "status": "NOT_FOUND", "message": f"no such thing: {method} {path}"}}

    def _take(self, job: Job) -> Job:
        active = [known for known in self.jobs if known["name"] == job["name"] and known["id"] not in self._ends]
        if active:  # the service's answer to another request of that name; clients compare the request's id
            return active[0]
        job = {**job, "id": f"job-{len(self.jobs)}", "currentState": "JOB_STATE_PENDING"}
        self.jobs.append(job)
        threading.Thread(target=self._run, args=(job,), daemon=True).start()
        return job

    def _run(self, job: Job) -> None:
        self._ends.setdefault(job["id"], self.execute(job))
        self.ended.set()

    def _about(self, job_id: str, what: str | None) -> Any:
        end = self._ends.get(job_id)
        if what == "/messages":
            texts = end.errors if end else []
            return {
                "jobMessages": [
                    {"id": str(number), "messageText": text, "messageImportance": _ERROR}
                    for number, text in enumerate(texts)
                ]
            }
        if what == "/metrics":
            self.asked_for_metrics()
            return {
                "metrics": [_metric(name, value, final) for name, value in self.counters.items() for final in (0, 1)]
            }
        (job,) = [job for job in self.jobs if job["id"] == job_id]
        return {**job, "currentState": end.state if end else self.meanwhile()}


def _metric(name: str, value: int, final: int) -> dict[str, Any]:
    context = {"namespace": "shardfeed", "step": "s1", "tentative": "false" if final else "true"}
    return {"name": {"origin": "user", "name": name, "context": context}, "scalar": value}


def _handler(service: FakeDataflow) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            path = self.path.partition("?")[0]
            try:
                status, answer = service.answer(self.command, path, body, self.headers.get("Authorization"))
            except ConnectionAbortedError:  # a test's: there is no answer
                self.close_connection = True
                return
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_POST = do_PUT = do_GET

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler
