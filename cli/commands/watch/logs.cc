// `muster logs`: what the ranks printed.
#include <re2/re2.h>

#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "cli/calls/follow.h"
#include "cli/commands/commands.h"
#include "cli/commands/watch/log_replay.h"
#include "cli/grammar/past_time.h"
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
  std::string grep;
  std::optional<std::string> since, until;
  bool timestamps = false;
};

// Which lines are wanted; nothing: all. INVALID_ARGUMENT: the pattern is none.
absl::StatusOr<LogText::Wanted> WantedLines(const std::string& pattern) {
  if (pattern.empty()) return nullptr;
  RE2::Options options;
  options.set_log_errors(false);
  options.set_encoding(RE2::Options::EncodingLatin1);  // a program writes what bytes it likes
  const auto regex = std::make_shared<const RE2>(pattern, options);
  if (!regex->ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--grep ", pattern, ": no regular expression: ", regex->error()));
  }
  return [regex](absl::string_view line) {
    return RE2::PartialMatch(re2::StringPiece(line.data(), line.size()), *regex);
  };
}

// Prints what was not printed before.
class LogPrinter {
 public:
  LogPrinter(Session& session, bool has_tail, const LogText::Options& options)
      : session_(session), text_(options), has_tail_(has_tail), wanted_(options.wanted) {}

  void Take(v1::StreamLogsResponse chunk) {
    if (replay_.LeftOut(chunk)) return;
    const v1::StreamLogsResponse fresh = text_.Fresh(std::move(chunk));
    if (fresh.text().empty()) return;
    std::ostream& out = session_.host().out;
    if (session_.globals().tables()) {
      out << text_.Lines(fresh) << std::flush;
    } else if (wanted_ == nullptr) {
      out << JsonLine(ToJson(fresh)) << std::flush;
    } else {
      PrintWanted(fresh);
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
  // In JSON, each line with its own offset. A chunk has whole lines.
  void PrintWanted(const v1::StreamLogsResponse& chunk) {
    v1::StreamLogsResponse one = chunk;
    uint64_t offset = chunk.offset();
    for (const absl::string_view line : absl::StrSplit(chunk.text(), '\n')) {
      const uint64_t rest = chunk.offset() + chunk.text().size() - offset;
      const bool ends = line.size() < rest;  // with a newline
      if (rest > 0 && wanted_(line)) {
        one.set_offset(offset);
        one.set_text(absl::StrCat(line, ends ? "\n" : ""));
        session_.host().out << JsonLine(ToJson(one)) << std::flush;
        one.clear_lost_bytes();  // told with the first one
      }
      offset += line.size() + ends;
    }
  }

  Session& session_;
  LogText text_;
  const bool has_tail_;
  const LogText::Wanted wanted_;
  LogReplay replay_;
};

bool HasOneSource(const LogsFlags& flags, const v1::GetJobResponse& job) {
  return (flags.rank.has_value() || job.summary().ranks() <= 1) &&
         (flags.attempt.has_value() || job.attempts_size() <= 1);
}

absl::StatusOr<v1::StreamLogsRequest> LogsRequest(const LogsFlags& flags) {
  v1::StreamLogsRequest request;
  MUSTER_ASSIGN_OR_RETURN(const int64_t since_ms, PastMillis("--since", flags.since, WallNow()));
  MUSTER_ASSIGN_OR_RETURN(const int64_t until_ms, PastMillis("--until", flags.until, WallNow()));
  if (since_ms != 0 && until_ms != 0 && since_ms >= until_ms) {
    return absl::InvalidArgumentError("--since is not before --until: no time is between them");
  }
  request.set_since_ms(since_ms);
  request.set_until_ms(until_ms);
  request.set_follow(flags.follow);
  request.set_tail(flags.tail);
  if (flags.rank.has_value()) request.set_rank(*flags.rank);
  if (flags.attempt.has_value()) request.set_attempt(*flags.attempt);
  return request;
}

absl::StatusOr<ExitCode> RunLogs(const LogsFlags& flags, Session& session) {
  MUSTER_RETURN_IF_ERROR(session.CheckLineFormat());
  MUSTER_ASSIGN_OR_RETURN(const LogText::Wanted wanted, WantedLines(flags.grep));
  MUSTER_ASSIGN_OR_RETURN(v1::StreamLogsRequest request, LogsRequest(flags));
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
  request.mutable_job()->set_id(id);
  LogPrinter printer(session, /*has_tail=*/flags.tail > 0,
                     {.origin = !HasOneSource(flags, job),
                      .times = flags.timestamps,
                      .tame = session.host().terminal,
                      .wanted = wanted});
  InterruptGuard guard;
  Reconnect reconnect(session, guard);
  reconnect.OnConnected();  // GetJob was answered
  while (true) {
    ReadCall stream(&Jobs::StreamLogs, request, client->endpoint(), end - SteadyNow(), guard);
    v1::StreamLogsResponse chunk;
    while (session.host().out && stream.Read(chunk)) {
      reconnect.OnConnected();
      // An older controller passes over what it does not know, and tells no times.
      if ((request.since_ms() != 0 || request.until_ms() != 0) && chunk.written_ms() == 0) {
        stream.Cancel();
        return absl::UnimplementedError(
            "this controller is too old for --since and --until; leave them out");
      }
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
  CLI::Option* follow =
      command->add_flag("-f,--follow", flags->follow, "stay until the job has ended");
  command->add_option("--rank", flags->rank, "only this rank");
  command->add_option("--attempt", flags->attempt, "only this attempt")->check(CLI::PositiveNumber);
  command->add_option("--tail", flags->tail, "only the last so many lines of each rank");
  command->add_option("--grep", flags->grep,
                      "only lines in which this regular expression is found ((?i) in front: in any "
                      "case); of --tail's where both are given");
  command
      ->add_option("--since", flags->since,
                   "only lines written since: how long ago (2h), or a time (2026-11-22T10:00:00Z); "
                   "by the worker's clock, about a second late")
      ->type_name("TIME");
  command->add_option("--until", flags->until, "only lines written before: likewise")
      ->type_name("TIME")
      ->excludes(follow);
  command->add_flag("--timestamps", flags->timestamps,
                    "start each line with when it was written (UTC)");
  command->callback(
      [flags, &session, &verb] { verb = [flags, &session] { return RunLogs(*flags, session); }; });
}

}  // namespace muster::cli
