#!/usr/bin/env python3
"""10,000 jobs that have ended, most of them cancelled in the queue and some run to their end, leave no series behind: neither
on the pages of musterd and its agents, nor among what Prometheus holds for the present.
"""
import unittest
import urllib.request

from monitored_muster import MonitoredMuster, wait_for

JOBS, RUN = 10_000, 40
OF_JOBS = '{job_id!=""}'


class FinishedJobsLeaveNoSeries(unittest.TestCase):
    def test_ten_thousand(self) -> None:
        muster = MonitoredMuster(workers=2, slots=4)
        self.addCleanup(muster.close)
        ran = muster.submit({"name": "runs", "command": {"argv": ["echo", "hello"]}}, "--array", f"1-{RUN}")
        wait_for(lambda: muster.value(f"count({OF_JOBS})") is not None, "series of jobs")
        wait_for(lambda: muster.value(f'muster_jobs{{state="succeeded"}} == {RUN}') is not None, "jobs to end", 180)
        rest = muster.submit({"name": "waits", "command": {"argv": ["true"]}, "scheduling": {"hold": True}}, "--array",
                             f"1-{JOBS - RUN}")
        wait_for(lambda: muster.value(f"muster_queue_jobs == {JOBS - RUN}") is not None, "the queue")
        self.assertIsNotNone(muster.value(f"count({OF_JOBS}) > 1000"))
        muster.muster("cancel", f"{rest}_*")
        wait_for(lambda: muster.value(f'sum(muster_jobs{{state=~"succeeded|cancelled"}}) == {JOBS}') is not None, "all to end")

        wait_for(lambda: muster.value(f"count({OF_JOBS})") is None, f"the series to go, also of {ran}", 60)
        pages = [f"http://{muster.http_address}/metrics"]
        pages += [f"http://{one.labels['instance']}/metrics" for one in muster.prometheus.instant('up{job="muster-workers"}')]
        self.assertEqual(len(pages), 3)
        for page in pages:
            with urllib.request.urlopen(page, timeout=10) as answer:
                self.assertNotIn("job_id=", answer.read().decode(), page)


if __name__ == "__main__":
    unittest.main()
