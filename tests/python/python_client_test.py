#!/usr/bin/env python3
"""muster.Client and muster.report against a real local Muster: what a job reports is what the client reads back, and a wait
outlives its controller."""

import json
import math
import os
import pathlib
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock

ROOT = pathlib.Path(os.environ["MUSTER_SOURCE_DIR"])
BIN = pathlib.Path(os.environ["MUSTER_BIN_DIR"])
PACKAGE = tempfile.TemporaryDirectory(prefix="muster-python-")
subprocess.run([ROOT / "scripts/python-package", PACKAGE.name], check=True)
sys.path.insert(0, PACKAGE.name)

import muster  # noqa: E402
from muster.controller_address import find_controller  # noqa: E402
from muster.job_text import read_job  # noqa: E402
from muster.v1 import common_pb2  # noqa: E402


class Types(unittest.TestCase):
    def test_the_package_and_its_example_pass_a_strict_type_checker(self):
        environment = {**os.environ, "MYPYPATH": PACKAGE.name}
        done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir", f"{PACKAGE.name}/cache", "-p", "muster"],
                              env=environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir", f"{PACKAGE.name}/cache",
                               ROOT / "examples/report_line.py"], env=environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class JobText(unittest.TestCase):
    def test_a_job_is_read_as_a_job_file_is(self):
        spec = read_job({"name": "a", "ranks": 2, "command": ["x", "y"], "tags": {"t": "u"},
                         "restart": {"progress_timeout": "1h30m"}, "scheduling": {"priority_class": "high"}})
        self.assertEqual((spec.ranks.min, spec.ranks.max), (2, 2))
        self.assertEqual(list(spec.command.argv), ["x", "y"])
        self.assertEqual(spec.restart.progress_timeout.seconds, 5400)
        self.assertEqual(dict(spec.tags), {"t": "u"})
        self.assertTrue(spec.scheduling.HasField("priority_class"))

    def test_what_is_wrong_is_named_by_its_path(self):
        for tree, path in (({"name": 1}, "name: "), ({"nam": "a"}, "nam: there is no such key"),
                           ({"ranks": "2"}, "ranks: "), ({"ranks": {"min": -1}}, "ranks.min: "),
                           ({"scheduling": {"priority_class": "hih"}}, "scheduling.priority_class: must be one of low"),
                           ({"restart": {"progress_timeout": 5}}, "restart.progress_timeout: must be a duration"),
                           ({"command": {"argv": "x"}}, "command.argv: must be a list")):
            with self.assertRaises(muster.MusterError) as caught:
                read_job(tree)
            self.assertEqual(caught.exception.code, "INVALID_ARGUMENT")
            self.assertTrue(str(caught.exception).startswith(path), caught.exception)


class FindingTheController(unittest.TestCase):
    """The order of cli/session/context.cc, and its rule for tokens in plain text."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="muster-python-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "muster").mkdir()
        kept = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}
        patched = unittest.mock.patch.dict(os.environ, {**kept, "XDG_CONFIG_HOME": folder.name}, clear=True)
        patched.start()
        self.addCleanup(patched.stop)

    def write(self, name, text, mode=0o600):
        path = self.folder / name
        path.write_text(text)
        path.chmod(mode)
        return str(path)

    def log_in(self, current, **contexts):
        """What `muster login` leaves (cli/session/saved_contexts.cc)."""
        saved = {}
        for name, more in contexts.items():
            saved[name] = {"address": f"{name}:7070", "token_file": self.write(name, f"{name}-token\n"), **more}
        self.write("muster/config.json", json.dumps({"current": current, "contexts": saved}))

    def local_up(self):
        self.write("muster/context.json", json.dumps({"address": "127.0.0.1:4321",
                                                      "token_file": self.write("local", "local-token\n")}))

    def found(self, *words, **more):
        found = find_controller(*words, **more)
        return found.address, found.token

    def refused(self, code, pattern, *words, **more):
        with self.assertRaisesRegex(muster.MusterError, pattern) as caught:
            find_controller(*words, **more)
        self.assertEqual(caught.exception.code, code)

    def test_a_token_does_not_leave_the_machine_in_plain_text(self):
        token = self.write("token", "secret\n")
        with self.assertRaises(muster.MusterError) as caught:
            muster.Client("controller.example:7070", token_file=token)
        self.assertEqual(caught.exception.code, "INVALID_ARGUMENT")
        for words in ("controller.example:7070 in plain text", "ca_file=", "MUSTER_CA_FILE", "insecure=True",
                      "MUSTER_INSECURE=1"):
            self.assertIn(words, str(caught.exception))
        self.assertNotIn("secret", str(caught.exception))
        for address in ("10.0.0.1:1", "[2001:db8::1]:1", "127.example:1", "127.0.0.1.example:1", "dns:///far:1",
                        "localhost.example:1", "127.1:1", "localhost:1,far:1", "127.0.0.1\0:1"):
            self.refused("INVALID_ARGUMENT", "in plain text", address, token_file=token)
        os.environ["MUSTER_TOKEN"] = "secret"
        self.refused("INVALID_ARGUMENT", "in plain text", "far:1")
        os.environ["MUSTER_INSECURE"] = "yes"
        self.refused("INVALID_ARGUMENT", "in plain text", "far:1")

    def test_a_token_may_go_where_somebody_said_so_and_where_nobody_listens(self):
        token = self.write("token", "secret\n")
        for address in ("127.0.0.1:1", "127.9.9.9:1", "localhost:1", "[::1]:1", "dns:///127.0.0.1:1"):
            self.assertEqual(find_controller(address, token_file=token).token, "secret")
        self.assertEqual(self.found("far:1"), ("far:1", ""))
        self.assertEqual(self.found("far:1", token_file=token, insecure=True), ("far:1", "secret"))
        muster.Client("far:1", token_file=token, insecure=True).close()
        os.environ["MUSTER_INSECURE"] = "1"
        self.assertEqual(self.found("far:1", token_file=token), ("far:1", "secret"))
        muster.Client("far:1", token_file=token).close()

    def test_certificates_make_a_connection_safe_and_a_file_without_any_does_not(self):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days",
                        "1", "-subj", "/CN=test", "-keyout", self.folder / "key", "-out", self.folder / "ca.pem"],
                       check=True, capture_output=True)
        ca = str(self.folder / "ca.pem")
        self.log_in("", far={"ca_file": ca})
        self.assertEqual(find_controller(context="far").ca, pathlib.Path(ca).read_bytes())
        muster.Client(context="far").close()
        # The CA is that context's, and another address is not.
        self.refused("INVALID_ARGUMENT", "in plain text", "other:1", context="far", token_file=self.write("token", "secret"))
        for text in ("", "garbage"):
            self.refused("INVALID_ARGUMENT", "no file of PEM certificates", "far:1", ca_file=self.write("bad.pem", text))
        self.refused("NOT_FOUND", "no.pem", "far:1", ca_file=str(self.folder / "no.pem"))

    def test_the_order_is_arguments_environment_context_in_use_and_local(self):
        self.assertEqual(self.found(), ("127.0.0.1:7070", ""))
        self.local_up()
        self.assertEqual(self.found(), ("127.0.0.1:4321", "local-token"))
        self.assertEqual(self.found("localhost:4321"), ("localhost:4321", "local-token"))
        self.log_in("one", one={"insecure": True}, two={"insecure": True})
        self.assertEqual(self.found(), ("one:7070", "one-token"))
        self.assertEqual(self.found("one:7070"), ("one:7070", "one-token"))
        self.assertEqual(self.found("two:7070"), ("two:7070", ""))  # the token is not for every address
        os.environ["MUSTER_CONTEXT"] = "two"
        self.assertEqual(self.found(), ("two:7070", "two-token"))
        os.environ["MUSTER_CONTEXT"] = "local"
        self.assertEqual(self.found(), ("127.0.0.1:4321", "local-token"))
        os.environ.update(MUSTER_ADDR="127.0.0.1:1", MUSTER_TOKEN="environment-token")
        self.assertEqual(self.found(), ("127.0.0.1:1", "environment-token"))
        self.assertEqual(self.found(token_file=self.write("token", "argument-token")), ("127.0.0.1:1", "argument-token"))
        # A context that is named goes before all of the environment, and an address before the context's.
        self.assertEqual(self.found(context="one"), ("one:7070", "one-token"))
        self.assertEqual(self.found("127.0.0.1:2", context="one"), ("127.0.0.1:2", ""))
        self.log_in("one", one={})
        os.environ["MUSTER_INSECURE"] = "1"
        self.refused("INVALID_ARGUMENT", "in plain text", context="one")

    def test_a_context_that_is_asked_for_is_there_or_is_missed(self):
        self.refused("NOT_FOUND", "context local: .*muster local up", context="local")
        self.refused("NOT_FOUND", "context none: .*muster login", context="none")
        os.environ["MUSTER_CONTEXT"] = "none"
        self.refused("NOT_FOUND", "context none: ")
        self.local_up()
        self.refused("NOT_FOUND", "context none: ")
        del os.environ["MUSTER_CONTEXT"]
        self.log_in("gone", one={})
        self.assertEqual(self.found(), ("127.0.0.1:4321", "local-token"))
        self.log_in("local", one={})
        self.assertEqual(self.found(), ("127.0.0.1:4321", "local-token"))

    def test_a_broken_file_is_named_and_a_token_for_all_to_read_is_refused(self):
        for text in ("", "{", "[]", "{}", '{"contexts": []}', "[" * 100_000):
            path = self.write("muster/config.json", text)
            self.refused("INVALID_ARGUMENT", re.escape(path) + ": no contexts that muster wrote; remove the file")
        self.write("muster/config.json", '{"contexts": {"one": 3, "..": {"address": "far:1"}}, "current": ".."}')
        self.assertEqual(self.found(), ("127.0.0.1:7070", ""))
        for text in ("", "[]", '{"address": 3}'):
            path = self.write("muster/context.json", text)
            self.refused("INVALID_ARGUMENT", re.escape(path) + ": not a context that muster wrote")
        self.log_in("one", one={"insecure": True})
        self.assertEqual(self.found(), ("one:7070", "one-token"))  # nobody asked for the broken one
        (self.folder / "one").chmod(0o640)
        self.refused("PERMISSION_DENIED", "others may use it; run: chmod 600 ")
        (self.folder / "one").unlink()
        self.refused("NOT_FOUND", "token file .*one: ")
        os.mkfifo(self.folder / "one", 0o600)
        self.refused("INVALID_ARGUMENT", "not a plain file")
        (self.folder / "one").unlink()
        self.log_in("one", one={"insecure": True})
        for text, why in (("\n", "is empty"), ("a b", "printable"), ("a" * 300, "256")):
            self.write("one", text)
            self.refused("INVALID_ARGUMENT", why)


class Agent:
    """The agent's end of MUSTER_SOCKET, to break it where a real one breaks rarely."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "agent.sock")
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen()

    def run(self, *serve):
        def body():
            for handle in serve:
                connection, _ = self.listener.accept()
                with connection, connection.makefile("rw") as file:
                    handle(file)
        thread = threading.Thread(target=body, daemon=True)
        thread.start()
        return thread


def answer(file, *lines):
    for line in lines:
        file.write(json.dumps(line) + "\n")
    file.flush()


class Reporting(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.agent = Agent(folder.name)
        self.addCleanup(self.agent.listener.close)

    def test_without_muster_it_does_nothing(self):
        reporter = muster.Reporter("")
        self.assertFalse(reporter.active)
        reporter.report(step=1, loss=0.5)
        reporter.checkpoint("nowhere", step=1)
        self.assertFalse(reporter.stop_requested())
        with self.assertRaises(ValueError):
            reporter.report(step=1)

    def test_what_was_not_answered_is_said_again_to_an_agent_that_came_back(self):
        said = []

        def lose(file):
            said.append(json.loads(file.readline()))

        def take(file):
            said.append(json.loads(file.readline()))
            answer(file, {"type": "ack", "seq": 1})
        thread = self.agent.run(lose, take)
        muster.Reporter(self.agent.path, patience=30).report({"a/b": math.nan}, step=3, loss=0.5)
        thread.join()
        self.assertEqual(said[0], said[1])
        self.assertEqual(said[0], {"type": "metrics", "step": 3, "values": {"a/b": "nan", "loss": 0.5}})

    def test_an_agent_that_stays_away_is_an_error_after_the_patience(self):
        reporter = muster.Reporter(self.agent.path + ".none", patience=0.2)
        for call in (lambda: reporter.report(step=1, loss=1), lambda: reporter.checkpoint("model.pt", step=1)):
            with self.assertRaises(muster.MusterError) as caught:
                call()
            self.assertEqual(caught.exception.code, "UNAVAILABLE")

    def test_a_checkpoint_that_waits_for_its_commit_holds_up_no_other_call(self):
        offered = threading.Event()
        commit = threading.Event()
        said = []

        def hold(file):
            file.readline()
            offered.set()
            commit.wait(10)
            answer(file, {"type": "stop", "save": True}, {"type": "committed", "step": 1, "error": ""})

        def take(file):
            said.append(json.loads(file.readline())["type"])
            answer(file, {"type": "ack", "seq": 1})
            said.append(json.loads(file.readline())["type"])
        holding = self.agent.run(hold)
        reporter = muster.Reporter(self.agent.path, patience=30)
        saving = threading.Thread(target=reporter.checkpoint, args=("model.pt",), kwargs={"step": 1})
        saving.start()
        self.assertTrue(offered.wait(10))
        taking = self.agent.run(take)
        self.assertFalse(reporter.stop_requested())
        reporter.report(step=1, loss=1)
        reporter.progress("train", step=1)
        taking.join()
        self.assertTrue(saving.is_alive(), "a call waited for the commit")
        self.assertEqual(said, ["metrics", "progress"])
        commit.set()
        saving.join()
        holding.join()
        self.assertTrue(reporter.stop_requested())  # the checkpoint's connection heard it

    def test_a_connection_that_is_lost_after_a_long_wait_for_a_commit_is_made_anew(self):
        patience = 0.5

        def lose(file):
            file.readline()
            time.sleep(2 * patience)

        def take(file):
            file.readline()
            answer(file, {"type": "committed", "step": 1, "error": ""})
        thread = self.agent.run(lose, take)
        muster.Reporter(self.agent.path, patience=patience).checkpoint("model.pt", step=1)
        thread.join()

    def test_a_program_with_many_open_files_reports(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        for _ in range(1100):
            self.addCleanup(os.close, os.open(os.devnull, os.O_RDONLY))

        def take(file):
            file.readline()
            answer(file, {"type": "ack", "seq": 1})
        thread = self.agent.run(take)
        muster.Reporter(self.agent.path, patience=30).report(step=1, loss=1)
        thread.join()

    def test_a_stop_is_seen_and_a_refusal_is_raised(self):
        def body(file):
            file.readline()
            answer(file, {"type": "stop", "save": True, "reason": "drain"}, {"type": "ack", "seq": 1})
            file.readline()
            answer(file, {"type": "error", "message": "step: must not be negative"})
        thread = self.agent.run(body)
        reporter = muster.Reporter(self.agent.path, patience=30)
        reporter.report(step=1, loss=1)
        self.assertTrue(reporter.stop_requested())
        with self.assertRaisesRegex(muster.MusterError, "must not be negative"):
            reporter.report(step=-1, loss=1)
        thread.join()


class AgainstAMusterWithTls(unittest.TestCase):
    """A musterd with certificates, as `musterd init` makes them."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="muster-python-")
        self.addCleanup(folder.cleanup)
        self.data = pathlib.Path(folder.name, "controller")
        subprocess.run([BIN / "musterd", "init", "--data-dir", self.data], check=True, capture_output=True, timeout=60)
        musterd = subprocess.Popen(
            [BIN / "musterd", "--config", self.data / "musterd.yaml", "--listen", "127.0.0.1:0", "--worker-listen", "127.0.0.1:0",
             "--http-listen", "127.0.0.1:0", "--checkpoint-root", pathlib.Path(folder.name, "checkpoints")], stderr=subprocess.DEVNULL)
        self.addCleanup(lambda: (musterd.terminate(), musterd.wait(60)))
        told = self.data / "endpoints.json"
        end = time.monotonic() + 60
        while not told.exists() and time.monotonic() < end:
            time.sleep(0.05)
        self.address = json.loads(told.read_text())["grpc_address"]

    def client(self, ca, timeout=60):
        return muster.Client(self.address, token_file=str(self.data / "token"), ca_file=str(ca), timeout=timeout)

    def test_it_is_spoken_to_by_its_ca_and_by_no_other(self):
        with self.client(self.data / "tls/ca.pem") as client:
            job = client.submit({"name": "held", "scheduling": {"hold": True}, "command": ["true"]})
            self.assertEqual([one.id for one in client.jobs()], [job])
            client.cancel(job)
            self.assertEqual(client.wait(job, timeout=60, check=False).state, common_pb2.CANCELLED)
        other = self.data / "other"
        subprocess.run([BIN / "musterd", "init", "--data-dir", other], check=True, capture_output=True, timeout=60)
        with self.client(other / "tls/ca.pem", timeout=3) as client, self.assertRaises(muster.MusterError) as caught:
            client.version()
        self.assertEqual(caught.exception.code, "UNAVAILABLE")


class AgainstALocalMuster(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="muster-python-")
        for name in [name for name in os.environ if name.startswith("MUSTER_") and name not in
                     ("MUSTER_SOURCE_DIR", "MUSTER_BIN_DIR")]:
            del os.environ[name]
        for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "MUSTER_LOCAL_DIR"):
            os.environ[name] = os.path.join(cls.folder.name, name.lower())
        cls.addClassCleanup(cls.folder.cleanup)
        cls.cli("local", "up", "--any-port", "--workers", "1", "--restart-delay", "100ms")
        cls.addClassCleanup(cls.cli, "local", "down")
        cls.client = muster.Client()
        saved = pathlib.Path(os.environ["XDG_CONFIG_HOME"], "muster/context.json")
        cls.token_file = json.loads(saved.read_text())["token_file"]
        cls.addClassCleanup(cls.client.close)

    @classmethod
    def cli(cls, *words):
        done = subprocess.run([BIN / "muster", *words], capture_output=True, text=True, timeout=120)
        if done.returncode != 0:
            raise AssertionError(f"muster {' '.join(words)}: {done.stdout}{done.stderr}")
        return done.stdout

    def submit(self, *argv, **more):
        return self.client.submit({"name": "line", "command": {"argv": [sys.executable, *argv],
                                                               "env": {"PYTHONPATH": PACKAGE.name}}, **more})

    def test_what_a_program_reported_is_read_back(self):
        seen = []
        job = self.submit(str(ROOT / "examples/report_line.py"), "25")
        summary = self.client.wait(job, timeout=120, on_change=lambda change: seen.append(change.state))
        self.assertEqual(summary.state, common_pb2.SUCCEEDED)
        self.assertEqual(seen[-1], common_pb2.SUCCEEDED)
        text = b"".join(piece.text for piece in self.client.logs(job)).decode()
        printed = {int(step): float(loss) for step, loss in re.findall(r"step (\d+) loss (\S+)", text)}
        table = self.client.metrics(job, ["loss", "slope"])
        self.assertEqual(table.steps, list(range(1, 26)))
        self.assertEqual(table.columns["loss"], [printed[step] for step in table.steps])
        self.assertEqual(set(table.columns), {"loss", "slope"})
        self.assertEqual([checkpoint.step for checkpoint in self.client.checkpoints(job)], [20, 10])
        self.assertEqual([event.to for event in self.client.events(job)][-1], common_pb2.SUCCEEDED)
        self.assertIn(job, [one.id for one in self.client.jobs()])
        self.assertEqual(self.client.get("line").summary.name, "line")

    def test_the_same_key_is_the_same_job_and_a_wait_outlives_the_controller(self):
        gate = os.path.join(self.folder.name, "gate")
        os.mkfifo(gate)
        spec = {"name": "gated", "command": [sys.executable, "-c", f"open({gate!r}).read()"]}
        job = self.client.submit(spec, key="once")
        self.assertEqual(self.client.submit(spec, key="once"), job)
        running = threading.Event()
        ends = []
        waiting = threading.Thread(target=lambda: ends.append(self.client.wait(
            job, timeout=120, on_change=lambda change: running.set() if change.ranks else None)))
        waiting.start()
        with open(gate, "w"):  # until the program reads it
            self.assertTrue(running.wait(60))
            daemons = json.loads(self.cli("local", "status", "-o", "json"))["daemons"]
            pid, = [daemon["pid"] for daemon in daemons if daemon["name"] == "musterd"]
            os.kill(pid, signal.SIGKILL)
            # A call waits for the one that comes next, too.
            self.assertEqual(self.client.get(job).summary.id, job)
        waiting.join(120)
        self.assertEqual([end.state for end in ends], [common_pb2.SUCCEEDED])

    def test_a_failed_job_and_a_timeout_are_told_apart(self):
        with self.assertRaises(muster.MusterError) as caught:
            self.client.wait(self.submit("-c", "import sys; sys.exit(3)", restart={"max_restarts": 0}), timeout=120)
        self.assertEqual(caught.exception.code, "APPLICATION")
        sleeper = self.submit("-c", "import time; time.sleep(600)")
        with self.assertRaises(muster.MusterError) as caught:
            self.client.wait(sleeper, timeout=0.5)
        self.assertEqual(caught.exception.code, "DEADLINE_EXCEEDED")
        self.client.cancel(sleeper)
        self.assertEqual(self.client.wait(sleeper, timeout=60, check=False).state, common_pb2.CANCELLED)

    def test_a_login_of_the_command_line_is_found(self):
        with tempfile.TemporaryDirectory(prefix="muster-python-") as folder:
            with unittest.mock.patch.dict(os.environ, XDG_CONFIG_HOME=folder):
                self.cli("login", self.client.address, "--name", "mine", "--token-file", self.token_file)
                with muster.Client(context="mine") as client:
                    self.assertEqual((client.address, client.version()), (self.client.address, self.client.version()))
                with muster.Client() as client:
                    self.assertEqual(client.version(), self.client.version())

    def test_errors_are_the_controllers_words(self):
        with self.assertRaisesRegex(muster.MusterError, "987654") as caught:
            self.client.get(987654)
        self.assertEqual(caught.exception.code, "NOT_FOUND")
        with self.assertRaises(muster.MusterError) as caught:
            self.client.submit({"name": "Not a name", "command": ["x"]})
        self.assertEqual(caught.exception.code, "INVALID_ARGUMENT")
        with muster.Client("127.0.0.1:1", timeout=0.5) as nobody, self.assertRaises(muster.MusterError) as caught:
            nobody.version()
        self.assertEqual(caught.exception.code, "UNAVAILABLE")
        token = os.path.join(self.folder.name, "wrong")
        with open(os.open(token, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
            file.write("wrong")
        with muster.Client(token_file=token) as stranger, self.assertRaises(muster.MusterError) as caught:
            stranger.version()
        self.assertEqual(caught.exception.code, "UNAUTHENTICATED")
        os.chmod(token, 0o644)
        with self.assertRaisesRegex(muster.MusterError, "others may use it"):
            muster.Client(token_file=token)


if __name__ == "__main__":
    unittest.main()
