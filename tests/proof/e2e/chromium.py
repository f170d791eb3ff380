"""A real browser, headless, that says what it drew, what it logged and what it asked for."""

import base64
import json
import os
import re
import select
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    "--disable-domain-reliability",
    "--no-first-run",
    "--no-pings",
    "--enable-logging=stderr",
    "--virtual-time-budget=20000",
)
_PATIENCE_S = 120.0
_KEYS = {"Tab": 9, "End": 35, "Home": 36, "ArrowLeft": 37}
PICTURES = Path(__file__).parents[3] / "build" / "pictures"
"""For people to look at; git ignores it."""
_MAX_HEIGHT = 4_000
_NARROW = 600
"""Below this width the browser behaves as a telephone's: the page's viewport counts."""
_OWN = re.compile(r"https?://(?:[\w-]+\.)*(?:google|googleapis|gvt1|gstatic)\.com[/:]")
"""What the browser asks for by itself, whatever it shows: its maker's own servers."""


@dataclass(frozen=True, slots=True)
class Visit:
    """What came of showing a file: its document as text, what it said on the console, and requests of the network."""

    document: str
    console: Sequence[str]
    requests: Sequence[str]


def chromium() -> str:
    """The browser's command. Skips the test where there is none."""
    named = os.environ.get("KLAMM_TEST_CHROMIUM")
    found = named or next((path for name in _NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no Chromium: apt-get install --no-install-recommends chromium, or name one by KLAMM_TEST_CHROMIUM")
    return found


def visit(page: Path, folder: Path, *more: str, fragment: str = "") -> Visit:
    """Show the file, wait until it has come to rest, and tell. `folder` is for the browser's own files."""
    net_log = folder / "net-log.json"
    flags = [*_FLAGS, f"--user-data-dir={folder / 'profile'}", f"--log-net-log={net_log}", *more]
    ended = subprocess.run(
        [chromium(), *flags, "--dump-dom", f"{page.as_uri()}{fragment}"],
        capture_output=True,
        encoding="utf-8",
        timeout=_PATIENCE_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    console = [line for line in ended.stderr.splitlines() if ":CONSOLE" in line]
    return Visit(ended.stdout, console, _requests(json.loads(net_log.read_text(encoding="utf-8"))))


class NavigatedError(Exception):
    """The page gave way to the next one before it answered."""


class Page:
    """A page in a browser of its own that can be asked and worked, at a width and in a theme."""

    def __init__(self, page: Path | str, folder: Path, *, width: int, is_dark: bool = False) -> None:
        """`page` is a file, or the address of a page that is served."""
        self.width = width
        self._replies, replying = os.pipe()
        asked, self._ours = os.pipe()
        self._unread = b""
        # Chromium reads commands from descriptor 3, and writes replies to 4.
        flags = [*_FLAGS, f"--user-data-dir={folder / f'profile-{width}-{is_dark}'}", "--remote-debugging-pipe"]
        words = [chromium(), *(each for each in flags if "virtual-time" not in each)]
        self._browser = subprocess.Popen(
            ["/bin/bash", "-c", f'exec "$@" 3<&{asked} 4>&{replying}', "bash", *words],
            pass_fds=(asked, replying),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(asked)
        os.close(replying)
        self._number = 0
        self._session: str | None = None
        self.said: list[str] = []
        try:
            target = self.call("Target.createTarget", url="about:blank")["targetId"]
            self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Log"):
                self.call(f"{domain}.enable")
            self.call(
                "Emulation.setDeviceMetricsOverride",
                width=width,
                height=900,
                deviceScaleFactor=1,
                mobile=width < _NARROW,
            )
            theme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
            self.call("Emulation.setEmulatedMedia", features=[theme])
            self.go(page if isinstance(page, str) else page.as_uri())
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        os.close(self._ours)
        self._browser.kill()
        self._browser.wait(_PATIENCE_S)
        os.close(self._replies)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
        """A command of the DevTools protocol, and its reply."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._ours, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + _PATIENCE_S
        while time.monotonic() < deadline:
            reply = json.loads(self._read(deadline))
            if reply.get("id") == self._number:
                if "navigated" in reply.get("error", {}).get("message", ""):
                    raise NavigatedError(reply["error"]["message"])
                assert "error" not in reply, reply["error"]
                result: dict[str, Any] = reply["result"]
                return result
            if reply.get("method") in {"Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"}:
                self.said.append(json.dumps(reply["params"]))
        raise TimeoutError(method)

    def go(self, address: str) -> None:
        """Show the page at this address, and wait until it has been read."""
        self.call("Page.navigate", url=address)
        self.until("document.readyState === 'complete'")

    def ask(self, expression: str) -> Any:  # noqa: ANN401 - JSON
        """What a JavaScript expression gives, as JSON has it; a promise is waited for."""
        asked = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True, userGesture=True
        )
        assert "exceptionDetails" not in asked, asked
        return asked["result"].get("value")

    def keep_picture(self, name: str) -> None:
        """The page as it is drawn, from top to bottom, among the pictures that a run of the tests leaves."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], _MAX_HEIGHT), "scale": 1}
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        PICTURES.mkdir(parents=True, exist_ok=True)
        (PICTURES / f"{name}.png").write_bytes(base64.b64decode(shot["data"]))

    def until(self, expression: str) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while not self._holds(expression):
            assert time.monotonic() < deadline, expression
            time.sleep(0.05)

    def _holds(self, expression: str) -> bool:
        try:
            return bool(self.ask(expression))
        except NavigatedError:
            return False

    def type(self, selector: str, text: str) -> None:
        """Put the text into a field as a hand would: into the focus, all at once."""
        self.ask(f"(() => {{ const box = document.querySelector('{selector}'); box.focus(); box.select(); }})()")
        self.call("Input.insertText", text=text)

    def press_enter(self) -> None:
        self._press({"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"})

    def press(self, key: str) -> None:
        """A key that writes nothing: `Tab`, `ArrowLeft`, `Home`, `End`."""
        self._press({"key": key, "code": key, "windowsVirtualKeyCode": _KEYS[key]})

    def _press(self, key: Mapping[str, Any]) -> None:
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, **key)

    def _read(self, deadline: float) -> bytes:
        while b"\0" not in self._unread:
            ready, _, _ = select.select([self._replies], [], [], max(0.0, deadline - time.monotonic()))
            part = os.read(self._replies, 1 << 20) if ready else b""
            assert part, "the browser says nothing"
            self._unread += part
        message, _, self._unread = self._unread.partition(b"\0")
        return message


def _requests(log: dict[str, Any]) -> list[str]:
    """Every URL that went to the network's stack, be it from a cache, but what the browser asks for by itself."""
    urls = {
        str(event.get("params", {}).get("url", "")) for event in log["events"] if isinstance(event.get("params"), dict)
    }
    return sorted(url for url in urls if url and not _OWN.match(url))
