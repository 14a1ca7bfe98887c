"""A real Muster on loopback with Debian's Prometheus and node_exporter beside it, by the configuration of deploy/.

Everything lives in one temporary folder and is a child of the test: close() ends exactly the processes that were started
here. What deploy/ counts in minutes goes by in seconds: SECONDS_A_MINUTE.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

ROOT = pathlib.Path(os.environ.get("MUSTER_SOURCE_DIR", pathlib.Path(__file__).resolve().parents[2]))
BIN = pathlib.Path(os.environ.get("MUSTER_BIN_DIR", ROOT / "build/release/bin"))
sys.path.insert(0, str(ROOT / "deploy/grafana"))

from board_queries import Prometheus  # noqa: E402

SECONDS_A_MINUTE = 1
WAIT = 90  # seconds for whatever is waited for, unless told otherwise
_UNITS = {"m": SECONDS_A_MINUTE, "h": 60 * SECONDS_A_MINUTE, "d": 24 * 60 * SECONDS_A_MINUTE}
T = TypeVar("T")


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


def quicker_rules(text: str) -> str:
    """Rules of deploy/prometheus/rules whose minutes are seconds; all else is as it stands there."""
    text = re.sub(r"(?<=for: )(\d+)([mhd])\b|(?<=\[)(\d+)([mhd])(?=\])|(?<=offset )(\d+)([mhd])\b",
                  lambda m: f"{int(m[1] or m[3] or m[5]) * _UNITS[m[2] or m[4] or m[6]]}s", text)
    text = text.replace("interval: 15s", "interval: 1s")
    text = text.replace("seconds > 900", f"seconds > {15 * SECONDS_A_MINUTE}")
    return text.replace("4 * 3600", f"4 * {60 * SECONDS_A_MINUTE}")


class MonitoredMuster:
    def __init__(self, workers: int, slots: int) -> None:
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="muster-monitored-"))
        self.root = self.folder / "checkpoints"  # of jobs that name none
        self.root.mkdir()
        self.backups = self.folder / "backups"
        self.backups.mkdir()
        self.slots = slots
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.endpoints: dict[str, str] = {}
        try:
            self.start_musterd()
            for number in range(1, workers + 1):
                self.start_worker(f"worker-{number}")
            self._start_node_exporter()
            self._start_prometheus()
        except BaseException:
            self.close()
            raise

    # ---- processes ----

    def start(self, name: str, argv: Sequence[object], **options: Any) -> None:
        """A process with a group of its own, so that what it started is ended with it."""
        with open(self.folder / f"{name}.log", "ab") as log:
            self.processes[name] = subprocess.Popen([str(word) for word in argv], stdout=log, stderr=log,
                                                    stdin=subprocess.DEVNULL, start_new_session=True, **options)

    def signal(self, name: str, number: int) -> None:
        os.killpg(self.processes[name].pid, number)

    def kill(self, name: str) -> None:
        """kill -9, as a machine that loses its power."""
        self.signal(name, signal.SIGKILL)
        self.processes[name].wait()
        del self.processes[name]

    def close(self) -> None:
        for process in reversed(self.processes.values()):
            if process.poll() is None:
                process.terminate()
        for process in reversed(self.processes.values()):
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                pass
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
        self.processes.clear()
        shutil.rmtree(self.folder, ignore_errors=True)

    def log(self, name: str) -> str:
        path = self.folder / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def _listens_on(self, name: str) -> str:
        """HOST:PORT that the log of Prometheus or of an exporter tells."""
        def told() -> str | None:
            if self.processes[name].poll() is not None:
                raise AssertionError(f"{name} ended:\n{self.log(name)}")
            found = re.search(r'msg="Listening on" address=(\S+)\n', self.log(name))
            return found[1] if found else None
        return wait_for(told, f"the port of {name}")

    def start_musterd(self) -> None:
        """At first on any ports, later on those that it had."""
        endpoints = self.folder / "musterd/endpoints.json"
        flags = {"--listen": "127.0.0.1:0", "--worker-listen": "127.0.0.1:0", "--http-listen": "127.0.0.1:0"}
        if self.endpoints:
            flags = {"--listen": self.endpoints["grpc_address"], "--worker-listen": self.endpoints["worker_address"],
                     "--http-listen": self.endpoints["http_address"]}
            endpoints.unlink(missing_ok=True)
        (self.folder / "autoscale.yaml").write_text("every: 500ms\npools:\n  cloud: {max: 1, worker: {slots: 1, commands: true}, "
                                                    "patience: 0s, scale-command: [/bin/false]}\n")
        data_dir, tls = self.folder / "musterd", self.folder / "musterd/tls"
        self._run(BIN / "musterd", "init", "--data-dir", data_dir)
        flags |= {"--tls-ca": tls / "ca.pem", "--tls-cert": tls / "server.pem", "--tls-key": tls / "server.key"}
        self.start("musterd", [BIN / "musterd", "--autoscale", self.folder / "autoscale.yaml", "--data-dir", data_dir, "--checkpoint-root", self.root,
                               "--heartbeat-interval", "500ms", "--suspect-after", "2s", "--lost-after", "4s",
                               "--startup-grace", "5s", "--series-grace", "3s", "--backup-dir", self.backups, "--backup-every", "5s",
                               *(word for flag in flags.items() for word in flag)])

        def told() -> dict[str, str] | None:
            if self.processes["musterd"].poll() is not None:
                raise AssertionError(f"musterd ended:\n{self.log('musterd')}")
            return json.loads(endpoints.read_text()) if endpoints.exists() else None
        self.endpoints = wait_for(told, "musterd")
        self.http_address = self.endpoints["http_address"]
        self.environment = dict(os.environ, MUSTER_ADDR=self.endpoints["grpc_address"],
                                MUSTER_TOKEN_FILE=str(data_dir / "token"), MUSTER_CA_FILE=str(tls / "ca.pem"))

    def certify(self, name: str, days: int = 365) -> pathlib.Path:
        """The folder of the worker's certificate, which is made anew."""
        folder = self.folder / f"{name}-tls"
        self._run(BIN / "musterd", "certify", name, "--data-dir", self.folder / "musterd", "--out", folder, "--days", days)
        return folder

    def restore(self, backup: pathlib.Path) -> None:
        """musterd, which does not run, gets a data folder of this backup in place of its own."""
        (self.folder / "musterd").rename(self.folder / "musterd-before")
        self._run(BIN / "musterd", "restore", backup, "--data-dir", self.folder / "musterd")

    def start_worker(self, name: str, *flags: str) -> None:
        tls = self.certify(name)
        self.start(name, [BIN / "muster-worker", "--controller", self.endpoints["worker_address"], "--tls-ca", tls / "ca.pem",
                          "--tls-cert", tls / "worker.pem", "--tls-key", tls / "worker.key", "--name", name, "--data-dir",
                          self.folder / name, "--slots", self.slots, "--http-listen", "127.0.0.1:0", "--spool-max-bytes", "16MiB",
                          "--allow-commands", *flags])

    # ---- Muster ----

    def muster(self, *argv: object) -> str:
        """`muster ARGS`, which must exit with 0; what it prints."""
        return self._run(BIN / "muster", *argv, env=self.environment)

    def _run(self, *argv: object, env: dict[str, str] | None = None) -> str:
        done = subprocess.run([*map(str, argv)], env=env, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode != 0:
            raise AssertionError(f"{' '.join(map(str, argv))}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def submit(self, job: dict[str, Any], *more: str) -> str:
        path = self.folder / f"{job['name']}.json"
        path.write_text(json.dumps(job))
        return self.muster("submit", "-f", path, *more, "-q").split()[0]

    def show(self, job: str) -> dict[str, Any]:
        shown: dict[str, Any] = json.loads(self.muster("show", job, "-o", "json"))
        return shown

    def state(self, job: str) -> str:
        return str(self.show(job)["summary"]["state"])

    def wait_for_step(self, job: str, step: int, seconds: float = WAIT) -> None:
        wait_for(lambda: int(self.show(job)["summary"].get("step", 0)) >= step, f"step {step} of job {job}", seconds)

    def wait_for_state(self, job: str, *states: str, seconds: float = WAIT) -> str:
        return wait_for(lambda: (state := self.state(job)) in states and state, f"job {job} to be {states}", seconds)

    def rank_pids(self, job: str) -> list[int]:
        """Of the newest attempt, by rank."""
        return [int(rank["pid"]) for rank in self.show(job)["attempts"][-1]["ranks"]]

    # ---- what watches it ----

    def _start_node_exporter(self) -> None:
        """In namespaces of its own (it reads the mounts of process 1), with a small disk that a test may fill."""
        script = ("mkdir -p \"$1\" && mount -t tmpfs -o size=64m muster-test-disk \"$1\" && "
                  "exec /usr/bin/prometheus-node-exporter --web.listen-address=127.0.0.1:0 "
                  "--collector.disable-defaults --collector.filesystem")
        self.disk = self.folder / "disk"
        self.start("node-exporter", ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
                                     "sh", "-c", script, "sh", self.disk])
        try:
            self.node_exporter = self._listens_on("node-exporter")
            self.has_disk = True
        except AssertionError:
            # Namespaces and mounts need root, and a container may keep them even from root.
            if not re.search("not permitted|permission denied", self.log("node-exporter"), re.IGNORECASE):
                raise
            self.has_disk = False
            self.start("node-exporter", ["/usr/bin/prometheus-node-exporter", "--web.listen-address=127.0.0.1:0",
                                         "--collector.disable-defaults", "--collector.filesystem"])
            self.node_exporter = self._listens_on("node-exporter")

    def disk_file(self, name: str) -> pathlib.Path:
        """A file on the small disk, as this process reaches it."""
        pid = self.processes["node-exporter"].pid
        return pathlib.Path(f"/proc/{pid}/root{self.disk}") / name

    def _start_prometheus(self) -> None:
        deploy = ROOT / "deploy/prometheus"
        config = (deploy / "prometheus.yml").read_text()
        for old, new in (("127.0.0.1:7072", self.http_address), ("127.0.0.1:9100", self.node_exporter),
                         ("$1:9100", self.node_exporter), (": 5s", ": 1s"), (": 4s", ": 1s")):
            if old not in config:
                raise AssertionError(f"deploy/prometheus/prometheus.yml has no {old!r}")
            config = config.replace(old, new)
        (self.folder / "rules").mkdir()
        for rules in deploy.glob("rules/*.yml"):
            (self.folder / "rules" / rules.name).write_text(quicker_rules(rules.read_text()))
        (self.folder / "prometheus.yml").write_text(config)
        self.start("prometheus", ["/usr/bin/prometheus", f"--config.file={self.folder}/prometheus.yml",
                                  f"--storage.tsdb.path={self.folder}/tsdb", "--web.listen-address=127.0.0.1:0"])
        self.prometheus = Prometheus(f"http://{self._listens_on('prometheus')}")
        self.started = time.time()
        wait_for(lambda: self.value('count(up{job="muster-workers"} == 1) >= 2') is not None, "the workers' metrics")

    def value(self, expr: str) -> float | None:
        """Of the first series that the expression gives now."""
        try:
            found = self.prometheus.instant(expr)
        except OSError:
            return None
        return found[0].points[0][1] if found else None

    def wait_for_value(self, expr: str, seconds: float = WAIT) -> float:
        wait_for(lambda: self.value(expr) is not None, expr, seconds)
        value = self.value(expr)
        return float("nan") if value is None else value

    def firing(self) -> set[str]:
        return {one.labels["alertname"] for one in self.prometheus.instant('ALERTS{alertstate="firing"}')}


def digits_job(name: str = "digits", **more: Any) -> dict[str, Any]:
    """The small ResNet of the integration tests on the real digits, two ranks, a checkpoint every two seconds."""
    job: dict[str, Any] = {
        "name": name, "ranks": 2,
        "train": {"model": {"resnet18": {"width": 8}},
                  "data": {"digits": {"path": str(ROOT / "data/digits"), "image_size": 8}},
                  "batch_size": 64, "steps": 100000, "optimizer": {"name": "adamw", "lr": 0.003}, "seed": 7,
                  "report_every_steps": 5, "validate_every_steps": 20, "validate_every_epochs": 0},
        "checkpoint": {"every": "2s", "every_epochs": 0}, "restart": {"backoff": "100ms"}}
    for key, value in more.items():
        job[key] = {**job.get(key, {}), **value} if isinstance(value, dict) else value
    return job
