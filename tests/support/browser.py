"""Controls a headless Chromium over two pipes, without a driver or library.

    with Browser() as browser:
        page = browser.open("http://127.0.0.1:9736/", width=390, height=844)
        page.wait("document.body.dataset.state === 'live'")
        assert page.evaluate("document.title") == "Ebbtide"
        page.key("Tab")

Chromium's DevTools protocol has JSON messages that end with a zero byte. `page.errors` has the page's logged errors, exceptions
and violations of its Content-Security-Policy. `page.layout_shift()` is the shift of its content without user input. `page.asked`
has all URLs that the page requested. `page.picture()` returns a picture of the page, and `pixels()` returns the colours of a
picture.
"""

import base64
import json
import os
import select
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import zlib

NAMES = ("chromium", "chromium-browser", "google-chrome")
KEYS = {"Tab": 9, "Enter": 13, "Escape": 27, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
TYPED = {"Enter": {"text": "\r"}}
# This script runs before the page's own scripts.
WATCH = """
window.shifted = 0;
new PerformanceObserver((list) => { for (const e of list.getEntries()) if (!e.hadRecentInput) window.shifted += e.value; })
  .observe({ type: "layout-shift", buffered: true });
window.violations = [];
document.addEventListener("securitypolicyviolation", (e) => window.violations.push(e.violatedDirective + " " + e.blockedURI));
"""


def program():
    """Returns the path of a Chromium."""
    for path in map(shutil.which, NAMES):
        if path:
            return path
    raise RuntimeError(f"there is no Chromium ({', '.join(NAMES)}): ./dev test installs it")


def pixels(png):
    """Returns the rows of a PNG as Chromium writes it (8 bits a channel, not interlaced). A row is a list of (red, green,
    blue)."""
    chunks, at = {b"IDAT": b""}, 8
    while at < len(png):
        length, kind = struct.unpack_from(">I4s", png, at)
        chunks[kind] = chunks.get(kind, b"") + png[at + 8 : at + 8 + length]
        at += 12 + length
    width, height, depth, colours, _, _, interlaced = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert png.startswith(b"\x89PNG") and (depth, interlaced) == (8, 0) and colours in (2, 6), (depth, interlaced, colours)
    step = 3 if colours == 2 else 4
    data, rows, above = zlib.decompress(chunks[b"IDAT"]), [], bytes(step * (width + 1))
    for y in range(height):
        begin = y * (step * width + 1)
        # Each row starts after a black pixel.
        filtered, line = data[begin], bytearray(step) + data[begin + 1 : begin + 1 + step * width]
        for x in range(step, len(line) if filtered else 0):
            left, up, corner = line[x - step], above[x], above[x - step]
            if filtered == 4:
                expected = min((left, up, corner), key=lambda value, sum=left + up - corner: abs(sum - value))
            else:
                expected = (left, up, (left + up) // 2)[filtered - 1]
            line[x] = (line[x] + expected) % 256
        rows.append([tuple(line[x : x + 3]) for x in range(step, len(line), step)])
        above = line
    return rows


class Browser:
    def __init__(self):
        self._profile = tempfile.mkdtemp(prefix="ebbtide-browser-")
        self._number = 0
        self._buffer = b""
        self._sessions = {}
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()

        def pipes():
            # The pipes may have the numbers 3 and 4 themselves, so they are moved away first.
            os.dup2(to_read, 203), os.dup2(to_write, 204)
            os.dup2(203, 3), os.dup2(204, 4)

        # There is no sandbox, since containers and root cannot have one. The tested pages are our own.
        options = ["--headless=new", "--remote-debugging-pipe", f"--user-data-dir={self._profile}", "--no-sandbox", "--disable-gpu",
                   "--disable-dev-shm-usage", "--no-first-run", "--no-proxy-server", "--disable-extensions", "--hide-scrollbars",
                   "--disable-background-networking", "--disable-component-update", "--force-color-profile=srgb", "about:blank"]  # fmt: skip
        self._process = subprocess.Popen(
            [program(), *options], preexec_fn=pipes, pass_fds=(3, 4), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        os.close(to_read), os.close(to_write)

    # --- messages
    def _receive(self, until):
        while b"\0" not in self._buffer:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self._read], [], [], left)[0]:
                return None
            part = os.read(self._read, 1 << 20)
            if not part:
                raise RuntimeError("the browser has ended")
            self._buffer += part
        message, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, session=None, seconds=60, **parameters):
        """Calls a method and returns its result. Events that arrive meanwhile go to their pages."""
        self._number += 1
        number = self._number
        message = {"id": number, "method": method, "params": parameters, **({"sessionId": session} if session else {})}
        os.write(self._write, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + seconds
        while True:
            answer = self._receive(until)
            if answer is None:
                raise TimeoutError(f"the browser has not answered {method} within {seconds} s")
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            page = self._sessions.get(answer.get("sessionId"))
            if page is not None and "method" in answer:
                page._told(answer["method"], answer["params"])

    def open(self, url, width=1280, height=900, dark=True):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session, target)
        self._sessions[session] = page
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.call(f"{domain}.enable")
        page.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        page.call("Page.addScriptToEvaluateOnNewDocument", source=WATCH)
        page.call("Page.navigate", url=url)
        page.wait("document.readyState === 'complete'")
        return page

    def close(self):
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()
        os.close(self._read), os.close(self._write)
        shutil.rmtree(self._profile, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Page:
    def __init__(self, browser, session, target):
        self._browser, self._session, self._target = browser, session, target
        self.errors, self.asked = [], []

    def _told(self, method, told):
        if method == "Runtime.exceptionThrown":
            details = told["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Log.entryAdded" and told["entry"]["level"] == "error":
            self.errors.append(told["entry"]["text"] + " " + told["entry"].get("url", ""))
        elif method == "Network.requestWillBeSent":
            self.asked.append(told["request"]["url"])
        elif method == "Network.webSocketCreated":
            self.asked.append(told["url"])

    def call(self, method, **parameters):
        return self._browser.call(method, self._session, **parameters)

    def evaluate(self, expression):
        """Returns the value of a JavaScript expression, via JSON. A promise is awaited."""
        done = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in done:
            raise RuntimeError(f"{expression}: {done['exceptionDetails']['exception'].get('description')}")
        return done["result"].get("value")

    def wait(self, expression, seconds=30):
        """Waits until the expression is true, and returns its value."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            value = self.evaluate(expression)
            if value:
                return value
            time.sleep(0.05)
        raise AssertionError(f"not within {seconds} s: {expression}; errors: {self.errors}; the page shows: {self.text()[:2000]}")

    def text(self, selector="body"):
        """Returns the visible text, with each non-breaking blank as a plain one."""
        return (self.evaluate(f"document.querySelector({json.dumps(selector)}).innerText") or "").replace("\u00a0", " ")

    def picture(self, scale=1):
        """Returns a PNG of the whole page, scrolled parts included."""
        width, height = self.evaluate("[innerWidth, document.documentElement.scrollHeight]")
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": scale}
        return base64.b64decode(self.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)["data"])

    def key(self, name):
        for kind, typed in (("keyDown", TYPED.get(name, {})), ("keyUp", {})):
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name, windowsVirtualKeyCode=KEYS[name], **typed)

    def click(self, selector):
        x, y = self.evaluate(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView({{block: 'center'}});"
            " const r = e.getBoundingClientRect(); return [r.left + r.width / 2, r.top + r.height / 2]; })()"
        )
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="none" if kind == "mouseMoved" else "left", clickCount=1)

    def layout_shift(self):
        """Returns Chromium's cumulative layout shift since the page was opened, without shifts caused by input."""
        return self.evaluate("window.shifted")

    def refused(self):
        """Returns the violations of the Content-Security-Policy."""
        return self.evaluate("window.violations")

    def close(self):
        self._browser.call("Target.closeTarget", targetId=self._target)
