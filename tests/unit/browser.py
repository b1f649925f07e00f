"""A headless Chromium without another library: the DevTools protocol, over pipes."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from attrs import Factory, define

PATH = next((p for n in ("chromium", "chromium-browser", "google-chrome", "chrome") if (p := shutil.which(n))), None)
OPTIONS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run")
TIMEOUT_S = 60
DOMAINS = ("Page", "Runtime", "Log", "Network")
ON_3_AND_4 = (
    "import fcntl, os, sys; fds = [fcntl.fcntl(int(fd), fcntl.F_DUPFD, 10) for fd in sys.argv[1:3]]; "
    "os.dup2(fds[0], 3); os.dup2(fds[1], 4); os.execvp(sys.argv[3], sys.argv[3:])"
)
"""Where the browser looks for its pipes."""
WRONG = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded", "Page.javascriptDialogOpening")


@define
class Browser:
    """`heard`: every event of the page since it was opened."""

    process: "subprocess.Popen[bytes]"
    to: int
    back: int
    profile: str
    heard: list[dict[str, Any]] = Factory(list)
    session: str = ""
    _number: int = 0
    _rest: bytes = b""

    @classmethod
    def start(cls) -> "Browser":
        """Raises AssertionError where there is none: ask `PATH` before."""
        assert PATH is not None
        (theirs, to), (back, to_us) = os.pipe(), os.pipe()
        profile = tempfile.mkdtemp()
        command = [PATH, *OPTIONS, "--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank"]
        process = subprocess.Popen(
            [sys.executable, "-c", ON_3_AND_4, str(theirs), str(to_us), "timeout", str(2 * TIMEOUT_S), *command],
            pass_fds=(theirs, to_us),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs)
        os.close(to_us)
        browser = cls(process, to, back, profile)
        pages = browser.ask("Target.getTargets")["targetInfos"]
        target = next(page["targetId"] for page in pages if page["type"] == "page")
        browser.session = browser.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in DOMAINS:
            browser.ask(f"{domain}.enable")
        browser.ask("Emulation.setFocusEmulationEnabled", enabled=True)
        return browser

    def close(self) -> None:
        self.session = ""
        self.ask("Browser.close")
        self.process.wait(TIMEOUT_S)
        os.close(self.to)
        os.close(self.back)
        shutil.rmtree(self.profile, ignore_errors=True)

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        question: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        question |= {"sessionId": self.session} if self.session else {}
        os.write(self.to, json.dumps(question).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            more = os.read(self.back, 1 << 16)
            assert more, "the browser ended"
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        if "method" in message:
            self.heard.append(message)
        return message

    def open(self, file: Path, width: int = 1280, height: int = 900, scheme: str = "light") -> None:
        """The page, once it is loaded."""
        self.heard.clear()
        self.ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.ask("Page.navigate", url=file.absolute().as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self.heard):
            self._next()

    def eval(self, expression: str) -> Any:
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    def problems(self) -> list[dict[str, Any]]:
        """Errors, warnings, whatever a page printed, and dialogs."""
        return [event for event in self.heard if event["method"] in WRONG]

    def requested(self) -> list[str]:
        return [e["params"]["request"]["url"] for e in self.heard if e["method"] == "Network.requestWillBeSent"]
