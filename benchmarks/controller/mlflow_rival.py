"""MLflow's tracking server (SQLite store, one worker) as a rival of benchmarks/controller/run: obeys lines on stdin.

  points SECONDS   log_batch of 1,000 metrics a call (the most that it takes), from one client
Answers each with one JSON line.
"""
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request


def main():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    folder = tempfile.mkdtemp(prefix="muster-bench-mlflow-")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1",
         "--backend-store-uri", f"sqlite:///{folder}/store.db", "--default-artifact-root", folder],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        from mlflow.entities import Metric
        from mlflow.tracking import MlflowClient
        for _ in range(240):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1)
                break
            except OSError:
                time.sleep(0.25)
        client = MlflowClient(f"http://127.0.0.1:{port}")
        run = client.create_run(client.create_experiment("bench")).info.run_id
        client.log_metric(run, "warm", 1.0, step=0)
        print(json.dumps({"ready": True}), file=answers, flush=True)
        sent = 0
        for line in sys.stdin:
            seconds, began, count = float(line.split()[1]), time.perf_counter(), 0
            while count == 0 or time.perf_counter() - began < seconds:
                now = int(time.time() * 1000)
                client.log_batch(run, metrics=[Metric(f"m{i % 8}", float(i), now, sent + i) for i in range(1000)])
                sent, count = sent + 1000, count + 1000
            print(json.dumps({"per_s": count / (time.perf_counter() - began)}), file=answers, flush=True)
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
