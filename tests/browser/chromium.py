"""Chromium without a window, driven by its DevTools protocol over a pair of pipes, so that no port is opened.

https://chromedevtools.github.io/devtools-protocol/
"""

import base64
import json
import os
import shlex
import subprocess
import time
from pathlib import Path
from typing import Any

SECONDS = 60
# As root, and in a container, its sandbox does not start; what it opens here is made by these tests.
COMMAND = "chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --remote-debugging-pipe"


class Chromium:
    """A browser, and the events of the page that it opened last."""

    def __init__(self, profile: Path) -> None:
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        # It reads what is asked from descriptor 3 and answers on 4.
        command = f"exec {COMMAND} {shlex.quote(f'--user-data-dir={profile}')} 3<&{theirs_in} 4>&{theirs_out}"
        self._log = (profile.parent / "chromium.log").open("wb")
        self._process = subprocess.Popen(
            ["bash", "-c", command], pass_fds=(theirs_in, theirs_out), stdout=self._log, stderr=self._log
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._rest = b""
        self._number = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []

    def close(self) -> None:
        self.call("Browser.close", session=None)
        self._process.wait(SECONDS)
        os.close(self._out)
        os.close(self._in)
        self._log.close()

    def call(self, method: str, *, session: str | None = "", **parameters: object) -> dict[str, Any]:
        """Ask one thing and return the answer."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if session := self._session if session == "" else session:
            message["sessionId"] = session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            part = os.read(self._in, 1 << 16)
            assert part, f"Chromium ended: {Path(self._log.name).read_text('utf-8', 'replace')[-2000:]}"
            self._rest += part
        message, _, self._rest = self._rest.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        if "method" in found:
            self.events.append(found)
        return found

    def open(self, file: Path, *, width: int, height: int = 800, dark: bool = False) -> None:
        """Open a file in a window of this width, and wait until it is there."""
        target = self.call("Target.createTarget", session=None, url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", session=None, targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "DOM", "Accessibility"):
            self.call(f"{domain}.enable")
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        size = {"width": width, "height": height, "deviceScaleFactor": 2 if width < 500 else 1}
        self.call("Emulation.setDeviceMetricsOverride", mobile=width < 500, **size)
        self.events.clear()
        self.call("Page.navigate", url=file.as_uri())
        deadline = time.monotonic() + SECONDS
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            assert time.monotonic() < deadline
            self._read()
        # A round trip through the page lets what it logs as it loads arrive.
        self.evaluate("new Promise(done => requestAnimationFrame(() => setTimeout(done, 50)))")

    def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression in the page."""
        options = {"returnByValue": True, "awaitPromise": True}
        answer = self.call("Runtime.evaluate", expression=expression, **options)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def images(self) -> list[str]:
        """Return what a screen reader says of every image."""
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        named = [node for node in nodes if node.get("role", {}).get("value") in {"image", "img", "SvgRoot"}]
        return [node.get("name", {}).get("value", "") for node in named]

    def complaints(self) -> list[dict[str, Any]]:
        """Return errors, messages on the console, dialogues, and requests for anything but the page."""
        methods = {
            "Runtime.consoleAPICalled",
            "Runtime.exceptionThrown",
            "Log.entryAdded",
            "Page.javascriptDialogOpening",
        }
        requests = [event for event in self.events if event["method"] == "Network.requestWillBeSent"]
        return [event for event in self.events if event["method"] in methods] + requests[1:]

    def screenshot(self, file: Path, *, grey: bool = False, element: str = "", last: str = "", margin: int = 0) -> None:
        """Write the whole page as a PNG, or the first element of a selector, twice as large.

        Parameters
        ----------
        last
            The selector of the element with which the picture ends.
        margin
            Pixels around.
        """
        self.call("Emulation.setEmulatedVisionDeficiency", type="achromatopsia" if grey else "none")
        clip = self._place(element, last or element, margin) if element else {}
        picture = self.call("Page.captureScreenshot", captureBeyondViewport=True, **clip)
        file.write_bytes(base64.b64decode(picture["data"]))

    def _place(self, first: str, last: str, margin: int) -> dict[str, Any]:
        """Return the part of the page from the top of one element to the end of another."""
        one, other = (
            self.evaluate(f"document.querySelector({json.dumps(each)}).getBoundingClientRect().toJSON()")
            for each in (first, last)
        )
        x, y = (max(one[name] - margin, 0) for name in ("left", "top"))
        size = {"width": one["right"] + margin - x, "height": other["bottom"] + margin - y}
        return {"clip": {"x": x, "y": y, **size, "scale": 2}}
