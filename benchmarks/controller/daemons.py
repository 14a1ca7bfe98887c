"""Starts and stops what benchmarks/controller/run measures: musterd with agents, Slurm, etcd, and rivals that obey lines.

Everything lives in a temporary folder, listens on loopback, and is a child of the driver: close() ends exactly the
processes that were started here. pause() and resume() stop a rival while it is another one's turn.
"""
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(condition, seconds, what):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise RuntimeError(f"{what}: not within {seconds} s")
        time.sleep(0.02)


class Daemons:
    """Processes with one output file each."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.processes = []

    def start(self, name, argv, **options):
        log = open(self.folder / f"{name}.out", "ab")
        # A group of its own, so that a daemon's children are paused and ended with it.
        process = subprocess.Popen([str(word) for word in argv], stdout=options.pop("stdout", log), stderr=log,
                                   start_new_session=True, **options)
        self.processes.append(process)
        return process

    def signal(self, number):
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, number)

    def pause(self):
        self.signal(signal.SIGSTOP)

    def resume(self):
        self.signal(signal.SIGCONT)

    def close(self):
        self.resume()
        for process in reversed(self.processes):
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
        self.processes = []


# One caller's bound, which stands at 20,000 by default: the load comes from one address. The check is made all the same.
CALLS_PER_SECOND = "10000000"


class Muster(Daemons):
    """musterd, and as many real agents as asked for. `folder` may hold what an earlier one left."""

    def __init__(self, folder, bin_dir, workers=0, slots=2, worker_flags=()):
        super().__init__(folder)
        self.data_dir = self.folder / "musterd"
        (self.data_dir / "endpoints.json").unlink(missing_ok=True)
        began = time.monotonic()
        self.musterd = self.start("musterd", [bin_dir / "musterd", "--data-dir", self.data_dir, "--listen",
                                              "127.0.0.1:0", "--worker-listen", "127.0.0.1:0", "--http-listen",
                                              "127.0.0.1:0", "--calls-per-second", CALLS_PER_SECOND])
        wait_for((self.data_dir / "endpoints.json").exists, 120, "musterd")
        self.start_seconds = time.monotonic() - began
        self.endpoints = json.loads((self.data_dir / "endpoints.json").read_text())
        self.environment = dict(os.environ, MUSTER_ADDR=self.endpoints["grpc_address"],
                                MUSTER_TOKEN_FILE=str(self.data_dir / "token"))
        for i in range(workers):
            data_dir = self.folder / f"worker-{i}"
            self.start(f"worker-{i}", [bin_dir / "muster-worker", "--controller", self.endpoints["worker_address"],
                                       "--token-file", self.data_dir / "token", "--name", f"worker-{i}", "--data-dir",
                                       data_dir, "--slots", slots, "--http-listen", "127.0.0.1:0", *worker_flags])
            wait_for((data_dir / "endpoints.json").exists, 10, "muster-worker")


class Etcd(Daemons):
    def __init__(self, folder):
        super().__init__(folder)
        self.address = f"127.0.0.1:{free_port()}"
        peer = f"http://127.0.0.1:{free_port()}"
        self.start("etcd", ["etcd", "--data-dir", self.folder / "data", "--listen-client-urls",
                            f"http://{self.address}", "--advertise-client-urls", f"http://{self.address}",
                            "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster",
                            f"default={peer}", "--log-level", "error"])

        def answers():
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", int(self.address.split(":")[1]))) == 0
        wait_for(answers, 20, "etcd")
        time.sleep(1)  # its election


SLURM_CONF = """\
ClusterName=bench
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ctld_port}
SlurmdPort={d_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/ctld.pid
SlurmdPidFile={folder}/d.pid
SlurmctldLogFile={folder}/ctld.log
SlurmdLogFile={folder}/d.log
SlurmctldDebug=error
SlurmdDebug=error
ProctrackType=proctrack/pgid
SlurmdParameters=config_overrides
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,bf_interval=5,default_queue_depth=10000,max_rpc_cnt=0
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/jobcomp.log
MaxJobCount=500000
MinJobAge=10
KillWait=2
InactiveLimit=0
NodeName={host} NodeAddr=127.0.0.1 CPUs={slots} RealMemory={memory} State=UNKNOWN
PartitionName=p Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


class Slurm(Daemons):
    """Debian's Slurm on one node, set for throughput as its vendor's guide for that advises; no accounting."""

    def __init__(self, folder, slots):
        super().__init__(folder)
        os.chmod(self.folder, 0o755)
        for name in ("state", "spool"):
            (self.folder / name).mkdir()
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        host = socket.gethostname().split(".")[0]
        conf = self.folder / "slurm.conf"
        conf.write_text(SLURM_CONF.format(host=host, folder=self.folder, slots=slots, ctld_port=free_port(),
                                          d_port=free_port(), memory=1024))
        self.environment = dict(os.environ, SLURM_CONF=str(conf))
        self.completions = self.folder / "jobcomp.log"
        self.script = self.folder / "true.sh"
        self.script.write_text("#!/bin/sh\nexec true\n")
        self.start("munged", ["munged", "-F", "-f", f"--key-file={key}", "-S", self.folder / "munge.sock",
                              f"--pid-file={self.folder}/munge.pid", f"--log-file={self.folder}/munge.log",
                              f"--seed-file={self.folder}/seed", "--num-threads=4"])
        wait_for((self.folder / "munge.sock").exists, 10, "munged")
        self.start("slurmctld", ["slurmctld", "-D", "-i", "-f", conf], env=self.environment)
        self.start("slurmd", ["slurmd", "-D", "-f", conf, "-N", host], env=self.environment)
        wait_for(lambda: "idle" in self.ask("sinfo", "-h", "-o", "%T"), 60, "Slurm's node")

    def ask(self, *argv):
        return subprocess.run(argv, env=self.environment, capture_output=True, text=True, check=False).stdout

    def finished(self):
        return self.completions.read_bytes().count(b"\n") if self.completions.exists() else 0

    def drop_queue(self):
        self.ask("scancel", "-u", "root")


class Obeying(Daemons):
    """A rival in Python that answers each line on its standard input with one JSON line."""

    def __init__(self, folder, python, script, *args):
        super().__init__(folder)
        self.process = self.start(script.stem, [python, script, *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  text=True, cwd=folder)
        self.read()

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.process.args[1]} ended; see {self.folder}")
        return json.loads(line)

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.read()

    def close(self):
        self.resume()
        self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            pass
        super().close()


def missing(program, package):
    """What to install when the program is not there; else nothing."""
    return "" if shutil.which(program) else package
