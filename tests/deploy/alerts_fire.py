#!/usr/bin/env python3
"""Each alert of deploy/prometheus/rules/alerts.yml fires by its real fault in a real Muster, and did not before it: a hang, a
NaN, saves that do not get through, a job that waits, a full disk, a pool that cannot be scaled, a certificate that nobody
renews, a machine that dies, a cloud that says nothing of its plans, a controller that dies while a job writes logs, and one that
is restored from an old backup. Minutes of the rules go by in seconds (monitored_muster.py).
"""
import os
import pathlib
import re
import signal
import unittest
from collections.abc import Iterator
from contextlib import contextmanager

from monitored_muster import ROOT, MonitoredMuster, digits_job, quicker_rules, wait_for

LOUD = "while :; do head -c 60000 /dev/urandom | base64; sleep 0.1; done"


class QuickerRules(unittest.TestCase):
    def test_only_times_differ(self) -> None:
        text = (ROOT / "deploy/prometheus/rules/alerts.yml").read_text()
        quicker = quicker_rules(text)
        self.assertNotEqual(text, quicker)
        self.assertEqual(re.findall(r"(?:for: |\[|offset )\d+[mhd]", quicker), [])
        numbers = re.compile(r"\d+[smhd]?")
        self.assertEqual(numbers.sub("N", text), numbers.sub("N", quicker))


class AlertsFire(unittest.TestCase):
    def setUp(self) -> None:
        self.muster = MonitoredMuster(workers=2, slots=3)
        self.addCleanup(self.muster.close)
        self.fired: set[str] = set()

    @contextmanager
    def fires(self, *alerts: str, seconds: float = 120) -> Iterator[None]:
        """The fault is made inside; none of the alerts fires before it, and all have at its end."""
        self.assertEqual(self.muster.firing() & set(alerts), set(), "fires without its fault")
        yield
        seen: set[str] = set()

        def all_seen() -> bool:
            seen.update(self.muster.firing())
            return seen >= set(alerts)
        try:
            wait_for(all_seen, f"{alerts} to fire", seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}; fired: {seen}; "
                                 f"{[one.labels for one in self.muster.prometheus.instant('ALERTS')]}") from error
        self.fired |= set(alerts)

    def test_each_by_its_fault(self) -> None:
        muster = self.muster
        trains = muster.submit(digits_job(restart={"progress_timeout": "20s"}))
        muster.wait_for_step(trains, 20)
        # Goodput is compared with its mean of the day before the last half hour, which is over after 31 seconds here.
        wait_for(lambda: muster.value("project:muster_goodput:ratio_rate30m offset 31s > 0.5") is not None, "good times")

        with self.subTest("a rank stands still"), self.fires("MusterJobHang", "MusterGoodputFalling"):
            os.kill(muster.rank_pids(trains)[1], signal.SIGSTOP)

        with self.subTest("a NaN"), self.fires("MusterJobNotFinite"):
            blows_up = digits_job("blows-up", ranks=1, train={"optimizer": {"name": "sgd", "lr": 1000, "momentum": 0.99}},
                                  restart={"budgets": {"non_finite": 0}})
            self.assertEqual(muster.wait_for_state(muster.submit(blows_up), "FAILED", "SUCCEEDED"), "FAILED")

        with self.subTest("the checkpoint root is away"), self.fires("MusterCheckpointOverdue"):
            muster.wait_for_state(trains, "RUNNING")
            muster.root.rename(muster.folder / "away")
        (muster.folder / "away").rename(muster.root)

        with self.subTest("a quota keeps a job waiting"), self.fires("MusterQueueStuck"):
            muster.muster("quota", "set", "poor", "--slots", "1")
            sleeps = {"name": "sleeps", "project": "poor", "command": {"argv": ["sleep", "1000"]}}
            waiting = [muster.submit(sleeps), muster.submit(sleeps)]
        muster.muster("cancel", *waiting)

        with self.subTest("a disk is full"):
            if not muster.has_disk:
                self.fired.add("MusterDiskFilling")
                self.skipTest("a small disk needs root")
            with self.fires("MusterDiskFilling"):
                muster.disk_file("filler").write_bytes(bytes(61 << 20))
            muster.disk_file("filler").unlink()

        with self.subTest("a pool's workers cannot be had"), self.fires("MusterAutoscaleFailing"):
            nowhere = muster.submit({"name": "nowhere", "placement": {"pool": "cloud"}, "command": {"argv": ["true"]}})
        self.assertIn("exited with 1", muster.muster("explain", nowhere))
        muster.muster("cancel", nowhere)
        with self.subTest("the folder of backups is away"), self.fires("MusterBackupOverdue"):
            muster.backups.rename(muster.folder / "backups-away")
        (muster.folder / "backups-away").rename(muster.backups)

        with self.subTest("nobody renews a certificate"), self.fires("MusterCertificateExpiring"):
            muster.certify("worker-2", days=2)
        muster.certify("worker-2")

        with self.subTest("a machine dies"), self.fires("MusterWorkerLost"):
            muster.kill("worker-2")
        muster.start_worker("worker-2")

        with self.subTest("the cloud's metadata service does not answer"), self.fires("MusterPreemptionSourceSilent"):
            muster.start_worker("worker-3", "--preemption-source", "aws", "--preemption-url", "http://127.0.0.1:1")
        backup = pathlib.Path(muster.muster("admin", "backup", "-q").strip())
        backup = backup.rename(muster.folder / backup.name)  # musterd removes old ones

        with self.subTest("the controller dies while a job is loud"), self.fires("MusterControllerDown", "MusterSpoolFilling"):
            loud = muster.submit({"name": "loud", "command": {"argv": ["sh", "-c", LOUD]}})
            muster.wait_for_state(loud, "RUNNING")
            muster.kill("musterd")
        muster.start_musterd()
        wait_for(lambda: not muster.firing() & {"MusterControllerDown", "MusterSpoolFilling"}, "all to be well again")
        muster.muster("cancel", loud, trains)

        with self.subTest("the controller was restored, and its workers know more"), self.fires("MusterControllerHeld"):
            muster.kill("musterd")
            muster.restore(backup)
            muster.start_musterd()

        alerts = re.findall(r"- alert: (\w+)", (ROOT / "deploy/prometheus/rules/alerts.yml").read_text())
        self.assertEqual(self.fired, set(alerts))


if __name__ == "__main__":
    unittest.main()
