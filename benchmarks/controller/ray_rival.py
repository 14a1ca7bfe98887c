"""Ray as a rival of benchmarks/controller/run: obeys lines on stdin.

  noop N    N remote functions that do nothing, in Ray's own reused processes
  spawn N   N remote functions that each start `true`
Answers each with one JSON line. Nothing of it is durable.
"""
import json
import os
import subprocess
import sys
import time


def main():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    import ray
    ray.init(num_cpus=int(sys.argv[1]), include_dashboard=False, logging_level="ERROR", log_to_driver=False)

    @ray.remote
    def noop():
        return None

    @ray.remote
    def spawn():
        return subprocess.call(["/bin/true"])

    ray.get([noop.remote() for _ in range(200)])
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        what, count = line.split()
        function, began = {"noop": noop, "spawn": spawn}[what], time.perf_counter()
        ray.get([function.remote() for _ in range(int(count))])
        print(json.dumps({"per_s": int(count) / (time.perf_counter() - began)}), file=answers, flush=True)
    ray.shutdown()


if __name__ == "__main__":
    main()
