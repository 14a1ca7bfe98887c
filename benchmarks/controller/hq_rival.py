"""HyperQueue as a rival of benchmarks/controller/run: a local cluster that obeys lines on stdin.

  submit SECONDS        one-task jobs from one client, to a server without workers: submissions a second
  jobs N                N jobs of one `true` each, from the first submit to the last end
  tasks N               one job of N tasks of `true`
  start N STAMP SOCKET  N jobs one after the other; the process reports its own start
Answers each with one JSON line. It keeps no journal: nothing of it is durable.
"""
import json
import os
import sys
import tempfile
import time

from hyperqueue import Job, LocalCluster
from hyperqueue.cluster import WorkerConfig


def one(argv=("/bin/true",)):
    job = Job()
    job.program(list(argv), stdout="/dev/null", stderr="/dev/null")
    return job


def main():
    os.chdir(tempfile.mkdtemp(prefix="muster-bench-hq-"))
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(**values):
        print(json.dumps(values), file=answers, flush=True)

    with LocalCluster() as idle, LocalCluster() as cluster:
        cluster.start_worker(WorkerConfig(cores=int(sys.argv[1])))
        submitter, client = idle.client(), cluster.client()
        answer(ready=True)
        for line in sys.stdin:
            what, *words = line.split()
            began = time.perf_counter()
            if what == "submit":
                count, end = 0, began + float(words[0])
                while time.perf_counter() < end:
                    submitter.submit(one())
                    count += 1
                answer(per_s=count / (time.perf_counter() - began))
            elif what == "jobs":
                count = int(words[0])
                client.wait_for_jobs([client.submit(one()) for _ in range(count)])
                answer(per_s=count / (time.perf_counter() - began))
            elif what == "tasks":
                count, job = int(words[0]), Job()
                for _ in range(count):
                    job.program(["/bin/true"], stdout="/dev/null", stderr="/dev/null")
                client.wait_for_jobs([client.submit(job)])
                answer(per_s=count / (time.perf_counter() - began))


if __name__ == "__main__":
    main()
