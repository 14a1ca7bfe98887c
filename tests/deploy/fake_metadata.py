"""AWS's metadata service for one spot machine, on loopback: a token for who asks for one, and no notice until interrupt()."""
import datetime
import http.server
import json
import threading

_TOKEN = "token-1"
_ACTION = "/latest/meta-data/spot/instance-action"


class FakeMetadata:
    def __init__(self) -> None:
        self._action: dict[str, str] | None = None
        metadata = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_PUT(self) -> None:
                wants_token = self.path == "/latest/api/token" and self.headers.get("X-aws-ec2-metadata-token-ttl-seconds")
                self._answer(200 if wants_token else 400, _TOKEN if wants_token else "")

            def do_GET(self) -> None:
                if self.headers.get("X-aws-ec2-metadata-token") != _TOKEN:
                    self._answer(401, "")
                elif self.path == _ACTION and metadata._action:
                    self._answer(200, json.dumps(metadata._action))
                else:
                    self._answer(404, "")

            def _answer(self, code: int, body: str) -> None:
                self.send_response(code)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """For --preemption-url."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def interrupt(self, seconds: float = 120) -> None:
        """The machine is taken away in so many seconds."""
        at = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)
        self._action = {"action": "terminate", "time": at.strftime("%Y-%m-%dT%H:%M:%SZ")}

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
