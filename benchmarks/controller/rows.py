"""The rows of benchmarks/controller/run: what each measures, block by block.

A row is a generator: it starts what it needs, yields one dict of figures a block, and stops what it started. Within a
block all contenders have their turn one after the other, those whose turn it is not being stopped.
"""
import contextlib
import http.client
import json
import os
import pathlib
import shutil
import statistics
import subprocess

from daemons import Etcd, Muster, Obeying, Slurm, missing

HERE = pathlib.Path(__file__).resolve().parent

QUEUED_JOB = """\
name: bench
placement: {pool: %s}
train: {model: {mlp: {hidden: [8]}}, data: {synthetic: {samples: 64, shape: [8]}}, batch_size: 64, steps: 10}
"""
TRUE_JOB = "name: bench\ncommand: {argv: [/bin/true], workdir: /tmp}\n"
STAMP_JOB = "name: bench\ncommand: {argv: ['@STAMP@', '@SOCKET@'], workdir: /tmp}\n"

SLURM = "slurm-wlm munge libslurm-dev (Debian)"


class Bench:
    """What the rows share: programs, folders, how long a turn is."""

    def __init__(self, bin_dir, python, folder, quick, blocks, note):
        self.bin, self.python, self.folder = bin_dir, python, pathlib.Path(folder)
        self.quick, self.blocks, self.note = quick, blocks, note
        self.turn = 0.7 if quick else 1.5  # seconds
        self.count = 0
        for name, text in (("queued", QUEUED_JOB % "default"), ("elsewhere", QUEUED_JOB % "elsewhere"),
                           ("true", TRUE_JOB), ("stamp", STAMP_JOB)):
            (self.folder / f"{name}.yaml").write_text(text)

    def fresh(self, name):
        self.count += 1
        return self.folder / f"{self.count}-{name}"

    def spec(self, name):
        return self.folder / f"{name}.yaml"

    def run(self, program, *args, env=None, timeout=120):
        done = subprocess.run([str(self.bin / program), *map(str, args)], env=env, text=True, capture_output=True,
                              timeout=timeout, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{program} {' '.join(map(str, args))}: {done.stderr.strip()[-500:]}")
        return [json.loads(line) for line in done.stdout.splitlines()]

    def client(self, load, *args, **options):
        return self.run("muster-bench-client", load, *args, **options)[0]

    def muster(self, **options):
        return contextlib.closing(Muster(self.fresh("muster"), self.bin, **options))

    @contextlib.contextmanager
    def rival(self, name, make, lacks=""):
        """The rival, stopped until its turn; nothing when it cannot be had here (then it is noted)."""
        if lacks:
            self.note(f"{name} is missing: install {lacks} (benchmarks/controller/setup)")
            yield None
            return
        try:
            rival = make()
        except (RuntimeError, OSError) as error:
            self.note(f"{name} did not start: {error}")
            yield None
            return
        with contextlib.closing(rival):
            rival.pause()
            yield rival

    def slurm(self, slots):
        lacks = missing("slurmctld", SLURM) or missing("munged", SLURM)
        if not lacks and not (self.bin / "muster-bench-slurm").exists():
            lacks = "libslurm-dev (Debian), then build again"
        return self.rival("Slurm", lambda: Slurm(self.fresh("slurm"), slots), lacks)

    def python_rival(self, name, script, package, *args):
        def make():
            folder = self.fresh(name)
            folder.mkdir(parents=True)
            return Obeying(folder, self.python, HERE / script, *map(str, args))
        there = self.python.exists() and subprocess.run(
            [self.python, "-c", f"import {package}"], capture_output=True, check=False).returncode == 0
        return self.rival(name, make, "" if there else f"{package} (PyPI)")


@contextlib.contextmanager
def its_turn(rival):
    rival.resume()
    try:
        yield rival
    finally:
        rival.pause()


def submit_on_streams(bench, muster, clients, in_flight):
    """Submits a second over SubmitJobs streams, each with so many unanswered; every job has a name of its own."""
    done = bench.client("submit-stream", "--data-dir", muster.data_dir, "--spec", bench.spec("queued"), "--own-names",
                        "--clients", clients, "--in-flight", in_flight, "--seconds", bench.turn)
    if done["failed"]:
        raise RuntimeError(f"{done['failed']} submits failed: {done['last_error']}")
    return done["per_s"]


def c1(bench):
    with bench.slurm(32) as slurm, bench.python_rival("HyperQueue", "hq_rival.py", "hyperqueue", 2) as hq:
        for _ in range(bench.blocks):
            figures = {}
            with bench.muster() as muster:
                for clients in (1, 8, 64):
                    figures[f"muster api {clients}"] = bench.client(
                        "submit", "--data-dir", muster.data_dir, "--spec", bench.spec("queued"), "--clients", clients,
                        "--seconds", bench.turn)["per_s"]
                for clients, in_flight in ((1, 768), (8, 64), (64, 16)):
                    figures[f"muster stream {clients}"] = submit_on_streams(bench, muster, clients, in_flight)
                for parallel in (1, 2):
                    figures[f"muster cli {parallel}"] = bench.client(
                        "spawn", "--parallel", parallel, "--seconds", bench.turn, "--", bench.bin / "muster", "submit",
                        "-f", bench.spec("queued"), env=muster.environment)["per_s"]
            if slurm:
                with its_turn(slurm):
                    for clients in (1, 8, 64):
                        figures[f"slurm api {clients}"] = bench.run(
                            "muster-bench-slurm", "--clients", clients, "--seconds", bench.turn,
                            env=slurm.environment)[0]["per_s"]
                    for parallel in (1, 2):
                        figures[f"slurm cli {parallel}"] = bench.client(
                            "spawn", "--parallel", parallel, "--seconds", bench.turn, "--", "sbatch", "-Q", "-H", "-o",
                            "/dev/null", slurm.script, env=slurm.environment)["per_s"]
                    slurm.drop_queue()
            if hq:
                with its_turn(hq):
                    figures["hyperqueue api 1"] = hq.ask(f"submit {bench.turn}")["per_s"]
            yield figures


def c2(bench):
    scale = 1 if bench.quick else 2
    with bench.slurm(32) as slurm, bench.python_rival("HyperQueue", "hq_rival.py", "hyperqueue", 2) as hq, \
            bench.python_rival("Ray", "ray_rival.py", "ray", 2) as ray:
        for _ in range(bench.blocks):
            figures = {}
            with bench.muster(workers=1, slots=32, worker_flags=["--allow-commands"]) as muster:
                # The warm-up lasts until the database's log has its size: a file that grows is another thing to fsync.
                done = bench.client("end-to-end", "--data-dir", muster.data_dir, "--spec", bench.spec("true"),
                                    "--warm-up", 1000, "--jobs", 300 * scale, "--seconds", 60)
                if done["succeeded"] != 300 * scale:
                    raise RuntimeError(f"only {done['succeeded']} of {300 * scale} jobs succeeded")
                figures["muster"] = done["per_s"]
            if slurm:
                with its_turn(slurm):
                    before, jobs = slurm.finished(), 30 * scale
                    seconds = timed(lambda: (
                        bench.run("muster-bench-slurm", "--clients", 8, "--most", jobs, "--run", "--seconds", 60,
                                  env=slurm.environment),
                        poll(lambda: slurm.finished() >= before + jobs, 60)))
                    figures["slurm"] = jobs / seconds
            if hq:
                with its_turn(hq):
                    figures["hyperqueue jobs"] = hq.ask(f"jobs {150 * scale}")["per_s"]
                    figures["hyperqueue tasks of one job"] = hq.ask(f"tasks {300 * scale}")["per_s"]
            if ray:
                with its_turn(ray):
                    figures["ray no-op"] = ray.ask(f"noop {400 * scale}")["per_s"]
                    figures["ray spawning true"] = ray.ask(f"spawn {100 * scale}")["per_s"]
            yield figures


def c3(bench):
    runs = 20 if bench.quick else 40
    with bench.slurm(2) as slurm:
        for _ in range(bench.blocks):
            figures = {}
            with bench.muster() as muster:
                done = bench.client("start", "--data-dir", muster.data_dir, "--agents", 1, "--runs", runs)
                figures["muster assignment at agent"] = done["assignment_at_agent"]["p50_ms"]
            with bench.muster(workers=1, worker_flags=["--allow-commands"]) as muster:
                done = bench.client("start-process", "--data-dir", muster.data_dir, "--spec", bench.spec("stamp"),
                                    "--stamp", bench.bin / "muster-bench-stamp", "--runs", runs)
                figures["muster"] = done["process"]["p50_ms"]
                done = bench.client("spawn", "--seconds", bench.turn, "--", bench.bin / "muster", "version",
                                    env=muster.environment)
                figures["muster cli exec"] = 1e3 / done["per_s"]
            if slurm:
                with its_turn(slurm):
                    done = bench.client("start-command", "--stamp", bench.bin / "muster-bench-stamp", "--runs",
                                        runs // 2, "--", "srun", "-Q", env=slurm.environment)
                    figures["slurm srun"] = done["process"]["p50_ms"]
            yield figures


def c4(bench):
    seconds = 3 if bench.quick else 8
    for block in range(bench.blocks):
        what = ["fill", "churn"] + (["table", "million"] if block == 0 else [])
        lines = bench.run("muster-bench-placement", *what, "--seconds", seconds, "--cell-seconds", seconds, timeout=400)
        figures = {}
        for line in lines:
            if line["row"] in ("C4-fill", "C4-churn"):
                name = line["row"][3:]
                figures[f"{name}, decided"] = line["placements_per_s"]
                figures[f"{name}, decided and applied"] = line["placements_per_s_applied"]
            elif line["row"] == "C4-million":
                figures["a million decisions, s"] = line["decide_s"] if line["complete"] else None
                bench.note(f"a million decisions: {line['placed']} in {line['decide_s']:.1f} s, "
                           f"{line['calls']} calls" + ("" if line["complete"] else " (given up)"))
            else:
                bench.note(f"C4 {line['nodes']:>6} nodes {line['queued']:>7} queued: " + (
                    line.get("left_out") or
                    f"fill {line['fill_ms']:9.2f} ms, churn {line['churn_ms']:9.2f} ms a call"))
        yield figures


def c5(bench):
    lacks = missing("etcd", "etcd-server (Debian)")
    with bench.rival("etcd", lambda: Etcd(bench.fresh("etcd")), lacks) as etcd:
        for _ in range(bench.blocks):
            figures = {}
            with bench.muster() as muster:
                for clients in (1, 16):
                    figures[f"muster submit {clients}"] = bench.client(
                        "submit", "--data-dir", muster.data_dir, "--spec", bench.spec("queued"), "--clients", clients,
                        "--seconds", bench.turn)["per_s"]
                figures["muster stream 1 x 1 in flight"] = submit_on_streams(bench, muster, 1, 1)
                figures["muster stream 16 x 16 in flight"] = submit_on_streams(bench, muster, 16, 16)
            with bench.muster() as muster:
                done = bench.client("reports", "--data-dir", muster.data_dir, "--agents", 16, "--jobs",
                                    100 if bench.quick else 300, "--seconds", 60)
                if not done["finished"]:
                    raise RuntimeError("the reports were not all acknowledged")
                figures["muster reports of 16 agents"] = done["per_s"]
            if etcd:
                with its_turn(etcd):
                    for clients, in_flight in ((1, 1), (16, 1), (16, 16)):
                        name = f"etcd put {clients}" + (f" x {in_flight} in flight" if in_flight > 1 else "")
                        figures[name] = bench.client(
                            "etcd", "--address", etcd.address, "--clients", clients, "--in-flight", in_flight,
                            "--seconds", bench.turn)["per_s"]
            yield figures


def m1(bench):
    with bench.python_rival("MLflow", "mlflow_rival.py", "mlflow") as mlflow:
        for _ in range(bench.blocks):
            with bench.muster() as muster:
                done = bench.client("points", "--data-dir", muster.data_dir, "--streams", 2, "--seconds", 2 * bench.turn)
            figures = {"muster": done["per_s"], "muster reads meanwhile, p99 ms": done["reads"]["latency"]["p99_ms"],
                       "muster reads meanwhile": done["reads"]["per_s"]}
            if mlflow:
                with its_turn(mlflow):
                    figures["mlflow"] = mlflow.ask(f"points {bench.turn}")["per_s"]
            yield figures


def m2(bench):
    def scrape():
        connection = http.client.HTTPConnection(muster.endpoints["http_address"], timeout=30)
        connection.request("GET", "/metrics")
        return connection.getresponse().read()

    with bench.muster() as muster:
        series = subprocess.Popen([bench.bin / "muster-bench-client", "series", "--data-dir", muster.data_dir, "--agents",
                                   "12", "--slots", "64", "--jobs", "720"], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True)
        try:
            if "ready" not in series.stdout.readline():
                raise RuntimeError("the jobs with series did not start")
            for _ in range(bench.blocks):
                times = [timed(scrape) for _ in range(20 if bench.quick else 50)]
                yield {"scrape, p50 ms": 1000 * statistics.median(times), "series": sum(not line.startswith(b"#") for line in scrape().splitlines())}
        finally:
            series.stdin.close()
            series.wait(30)


def ls(bench):
    for _ in range(bench.blocks):
        with bench.muster() as muster:
            bench.client("submit", "--data-dir", muster.data_dir, "--spec", bench.spec("elsewhere"), "--clients", 64,
                         "--most", 10000, "--seconds", 60, "--warm-up", 0)
            load = subprocess.Popen([bench.bin / "muster-bench-client", "submit", "--data-dir", muster.data_dir,
                                     "--spec", bench.spec("queued"), "--clients", "8", "--seconds",
                                     str(2 * bench.turn)], stdout=subprocess.PIPE, text=True)
            done = bench.client("list", "--data-dir", muster.data_dir, "--seconds", 1.6 * bench.turn)
            submits = json.loads(load.communicate(timeout=60)[0])
        yield {"ls p99, ms": done["latency"]["p99_ms"], "ls p50, ms": done["latency"]["p50_ms"],
               "submits/s meanwhile": submits["per_s"]}


def size(bench):
    with bench.muster() as muster:
        bench.client("submit", "--data-dir", muster.data_dir, "--spec", bench.spec("elsewhere"), "--clients", 64,
                     "--most", 10000, "--seconds", 60, "--warm-up", 0)
        done = bench.client("heartbeats", "--data-dir", muster.data_dir, "--agents", 1000, "--slots", 8, "--seconds", 4)
        yield {"RSS at 10,000 queued jobs and 1,000 workers, MiB": done["musterd_rss_mib"]}


def beats(bench):
    figures = {}
    for agents in (1000, 3000, 10000):
        with bench.muster() as muster:
            done = bench.client("heartbeats", "--data-dir", muster.data_dir, "--agents", agents, "--slots", 8,
                                "--seconds", 4 if bench.quick else 8)
        figures[f"{agents} workers: p99, ms"] = done["latency"]["p99_ms"]
        figures[f"{agents} workers: answered/s"] = done["answered_per_s"]
        bench.note(f"{agents} workers, a heartbeat each 3 s: {done['welcomed']} welcomed in "
                   f"{done['connect_seconds']:.1f} s, {done['answered_per_s']:.0f} of {done['wanted_per_s']:.0f} answered "
                   f"a second, p99 {done['latency']['p99_ms']:.1f} ms, {done['streams_lost']} streams lost, musterd "
                   f"{done['musterd_rss_mib']:.0f} MiB")
    # As fast as it goes: where it saturates.
    with bench.muster() as muster:
        done = bench.client("heartbeats", "--data-dir", muster.data_dir, "--agents", 1000, "--slots", 8, "--interval",
                            0.01, "--seconds", 3)
    figures["saturates at, heartbeats/s"] = done["answered_per_s"]
    yield figures


def gang(bench):
    """One gang with a rank on each of so many workers: it starts, meets in its store, runs and beats."""
    for _ in range(bench.blocks):
        figures = {}
        for ranks in (1000, 8000):
            with bench.muster() as muster:
                done = bench.client("gang", "--data-dir", muster.data_dir, "--agents", ranks, "--slots", 1, "--seconds",
                                    6 * bench.turn, timeout=400)
            for name, key in (("start, CPU us a rank", "start_cpu_us_a_rank"), ("first heartbeat, CPU us", "first_beat_cpu_us"),
                              ("heartbeat, CPU us", "beat_cpu_us"), ("from submit to all running, s", "running_s")):
                figures[f"{ranks} ranks: {name}"] = done[key]
            figures[f"{ranks} ranks: heartbeat p50, ms"] = done["latency"]["p50_ms"]
        yield figures


def with_one_job(bench):
    """The folder of a musterd that was stopped after one job."""
    folder = bench.fresh("template")
    with contextlib.closing(Muster(folder, bench.bin, workers=1, worker_flags=["--allow-commands"])) as muster:
        bench.client("end-to-end", "--data-dir", muster.data_dir, "--spec", bench.spec("true"), "--warm-up", 0, "--jobs", 1,
                     "--seconds", 30)
    return folder


def history(bench):
    """A musterd each with so many ended jobs in history.db and 10,000 more in memory, while 10,000 workers beat."""
    sizes = (1_000, 100_000, 1_000_000)
    template = with_one_job(bench)
    filled = {}
    for jobs in sizes:
        filled[jobs] = bench.fresh(f"history-{jobs}")
        shutil.copytree(template, filled[jobs])
        done = bench.run("muster-bench-history", "--data-dir", filled[jobs] / "musterd", "--jobs", jobs, timeout=900)[0]
        bench.note(f"{done['jobs']} ended jobs written in {done['seconds']:.0f} s")
    for _ in range(bench.blocks):
        figures = {}
        for jobs in sizes:
            folder = bench.fresh("history")
            shutil.copytree(filled[jobs], folder)
            os.sync()  # what was copied is not written while submits are
            figures.update({f"{jobs} ended jobs: {name}": value for name, value in with_history(bench, folder).items()})
            shutil.rmtree(folder)
        yield figures


def with_history(bench, folder):
    seconds = 3 * bench.turn
    with contextlib.closing(Muster(folder, bench.bin)) as muster:
        for words in (("submit", "-f", bench.spec("elsewhere"), "--array", "1-10000", "--set",
                       "placement.wait_for_capacity=true"), ("cancel", "--array", "bench")):
            subprocess.run([bench.bin / "muster", *map(str, words)], env=muster.environment, check=True,
                           stdout=subprocess.DEVNULL)
        alone = resident_mib(muster.musterd.pid)
        fleet = subprocess.Popen([bench.bin / "muster-bench-client", "heartbeats", "--data-dir", muster.data_dir,
                                  "--agents", "10000", "--slots", "8", "--seconds", str(3 * seconds), "--announce"],
                                 stdout=subprocess.PIPE, text=True)
        if not json.loads(fleet.stdout.readline())["ready"]:
            raise RuntimeError("the agents were not welcomed")
        listed = bench.client("list", "--data-dir", muster.data_dir, "--seconds", seconds)
        submitted = bench.client("submit", "--data-dir", muster.data_dir, "--spec", bench.spec("queued"), "--clients", 8,
                                 "--seconds", seconds)
        beats = json.loads(fleet.communicate(timeout=120)[0])
        return {"start, s": muster.start_seconds, "ls p50, ms": listed["latency"]["p50_ms"],
                "submits/s": submitted["per_s"], "heartbeats answered/s": beats["answered_per_s"],
                "heartbeat p50, ms": beats["latency"]["p50_ms"], "RSS before the workers come, MiB": alone,
                "RSS, MiB": beats["musterd_rss_mib"]}


def resident_mib(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:"))) / 1024


def plot(bench):
    """`muster metrics JOB --plot loss`, a process each, of a job of 10^5 and of one of 10^8 points."""
    template = with_one_job(bench)
    sizes = (100_000, 10_000_000 if bench.quick else 100_000_000)
    filled = {}
    for points in sizes:
        filled[points] = bench.fresh(f"points-{points}")
        shutil.copytree(template, filled[points])
        bench.run("muster-bench-history", "--data-dir", filled[points] / "musterd", "--points", points, timeout=900)
    for _ in range(bench.blocks):
        figures = {}
        for points in sizes:
            with contextlib.closing(Muster(filled[points], bench.bin)) as muster:
                done = bench.client("spawn", "--seconds", 2 * bench.turn, "--", bench.bin / "muster", "metrics", "1", "--plot",
                                    "loss", env=muster.environment)
                figures[f"{points} points: a plot, ms"] = 1e3 / done["per_s"]
        yield figures


ROWS = {"C1": c1, "C2": c2, "C3": c3, "C4": c4, "C5": c5, "M1": m1, "M2": m2, "LS": ls, "RSS": size, "HB": beats,
        "HIST": history, "PLOT": plot, "GANG": gang}

# Row, what, ours, the rival's, bar, moonshot. A ratio above 1 means that Muster is better.
RATIOS = [
    ("C1", "durable submits/s, streams, 1 client, to Slurm's API", "muster stream 1", "slurm api 1", 10, None),
    ("C1", "8 streams", "muster stream 8", "slurm api 8", 10, None),
    ("C1", "64 streams", "muster stream 64", "slurm api 64", 10, None),
    ("C1", "1 stream, to HyperQueue's 1 client (not durable)", "muster stream 1", "hyperqueue api 1", 5, None),
    ("C1", "a call each, 1 client, to Slurm's API", "muster api 1", "slurm api 1", 10, None),
    ("C1", "a call each, 8 clients", "muster api 8", "slurm api 8", 10, None),
    ("C1", "a call each, 64 clients", "muster api 64", "slurm api 64", 10, None),
    ("C1", "a call each, 64 clients, to HyperQueue's 1", "muster api 64", "hyperqueue api 1", 5, None),
    ("C1", "a CLI process each, to sbatch", "muster cli 1", "slurm cli 1", 1, 2),
    ("C1", "2 CLI processes at a time", "muster cli 2", "slurm cli 2", 1, 2),
    ("C2", "`true` jobs/s end to end, to Slurm on 32 slots", "muster", "slurm", 1.5, 2.5),
    ("C2", "to HyperQueue, a job each", "muster", "hyperqueue jobs", 1.5, 2.5),
    ("C2", "to Ray's no-op (no process each)", "muster", "ray no-op", 1.5, 2.5),
    ("C2", "to Ray starting `true`", "muster", "ray spawning true", 1.5, 2.5),
    ("C3", "submit to process start, p50 ms, to srun", "muster", "slurm srun", None, None),
    ("C5", "durable changes/s: 1 stream, 1 in flight, to etcd put", "muster stream 1 x 1 in flight", "etcd put 1", 1, 1),
    ("C5", "submits, a call each, 1 client", "muster submit 1", "etcd put 1", 1, 1),
    ("C5", "16 streams x 16 in flight, to 16 clients' puts", "muster stream 16 x 16 in flight", "etcd put 16", 10, 25),
    ("C5", "16 streams x 16 in flight, to 16 x 16 puts in flight", "muster stream 16 x 16 in flight",
     "etcd put 16 x 16 in flight", 10, 25),
    ("C5", "submits, a call each, 16 clients", "muster submit 16", "etcd put 16", 10, 25),
    ("C5", "rank reports, 16 agents, to 16 x 16 puts in flight", "muster reports of 16 agents",
     "etcd put 16 x 16 in flight", 10, 25),
    ("C5", "rank reports, 16 agents, to 16 clients' puts", "muster reports of 16 agents", "etcd put 16", 10, 25),
    ("M1", "durable metric points/s with reads meanwhile, to MLflow", "muster", "mlflow", 100, 1000),
]
# Figures where less is better.
LESS_IS_BETTER = {("C3", "muster")}

# Row, figure, bar, unit; at most or at least.
AIMS = [
    ("C3", "muster", "at most", 10, 2.5),
    ("C4", "fill, decided", "at least", 50_000, 500_000),
    ("C4", "churn, decided", "at least", 50_000, 500_000),
    ("C4", "a million decisions, s", "at most", 20, None),
    ("LS", "ls p99, ms", "at most", 50, None),
    ("HIST", "1000000 ended jobs: start, s", "at most", 3, None),
    ("HIST", "1000000 ended jobs: RSS, MiB", "at most", 250, None),
    ("PLOT", "100000000 points: a plot, ms", "at most", 100, None),
    ("RSS", "RSS at 10,000 queued jobs and 1,000 workers, MiB", "at most", 256, None),
]


def timed(work):
    import time
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def poll(condition, seconds):
    import time
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise RuntimeError("the rival's jobs did not end in time")
        time.sleep(0.01)
