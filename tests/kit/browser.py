"""A real Chromium without a window, spoken to by its own protocol through two pipes.

No driver and no package is needed: messages are JSON, each ended by a zero byte.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_FLAGS = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-sandbox",  # as root in a container there is none
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--hide-scrollbars",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
)


class Page:
    """A page that is open.

    Attributes:
        said: What the console and the browser's log said: errors, refused requests, warnings.
        requests: Addresses that were asked for, those of images in the page (``data:``) left out.
    """

    def __init__(self, to: int, out: int) -> None:
        self._to, self._out, self._rest = to, out, b""
        self._numbers, self._session = itertools.count(1), ""
        self.said: list[str] = []
        self.requests: list[str] = []
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self._call(f"{domain}.enable")

    def open(self, path: Path, width: int, height: int = 900, dark: bool = False) -> None:
        """Opens a file in a window of ``width`` × ``height`` pixels."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._call("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[scheme])
        self._call("Page.navigate", url=path.resolve().as_uri())
        while not self.run("document.readyState == 'complete' && location.protocol == 'file:'"):
            pass

    def run(self, code: str) -> Any:
        """The value of an expression of JavaScript; of a promise, its result."""
        found = self._call("Runtime.evaluate", expression=code, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in found:
            raise AssertionError(found["exceptionDetails"])
        return found["result"].get("value")

    def screenshot(self, path: Path) -> None:
        """Writes the whole page as a PNG file."""
        whole = self._call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": whole["width"], "height": whole["height"], "scale": 1}
        found = self._call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(found["data"]))

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        os.write(
            self._to, json.dumps(message | ({"sessionId": self._session} if self._session else {})).encode() + b"\0"
        )
        while True:
            found = self._next()
            if found.get("id") == number:
                assert "error" not in found, found["error"]
                result: dict[str, Any] = found["result"]
                return result
            self._note(found.get("method", ""), found.get("params", {}))

    def _next(self) -> Any:
        while b"\0" not in self._rest:
            data = os.read(self._out, 1 << 20)
            assert data, "Chromium has ended"
            self._rest += data
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def _note(self, event: str, found: dict[str, Any]) -> None:
        if event == "Network.requestWillBeSent" and not found["request"]["url"].startswith("data:"):
            self.requests.append(found["request"]["url"])
        if event == "Log.entryAdded":
            self.said.append(found["entry"]["text"])
        if event == "Runtime.consoleAPICalled":
            self.said.append(str(found["args"]))
        if event == "Runtime.exceptionThrown":
            self.said.append(str(found["exceptionDetails"]))


@contextlib.contextmanager
def chromium(program: str | Path) -> Iterator[Page]:
    """An empty page of the browser ``program``, which ends with the block."""
    to_read, to_write = os.pipe()
    out_read, out_write = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        # Chromium reads messages from descriptor 3 and writes them to 4.
        command = ["bash", "-c", f'exec "$0" "$@" 3<&{to_read} 4>&{out_write}', str(program), *_FLAGS]
        process = subprocess.Popen(
            [*command, f"--user-data-dir={profile}"],
            pass_fds=(to_read, out_write),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(out_write)
        try:
            yield Page(to_write, out_read)
        finally:
            os.close(to_write)  # which ends it
            os.close(out_read)
            process.wait(30)
