// `muster logs`: what the ranks printed.
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/commands/commands.h"
#include "cli/follow.h"
#include "cli/output/log_text.h"
#include "common/base/status_macros.h"

namespace muster::cli {
namespace {

struct Flags {
  std::string job;
  bool follow = false;
  std::optional<uint32_t> rank;
  std::optional<uint32_t> attempt;
  uint32_t tail = 0;
};

void Print(const v1::StreamLogsResponse& fresh, Session& session, LogText& text) {
  if (fresh.text().empty()) return;
  if (session.globals().tables()) {
    session.host().out << text.Lines(fresh) << std::flush;
    return;
  }
  Json json = ToJson(fresh);
  session.host().out << JsonLine(json) << std::flush;
}

// One stream from its begin to its end.
CallEnd Stream(const v1::StreamLogsRequest& request, Session& session, Client& client,
               InterruptGuard& guard, Reconnect& reconnect, LogText& text) {
  // A follow lasts as long as the job unless --timeout says otherwise.
  const absl::Duration limit =
      session.timeout(request.follow() ? absl::InfiniteDuration() : absl::Minutes(10));
  ReadCall stream(rpc::kStreamLogs, request, client.Options(limit));
  guard.Set([&stream] { stream.Cancel(); });
  v1::StreamLogsResponse chunk;
  while (stream.Read(chunk)) {
    reconnect.Good();
    Print(text.Fresh(std::move(chunk)), session, text);
  }
  CallEnd end = stream.Finish();
  guard.Clear();
  return end;
}

absl::StatusOr<ExitCode> Run(const Flags& flags, Session& session) {
  v1::GetJobRequest get;
  MUSTER_ASSIGN_OR_RETURN(*get.mutable_job(), ParseJobRef(flags.job));
  MUSTER_ASSIGN_OR_RETURN(Client * client, session.Connect());
  MUSTER_ASSIGN_OR_RETURN(const v1::GetJobResponse job,
                          client->Call(rpc::kGetJob, get, session.timeout()));
  v1::StreamLogsRequest request;
  request.mutable_job()->set_id(job.summary().id());
  request.set_follow(flags.follow);
  request.set_tail(flags.tail);
  if (flags.rank.has_value()) request.set_rank(*flags.rank);
  if (flags.attempt.has_value()) request.set_attempt(*flags.attempt);

  const bool one_source = (flags.rank.has_value() || job.summary().ranks() <= 1) &&
                          (flags.attempt.has_value() || job.attempts_size() <= 1);
  LogText text(!one_source, session.host().terminal);
  InterruptGuard guard;
  Reconnect reconnect(session, guard);
  reconnect.Good();  // GetJob was answered
  while (true) {
    const CallEnd end = Stream(request, session, *client, guard, reconnect, text);
    if (guard.interrupted()) {
      return WithHint(
          Interrupted(absl::StrCat("interrupted; job ", job.summary().id(), " goes on")),
          absl::StrCat("end it with `muster cancel ", job.summary().id(), "`"));
    }
    if (end.ok()) break;
    const absl::Status error = client->Explain(end, session.timeout());
    if (!flags.follow) return error;
    if (absl::IsDeadlineExceeded(error))
      return TimedOut(absl::StrCat("job ", job.summary().id(), " goes on"));
    MUSTER_RETURN_IF_ERROR(reconnect.Lost(error));
  }
  if (session.globals().tables()) session.host().out << text.Rest() << std::flush;
  return ExitCode::kDone;
}

}  // namespace

void AddLogs(CLI::App& app, Session& session, Verb& verb) {
  CLI::App* command = app.add_subcommand(
      "logs",
      "print what the ranks wrote; lines of several ranks or attempts start with \"a1.r0 | \"");
  const auto flags = std::make_shared<Flags>();
  command->add_option("JOB", flags->job, "its id or name")->required();
  command->add_flag("-f,--follow", flags->follow, "stay until the job has ended");
  command->add_option("--rank", flags->rank, "only this rank");
  command->add_option("--attempt", flags->attempt, "only this attempt")->check(CLI::PositiveNumber);
  command->add_option("--tail", flags->tail, "only the last so many lines of each rank");
  command->callback(
      [flags, &session, &verb] { verb = [flags, &session] { return Run(*flags, session); }; });
}

}  // namespace muster::cli
