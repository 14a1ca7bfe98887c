"""A client of a controller, over gRPC. What it hands out are the messages of proto/muster/v1."""

from __future__ import annotations

import getpass
import os
import secrets
import time
from typing import Any, Callable, Iterator, List, Mapping, Optional, Sequence, Tuple, Type, TypeVar, Union

from muster.errors import MusterError

try:
    import google.protobuf.message
    import grpc
except ImportError as error:
    raise MusterError("FAILED_PRECONDITION", f"muster.Client needs gRPC and Protocol Buffers ({error}); install them: "
                                             "pip install grpcio protobuf") from error

from muster.controller_address import find_controller
from muster.job_text import read_job
from muster.metric_table import MetricTable
from muster.v1 import common_pb2, job_service_pb2, job_spec_pb2

JobLike = Union[int, str]
"""A job's id, its name (then the newest job of that name), or ARRAY_INDEX for a task of an array."""

PROTOCOL_VERSION = 3
_SERVICE = "/muster.v1.JobService/"
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 2.0
_MAX_MESSAGE_BYTES = 16 << 20
_TERMINAL = (common_pb2.SUCCEEDED, common_pb2.FAILED, common_pb2.CANCELLED)

_Response = TypeVar("_Response", bound=google.protobuf.message.Message)


def _job_ref(job: JobLike) -> job_service_pb2.JobRef:
    text = str(job)
    if text.isdecimal() and int(text) > 0:
        return job_service_pb2.JobRef(id=int(text))
    array, underscore, index = text.partition("_")
    if underscore and array.isdecimal() and index.isdecimal():
        return job_service_pb2.JobRef(task=job_service_pb2.JobRef.ArrayTask(array_id=int(array), index=int(index)))
    if not 0 < len(text) <= 63 or text.isdecimal() or text.startswith("-"):
        raise MusterError("INVALID_ARGUMENT", f"'{text}': a job is given by its id or by its name of at most 63 characters")
    return job_service_pb2.JobRef(name=text)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # an id without a name
        return str(os.getuid())


class _Patience:
    """The pauses between tries, until a time is over."""

    def __init__(self, seconds: Optional[float]) -> None:
        self._end = None if seconds is None else time.monotonic() + seconds
        self._pause = _FIRST_PAUSE

    def left(self) -> Optional[float]:
        return None if self._end is None else max(self._end - time.monotonic(), 0.01)

    def over(self) -> bool:
        return self._end is not None and time.monotonic() >= self._end

    def again(self) -> bool:
        if self._end is not None and time.monotonic() + self._pause >= self._end:
            return False
        time.sleep(self._pause)
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        return True


class Client:
    """A controller, found as the command line finds it: the arguments, MUSTER_ADDR, MUSTER_TOKEN or MUSTER_TOKEN_FILE and
    MUSTER_CA_FILE, and the context in use, of `muster login` or `muster local up`. `context` names another one, and goes
    before the environment.

    Without a CA's certificates no token goes to another machine, unless `insecure` or MUSTER_INSECURE=1 allows it.

    Each call is tried again, with growing pauses, while nobody answers and `timeout` seconds are not over. Every call is
    idempotent or carries a key, so that asked twice it changes nothing more. What fails raises MusterError. Any thread.
    """

    def __init__(self, address: Optional[str] = None, *, token_file: Optional[str] = None, ca_file: Optional[str] = None,
                 context: Optional[str] = None, insecure: bool = False, timeout: float = 30.0) -> None:
        found = find_controller(address, token_file, ca_file, context=context, insecure=insecure)
        self.address = found.address
        self.timeout = timeout
        self._metadata: Sequence[Tuple[str, str]] = (("authorization", "Bearer " + found.token),) if found.token else ()
        options = [("grpc.enable_http_proxy", 0), ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
                   ("grpc.keepalive_time_ms", 20_000), ("grpc.keepalive_timeout_ms", 10_000),
                   ("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 1000)]
        if found.ca is None:
            self._channel = grpc.insecure_channel("dns:///" + found.address, options)
        else:
            self._channel = grpc.secure_channel("dns:///" + found.address, grpc.ssl_channel_credentials(found.ca), options)

    def close(self) -> None:
        """Ends the connection, and every call that still runs on it."""
        self._channel.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def version(self) -> job_service_pb2.GetVersionResponse:
        """The version of the controller."""
        return self._call("GetVersion", job_service_pb2.GetVersionRequest(), job_service_pb2.GetVersionResponse)

    def submit(self, job: Union[Mapping[str, Any], job_spec_pb2.JobSpec], *, key: Optional[str] = None) -> int:
        """Sends a job and returns its id; of an array that of its first job.

        `job` is what a job file holds, as a dict, or a message. A command runs in this process' working folder unless it
        says otherwise. The same `key` with the same job is the same job, however often it is sent; by default each call
        makes one of its own.
        """
        spec = job_spec_pb2.JobSpec()
        spec.CopyFrom(job if isinstance(job, job_spec_pb2.JobSpec) else read_job(job))
        if spec.HasField("command") and not spec.command.workdir and not spec.command.image and not spec.command.upload:
            spec.command.workdir = os.getcwd()
        request = job_service_pb2.SubmitRequest(spec=spec, idempotency_key=key or secrets.token_hex(16), owner=_user(),
                                                protocol_version=PROTOCOL_VERSION)
        return int(self._call("Submit", request, job_service_pb2.SubmitResponse).job_id)

    def get(self, job: JobLike) -> job_service_pb2.GetJobResponse:
        """All about one job, as `muster show` has it."""
        return self._call("GetJob", job_service_pb2.GetJobRequest(job=_job_ref(job)), job_service_pb2.GetJobResponse)

    def jobs(self, *, project: str = "", tags: Optional[Mapping[str, str]] = None) -> Iterator[job_service_pb2.JobSummary]:
        """All jobs, newest first, a page at a time."""
        request = job_service_pb2.ListJobsRequest(page_size=1000, project=project, tags=tags or {})
        while True:
            page = self._call("ListJobs", request, job_service_pb2.ListJobsResponse)
            yield from page.jobs
            request.page_token = page.next_page_token
            if not page.next_page_token:
                return

    def wait(self, job: JobLike, *, timeout: Optional[float] = None, check: bool = True,
             on_change: Optional[Callable[[job_service_pb2.JobSummary], None]] = None) -> job_service_pb2.JobSummary:
        """Stays until the job has ended, also while the controller is away for up to the client's `timeout`.

        With `check` a job that did not succeed raises MusterError, with its failure class or CANCELLED as the code. A
        `timeout` that is over raises DEADLINE_EXCEEDED; the job goes on. `on_change` is told of each change.
        """
        ref = _job_ref(job)
        whole = _Patience(timeout)
        away: Optional[_Patience] = None
        summary: Optional[job_service_pb2.JobSummary] = None
        while True:
            try:
                for update in self._stream("WatchJob", job_service_pb2.WatchJobRequest(job=ref),
                                           job_service_pb2.WatchJobResponse, whole.left()):
                    away, summary = None, update.summary
                    ref = job_service_pb2.JobRef(id=summary.id)  # a newer one of its name does not take its place
                    if on_change is not None:
                        on_change(summary)
            except MusterError as error:
                if error.code not in ("UNAVAILABLE", "CANCELLED") and not (error.code == "DEADLINE_EXCEEDED" and whole.over()):
                    raise
                lost = error
            else:
                lost = MusterError("UNAVAILABLE", f"the controller at {self.address} keeps ending the stream")
            if summary is not None and summary.state in _TERMINAL:
                return _checked(summary) if check else summary
            if whole.over():
                raise MusterError("DEADLINE_EXCEEDED", f"job {job} has not ended within {timeout:g} s; it goes on")
            away = away or _Patience(self.timeout)
            if not away.again():
                raise lost

    def cancel(self, job: JobLike) -> job_service_pb2.JobSummary:
        """Ends a job; its checkpoints stay."""
        request = job_service_pb2.CancelJobRequest(job=_job_ref(job), user=_user())
        return self._call("CancelJob", request, job_service_pb2.CancelJobResponse).summary

    def metrics(self, job: JobLike, names: Sequence[str] = (), *, rank: int = 0, from_step: int = 0, to_step: int = 0,
                max_points: int = 0) -> MetricTable:
        """Metrics of one rank, by default all of rank 0. `max_points` thins each curve out evenly; 0: every point."""
        request = job_service_pb2.QueryMetricsRequest(job=_job_ref(job), names=names, rank=rank, from_step=from_step,
                                                      to_step=to_step, max_points=max_points)
        points: List[Tuple[str, int, float]] = []
        while True:
            page = self._call("QueryMetrics", request, job_service_pb2.QueryMetricsResponse)
            points.extend((point.name, point.step, point.value) for point in page.points)
            request.page_token = page.next_page_token
            if not page.next_page_token:
                return MetricTable.from_points(points)

    def checkpoints(self, job: JobLike) -> Iterator[job_service_pb2.CheckpointInfo]:
        """The checkpoints of a job, newest first."""
        request = job_service_pb2.ListCheckpointsRequest(job=_job_ref(job))
        while True:
            page = self._call("ListCheckpoints", request, job_service_pb2.ListCheckpointsResponse)
            yield from page.checkpoints
            request.page_token = page.next_page_token
            if not page.next_page_token:
                return

    def logs(self, job: JobLike, *, rank: Optional[int] = None, follow: bool = False,
             tail: int = 0) -> Iterator[job_service_pb2.StreamLogsResponse]:
        """What the ranks printed, in pieces of whole lines. With `follow` goes on until the job has ended; a controller that
        is lost meanwhile raises UNAVAILABLE."""
        request = job_service_pb2.StreamLogsRequest(job=_job_ref(job), follow=follow, tail=tail)
        if rank is not None:
            request.rank = rank
        yield from self._stream("StreamLogs", request, job_service_pb2.StreamLogsResponse, None if follow else self.timeout)

    def events(self, job: Optional[JobLike] = None, *, follow: bool = False, tail: int = 0,
               after_sequence: int = 0) -> Iterator[job_service_pb2.JobEvent]:
        """What happened to a job, or to all. With `follow` goes on with those to come, also after the controller was away for
        up to the client's `timeout`: none comes twice."""
        request = job_service_pb2.StreamEventsRequest(job=None if job is None else _job_ref(job), follow=follow, tail=tail,
                                                      after_sequence=after_sequence)
        away: Optional[_Patience] = None
        while True:
            try:
                for page in self._stream("StreamEvents", request, job_service_pb2.StreamEventsResponse,
                                         None if follow else self.timeout):
                    away = None
                    for event in page.events:
                        request.after_sequence = event.sequence
                        request.tail = 0
                        yield event
                return
            except MusterError as error:
                away = away or _Patience(self.timeout)
                if error.code != "UNAVAILABLE" or not away.again():
                    raise

    def _call(self, method: str, request: google.protobuf.message.Message, response: Type[_Response]) -> _Response:
        call: Any = self._channel.unary_unary(_SERVICE + method, request_serializer=lambda message: message.SerializeToString(),
                                              response_deserializer=response.FromString)
        patience = _Patience(self.timeout)
        while True:
            try:
                answer: _Response = call(request, timeout=patience.left(), metadata=self._metadata)
                return answer
            except grpc.RpcError as error:
                failure = self._explain(error)
                if failure.code != "UNAVAILABLE" or not patience.again():
                    raise failure from None

    def _stream(self, method: str, request: google.protobuf.message.Message, response: Type[_Response],
                timeout: Optional[float]) -> Iterator[_Response]:
        open_stream: Any = self._channel.unary_stream(_SERVICE + method,
                                                      request_serializer=lambda message: message.SerializeToString(),
                                                      response_deserializer=response.FromString)
        stream = open_stream(request, timeout=timeout, metadata=self._metadata)
        try:
            yield from stream
        except grpc.RpcError as error:
            raise self._explain(error) from None
        finally:
            stream.cancel()

    def _explain(self, error: Any) -> MusterError:
        code = error.code().name
        details = error.details() or ""
        if code == "UNAVAILABLE":
            return MusterError(code, f"no answer from a controller at {self.address}: {details}; start one with "
                                     "`muster local up`, or set MUSTER_ADDR to where it is, and MUSTER_CA_FILE if it speaks TLS")
        if code == "DEADLINE_EXCEEDED":
            return MusterError(code, f"the controller at {self.address} did not answer in time")
        if code == "UNAUTHENTICATED":
            said = "refuses this token" if self._metadata else "wants a token"
            return MusterError(code, f"the controller at {self.address} {said}; set MUSTER_TOKEN_FILE to the file `token` in "
                                     "musterd's data folder")
        return MusterError(code, details)


def _checked(summary: job_service_pb2.JobSummary) -> job_service_pb2.JobSummary:
    if summary.state == common_pb2.SUCCEEDED:
        return summary
    cancelled = summary.state == common_pb2.CANCELLED
    code = "CANCELLED" if cancelled else common_pb2.FailureClass.Name(summary.failure_class)
    raise MusterError(code, f"job {summary.id} ({summary.name}) {'was cancelled' if cancelled else 'failed'}: "
                            f"{summary.message}")
