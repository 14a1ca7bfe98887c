"""A real Muster on loopback and its page in a headless Chromium, for the tests of the page and for scripts/draw-page.

Everything lives in one temporary folder: leaving the `with` takes Muster down and the browser with it.
"""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any, Literal, TypeVar

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

ROOT = pathlib.Path(os.environ.get("MUSTER_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
BIN = pathlib.Path(os.environ.get("MUSTER_BIN_DIR", ROOT / "build/release/bin"))
WAIT = 120  # seconds for whatever is waited for, unless told otherwise
T = TypeVar("T")

# Two ranks that learn to read digits: real curves within seconds.
DIGITS = f"""
name: NAME
ranks: 2
train:
  model: {{resnet18: {{width: 8}}}}
  data: {{digits: {{path: {ROOT}/data/digits, image_size: 8}}}}
  batch_size: 64
  epochs: EPOCHS
  optimizer: {{name: adamw, lr: 0.003}}
  schedule: {{name: cosine, warmup_steps: 20}}
  seed: 7
  report_every_steps: 5
checkpoint: {{every_epochs: 1}}
restart: {{backoff: 100ms}}
"""


def wait_for(condition: Callable[[], T | None | Literal[False]], what: str, seconds: float = WAIT) -> T:
    """The first value of `condition` that is true; AssertionError when none came in time."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {seconds} s")
        time.sleep(0.2)


class Muster:
    """`muster local up` in a folder of its own, driven through the CLI."""

    def __init__(self, folder: pathlib.Path, workers: int) -> None:
        self.folder = folder
        home = folder / "home"
        home.mkdir()
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")},
            "HOME": str(home), "XDG_CONFIG_HOME": str(folder / "config"), "XDG_STATE_HOME": str(folder / "state"),
            "XDG_CACHE_HOME": str(folder / "cache"), "MUSTER_LOCAL_DIR": str(folder / "local")}
        self.workers = workers
        self.is_up = False
        self.open()

    def open(self) -> None:
        """Up, or up again with all that was there, on another port."""
        self.is_up = True
        self.cli("local", "up", "--any-port", "--workers", str(self.workers), "--bin-dir", str(BIN))

    def cli(self, *words: str) -> str:
        done = subprocess.run([str(BIN / "muster"), *words], env=self.environment, capture_output=True, text=True,
                              timeout=300, check=False)
        assert done.returncode == 0, f"muster {' '.join(words)}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def json(self, *words: str) -> Any:
        return json.loads(self.cli(*words, "-o", "json"))

    def submit(self, yaml: str, *flags: str) -> int:
        path = self.folder / "job.yaml"
        path.write_text(yaml)
        return int(self.json("submit", "-f", str(path), *flags)["job_id"])

    def submit_as(self, token: str, yaml: str, *flags: str) -> int:
        """By who has that token."""
        path = self.folder / "token-of-another"
        path.write_text(token)
        path.chmod(0o600)
        return self.submit(yaml, "--token-file", str(path), *flags)

    def submit_digits(self, name: str, epochs: int) -> int:
        return self.submit(DIGITS.replace("NAME", name).replace("EPOCHS", str(epochs)))

    def summary(self, job: int) -> dict[str, Any]:
        return self.json("show", str(job))["summary"]

    def pid_of(self, daemon: str) -> int:
        return next(int(d["pid"]) for d in self.json("local", "status")["daemons"] if d["name"] == daemon)

    @property
    def endpoints(self) -> dict[str, Any]:
        return json.loads((self.folder / "local/controller/endpoints.json").read_text())

    @property
    def url(self) -> str:
        return f"http://{self.endpoints['http_address']}/"

    @property
    def token(self) -> str:
        return (self.folder / "local/controller/token").read_text().strip()

    def close(self) -> None:
        if self.is_up:
            self.is_up = False
            self.cli("local", "down")


def end_all_of(folder: pathlib.Path) -> None:
    """Nothing of a test outlives it, whatever went wrong: ends the processes whose arguments name its folder."""
    for entry in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and int(entry.name) != os.getpid() and bytes(folder) in (entry / "cmdline").read_bytes():
                os.kill(int(entry.name), signal.SIGKILL)


@contextlib.contextmanager
def local_muster(workers: int) -> Iterator[Muster]:
    folder = pathlib.Path(tempfile.mkdtemp(prefix="muster-page-"))
    try:
        muster = Muster(folder, workers)
        try:
            yield muster
        finally:
            muster.close()
    finally:
        end_all_of(folder)
        shutil.rmtree(folder, ignore_errors=True)


class Browser:
    """One tab that looks at one Muster."""

    def __init__(self, url: str, theme: str = "light") -> None:
        options = Options()
        options.binary_location = shutil.which("chromium") or ""
        assert options.binary_location, "chromium is missing: scripts/setup --browser"
        for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.url = url
        self.driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        self.size(1280, 900)
        self.theme(theme)

    def close(self) -> None:
        self.driver.quit()

    def size(self, width: int, height: int) -> None:
        """Of what is seen, on a screen of one pixel a pixel. A window cannot be this narrow, a telephone can."""
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                    {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})

    def theme(self, name: str) -> None:
        """What the system prefers."""
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia",
                                    {"features": [{"name": "prefers-color-scheme", "value": name}]})

    def go(self, place: str) -> None:
        self.driver.get(self.url + place)

    def js(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def text(self, selector: str) -> str:
        return self.js("const e = document.querySelector(arguments[0]); return e ? e.innerText : ''", selector)

    def count(self, selector: str) -> int:
        return self.js("return document.querySelectorAll(arguments[0]).length", selector)

    def click(self, selector: str) -> None:
        wait_for(lambda: self.count(selector), f"{selector} to click on", 20)
        self.js("document.querySelector(arguments[0]).click()", selector)

    def keys(self, *keys: str) -> None:
        """Pressed where the focus is."""
        webdriver.ActionChains(self.driver).send_keys(*keys).perform()

    def wait_for(self, script: str, what: str, seconds: float = WAIT) -> Any:
        return wait_for(lambda: self.js(f"return {script}"), f"{what}; the page shows:\n{self.text('body')[:2000]}",
                        seconds)

    def complaints(self) -> list[str]:
        """Of the browser's console since the last time: errors of scripts, what the policy forbids."""
        return [line["message"] for line in self.driver.get_log("browser") if line["level"] == "SEVERE"]

    def picture(self, path: pathlib.Path) -> None:
        self.driver.save_screenshot(str(path))
