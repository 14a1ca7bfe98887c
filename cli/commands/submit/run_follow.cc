#include "cli/commands/submit/run_follow.h"

#include <ostream>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/calls/change.h"
#include "cli/calls/follow.h"
#include "cli/output/log_text.h"
#include "cli/output/views/watch_view.h"
#include "common/base/status_macros.h"

namespace muster::cli {
namespace {

constexpr int kSignalBase = 128;  // as shells count an end by a signal
constexpr int kSigKill = 9;

// What a job's stream sends goes on until it ends, the connection is lost for good, or the user
// interrupts. Reconnects by calling `open` again.
class RunStream {
 public:
  RunStream(const RunOptions& options, Session& session, Client& client)
      : options_(options),
        session_(session),
        client_(client),
        out_({.origin = options.prefix}),
        err_({.origin = options.prefix}) {}

  // Says what the job waits for. Returns when it waits no more, or at an interrupt.
  absl::Status AwaitStart(InterruptGuard& guard) {
    v1::WatchJobRequest request;
    request.mutable_job()->set_id(options_.job_id);
    std::string said = "queued";
    return Repeat(guard, &Jobs::WatchJob, request, [&](const v1::WatchJobResponse& response) {
      const v1::JobSummary& job = response.summary();
      const bool waits = job.state() == v1::PENDING;
      if (waits && !job.message().empty() && job.message() != said) {
        said = job.message();
        session_.Say(absl::StrCat("job ", job.id(), " waits: ", said));
      }
      return waits;
    });
  }

  absl::Status Print(InterruptGuard& guard) {
    v1::StreamLogsRequest request;
    request.mutable_job()->set_id(options_.job_id);
    request.set_follow(true);
    return Repeat(guard, &Jobs::StreamLogs, request, [&](v1::StreamLogsResponse& chunk) {
      const bool is_stderr = chunk.is_stderr();
      LogText& text = is_stderr ? err_ : out_;
      To(is_stderr) << text.Lines(text.Fresh(std::move(chunk))) << std::flush;
      return true;
    });
  }

  // Lines that never got their newline.
  void End() {
    To(false) << out_.Rest() << std::flush;
    To(true) << err_.Rest() << std::flush;
  }

 private:
  // Until `take` wants no more.
  template <typename Request, typename Response, typename Take>
  absl::Status Repeat(InterruptGuard& guard, ReadMethod<Request, Response> method,
                      const Request& request, const Take& take) {
    Reconnect reconnect(session_, guard);
    reconnect.OnConnected();  // the call before was answered
    while (true) {
      ReadCall stream(method, request, client_.endpoint(), absl::InfiniteDuration(), guard);
      Response response;
      bool more = true;
      while (more && stream.Read(response)) {
        reconnect.OnConnected();
        more = take(response);
      }
      const CallEnd end = more ? stream.Finish() : CallEnd();
      if (end.ok() || guard.interrupted()) return absl::OkStatus();
      MUSTER_RETURN_IF_ERROR(
          reconnect.OnDisconnected(client_.Explain(end, session_.timeout()), end.reached));
    }
  }

  std::ostream& To(bool is_stderr) { return is_stderr ? session_.host().err : session_.host().out; }

  const RunOptions options_;
  Session& session_;
  Client& client_;
  LogText out_;
  LogText err_;
};

absl::Status Left(uint64_t id) {
  return WithHint(Interrupted(absl::StrCat("left job ", id, ", which is ending")),
                  absl::StrCat("`muster show ", id, "` tells how it ended"));
}

// CANCELLED: interrupted once more, or the controller could not be told.
absl::Status Cancel(uint64_t id, Session& session, InterruptGuard& guard) {
  session.Say(absl::StrCat("interrupted: cancelling job ", id, " (once more: leave at once)"));
  v1::CancelJobRequest request;
  request.mutable_job()->set_id(id);
  request.set_user(UserName(session.host()));
  const absl::Status status = SendChange(session, &Jobs::CancelJob, request, &guard).status();
  // It may have ended meanwhile.
  if (status.ok() || absl::IsFailedPrecondition(status)) return absl::OkStatus();
  const std::string why = guard.interrupted() ? "" : absl::StrCat(": ", status.message());
  return WithHint(Interrupted(absl::StrCat("interrupted: job ", id, " may still run", why)),
                  absl::StrCat("`muster cancel ", id, "` ends it"));
}

// Ends the job after an interrupt and hears its last words.
absl::Status CancelAndHear(uint64_t id, RunStream& stream, Session& session,
                           InterruptGuard& guard) {
  guard.Reset();
  MUSTER_RETURN_IF_ERROR(Cancel(id, session, guard));
  const absl::Status heard = stream.Print(guard);
  return heard.ok() && !guard.interrupted() ? absl::OkStatus() : Left(id);
}

}  // namespace

absl::StatusOr<RunOutcome> FollowRun(const RunOptions& options, Session& session,
                                     InterruptGuard& guard) {
  MUSTER_ASSIGN_OR_RETURN(Client * client, session.Connect());
  RunStream stream(options, session, *client);
  absl::Status followed = stream.AwaitStart(guard);
  if (followed.ok() && !guard.interrupted()) followed = stream.Print(guard);
  RunOutcome outcome;
  outcome.interrupted = guard.interrupted();
  if (outcome.interrupted) followed = CancelAndHear(options.job_id, stream, session, guard);
  MUSTER_RETURN_IF_ERROR(followed);
  stream.End();
  v1::GetJobRequest request;
  request.mutable_job()->set_id(options.job_id);
  // As patient as a change: the controller may just be coming back.
  absl::StatusOr<v1::GetJobResponse> job = SendChange(session, &Jobs::GetJob, request, &guard);
  if (!job.ok() && (outcome.interrupted || guard.interrupted())) return Left(options.job_id);
  MUSTER_RETURN_IF_ERROR(job.status());
  outcome.job = *std::move(job);
  return outcome;
}

int ProgramExitCode(const v1::GetJobResponse& job) {
  const int ours = static_cast<int>(ExitCodeOf(job.summary()));
  const v1::FailureClass cause = job.summary().failure_class();
  const bool by_program = cause == v1::APPLICATION || cause == v1::RANK_KILLED ||
                          cause == v1::OUT_OF_MEMORY || cause == v1::DATA_ERROR ||
                          cause == v1::NON_FINITE;
  if (job.summary().state() != v1::FAILED) return ours;
  if (cause == v1::START_FAILED) return static_cast<int>(ExitCode::kJobFailed);
  if (job.attempts().empty() || !by_program) return ours;
  int signal = 0;
  for (const v1::Attempt::Rank& rank : job.attempts(job.attempts_size() - 1).ranks()) {
    if (rank.exit_code() != 0) return rank.exit_code();
    // Those that were killed because another one failed are not the cause.
    if (rank.signal() != 0 && (signal == 0 || signal == kSigKill)) signal = rank.signal();
  }
  return signal != 0 ? kSignalBase + signal : ours;
}

}  // namespace muster::cli
