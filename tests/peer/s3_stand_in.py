"""An object store for tests: moto, which speaks S3, on loopback."""
import contextlib
import os
import socket
import subprocess
import sys
import time


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextlib.contextmanager
def object_store(folder):
    """A server that speaks S3 on loopback; yields the environment that leads to it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = open(os.path.join(folder, "moto.log"), "wb")
    server = subprocess.Popen([sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
                              stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 60
        while not listens(port):
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("moto does not serve: " + open(log.name, errors="replace").read())
            time.sleep(0.05)
        yield {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", "AWS_ACCESS_KEY_ID": "key",
               "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1", "NO_PROXY": "127.0.0.1"}
    finally:
        server.terminate()
        server.wait()
        log.close()


def upload(folder, bucket, environment):
    """Makes the bucket, with the files of the folder in it."""
    import boto3
    client = boto3.client("s3", endpoint_url=environment["AWS_ENDPOINT_URL"], region_name="us-east-1",
                          aws_access_key_id="key", aws_secret_access_key="secret")
    client.create_bucket(Bucket=bucket)
    for name in sorted(os.listdir(folder)):
        client.upload_file(os.path.join(folder, name), bucket, name)
