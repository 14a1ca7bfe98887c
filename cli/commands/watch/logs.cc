// `muster logs`: what the ranks printed.
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/calls/follow.h"
#include "cli/commands/commands.h"
#include "cli/commands/watch/log_replay.h"
#include "cli/output/log_text.h"
#include "common/base/status_macros.h"

namespace muster::cli {
namespace {

constexpr absl::Duration kWholeLogTimeout = absl::Minutes(10);  // without --follow

struct LogsFlags {
  std::string job;
  bool follow = false;
  std::optional<uint32_t> rank;
  std::optional<uint32_t> attempt;
  uint32_t tail = 0;
};

// Prints what was not printed before.
class LogPrinter {
 public:
  LogPrinter(Session& session, bool prefix, bool has_tail)
      : session_(session), text_(prefix, session.host().terminal), has_tail_(has_tail) {}

  void Take(v1::StreamLogsResponse chunk) {
    if (replay_.LeftOut(chunk)) return;
    const v1::StreamLogsResponse fresh = text_.Fresh(std::move(chunk));
    if (fresh.text().empty()) return;
    std::ostream& out = session_.host().out;
    if (session_.globals().tables()) {
      out << text_.Lines(fresh) << std::flush;
    } else {
      out << JsonLine(ToJson(fresh)) << std::flush;
    }
  }

  // After a reconnect a tail would leave out what was written meanwhile: the log comes from its
  // begin instead, and what is not behind the last that came is passed over. Where no tail was
  // asked for, text_ knows what has come.
  void Replay(v1::StreamLogsRequest& request) {
    if (!has_tail_) return;
    if (replay_.any()) request.set_tail(0);
    replay_.Begin();
  }

  void End() {
    if (session_.globals().tables()) session_.host().out << text_.Rest() << std::flush;
  }

 private:
  Session& session_;
  LogText text_;
  const bool has_tail_;
  LogReplay replay_;
};

bool HasOneSource(const LogsFlags& flags, const v1::GetJobResponse& job) {
  return (flags.rank.has_value() || job.summary().ranks() <= 1) &&
         (flags.attempt.has_value() || job.attempts_size() <= 1);
}

v1::StreamLogsRequest LogsRequest(const LogsFlags& flags, uint64_t id) {
  v1::StreamLogsRequest request;
  request.mutable_job()->set_id(id);
  request.set_follow(flags.follow);
  request.set_tail(flags.tail);
  if (flags.rank.has_value()) request.set_rank(*flags.rank);
  if (flags.attempt.has_value()) request.set_attempt(*flags.attempt);
  return request;
}

absl::StatusOr<ExitCode> RunLogs(const LogsFlags& flags, Session& session) {
  MUSTER_RETURN_IF_ERROR(session.CheckLineFormat());
  v1::GetJobRequest get;
  MUSTER_ASSIGN_OR_RETURN(*get.mutable_job(), ParseJobRef(flags.job));
  MUSTER_ASSIGN_OR_RETURN(Client * client, session.Connect());
  // A follow lasts as long as the job unless --timeout says otherwise.
  const absl::Duration limit =
      session.timeout(flags.follow ? absl::InfiniteDuration() : kWholeLogTimeout);
  absl::Duration end = SteadyNow() + limit;
  MUSTER_ASSIGN_OR_RETURN(const v1::GetJobResponse job,
                          client->Call(&Jobs::GetJob, get, session.timeout()));
  const uint64_t id = job.summary().id();
  v1::StreamLogsRequest request = LogsRequest(flags, id);
  LogPrinter printer(session, /*prefix=*/!HasOneSource(flags, job), /*has_tail=*/flags.tail > 0);
  InterruptGuard guard;
  Reconnect reconnect(session, guard);
  reconnect.OnConnected();  // GetJob was answered
  while (true) {
    ReadCall stream(&Jobs::StreamLogs, request, client->endpoint(), end - SteadyNow(), guard);
    v1::StreamLogsResponse chunk;
    while (session.host().out && stream.Read(chunk)) {
      reconnect.OnConnected();
      printer.Take(std::move(chunk));
    }
    if (!session.host().out) stream.Cancel();
    const CallEnd stream_end = stream.Finish();
    if (!session.host().out) return ExitCode::kDone;  // RunMuster says so
    if (guard.interrupted()) {
      return WithHint(Interrupted(absl::StrCat("interrupted; job ", id, " goes on")),
                      absl::StrCat("end it with `muster cancel ", id, "`"));
    }
    if (stream_end.ok()) break;
    const absl::Status error = client->Explain(stream_end, limit);
    // The controller cancels the call of a client that has not read for minutes (a pager).
    if (!flags.follow && !absl::IsCancelled(error)) return error;
    // How long somebody reads a page does not count.
    if (!flags.follow) end = SteadyNow() + limit;
    if (SteadyNow() >= end || absl::IsDeadlineExceeded(error))
      return TimedOut(absl::StrCat("job ", id, " goes on"));
    MUSTER_RETURN_IF_ERROR(reconnect.OnDisconnected(error, stream_end.reached));
    printer.Replay(request);
  }
  printer.End();
  return ExitCode::kDone;
}

}  // namespace

void AddLogs(CLI::App& app, Session& session, Verb& verb) {
  CLI::App* command = app.add_subcommand(
      "logs",
      "print what the ranks wrote; lines of several ranks or attempts start with \"a1.r0 | \"");
  const auto flags = std::make_shared<LogsFlags>();
  command->add_option("JOB", flags->job, "its id or name")->required();
  command->add_flag("-f,--follow", flags->follow, "stay until the job has ended");
  command->add_option("--rank", flags->rank, "only this rank");
  command->add_option("--attempt", flags->attempt, "only this attempt")->check(CLI::PositiveNumber);
  command->add_option("--tail", flags->tail, "only the last so many lines of each rank");
  command->callback(
      [flags, &session, &verb] { verb = [flags, &session] { return RunLogs(*flags, session); }; });
}

}  // namespace muster::cli
