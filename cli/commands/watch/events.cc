// `muster events`: what happened to jobs, when, why, and by whom.
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/calls/follow.h"
#include "cli/commands/commands.h"
#include "cli/commands/list_flags.h"
#include "cli/grammar/past_time.h"
#include "cli/output/text.h"
#include "common/base/status_macros.h"
#include "common/base/units.h"

namespace muster::cli {
namespace {

constexpr uint32_t kUsualTail = 100;

struct EventsFlags {
  std::string job;
  std::optional<uint32_t> tail;
  bool follow = false;
  std::optional<std::string> since, until;
  ListRequest list;
};

std::string EventLine(const v1::JobEvent& event) {
  const std::string state = v1::JobState_Name(event.to());
  const std::string reason =
      event.reason() == v1::REASON_UNSPECIFIED ? "" : v1::Reason_Name(event.reason());
  return absl::StrCat(TimeText(event.time_ms()), "  job ", event.job_id(), "  ", state, "  ",
                      reason, "  ", Plain(event.actor()), "  ", Plain(event.message()), "\n");
}

// Which events are meant. Those of a time are looked for on this side: the stream has them in
// order.
struct EventsWanted {
  ListView view;
  int64_t since_ms = 0;
  int64_t until_ms = 0;  // 0: no end

  bool Has(const v1::JobEvent& event) const {
    return event.time_ms() >= since_ms && (until_ms == 0 || event.time_ms() < until_ms) &&
           (!view.filters() || view.Keeps(ToJson(event)));
  }
};

absl::StatusOr<EventsWanted> WantedOf(const EventsFlags& flags) {
  EventsWanted wanted;
  MUSTER_ASSIGN_OR_RETURN(wanted.view, ListView::Create(flags.list,
                                                        {{"age", "time_ms", /*age=*/true},
                                                         {"time", "time_ms"},
                                                         {"job", "job_id"},
                                                         {"state", "to"},
                                                         {"by", "actor"}},
                                                        ToJson(v1::JobEvent()), WallNow()));
  MUSTER_ASSIGN_OR_RETURN(wanted.since_ms, PastMillis("--since", flags.since, WallNow()));
  MUSTER_ASSIGN_OR_RETURN(wanted.until_ms, PastMillis("--until", flags.until, WallNow()));
  return wanted;
}

void PrintEvent(const v1::JobEvent& event, Session& session) {
  const bool text = session.globals().tables();
  session.host().out << (text ? EventLine(event) : JsonLine(ToJson(event)));
}

absl::StatusOr<ExitCode> RunEvents(const EventsFlags& flags, Session& session) {
  MUSTER_RETURN_IF_ERROR(session.CheckLineFormat());
  v1::StreamEventsRequest request;
  if (!flags.job.empty()) {
    MUSTER_ASSIGN_OR_RETURN(*request.mutable_job(), ParseJobRef(flags.job));
  }
  MUSTER_ASSIGN_OR_RETURN(const EventsWanted wanted, WantedOf(flags));
  // The newest hundred of all would hide older ones that are asked for.
  const bool narrowed = flags.since.has_value() || flags.until.has_value() || wanted.view.filters();
  request.set_tail(flags.tail.value_or(narrowed ? 0 : kUsualTail));
  request.set_follow(flags.follow);
  MUSTER_ASSIGN_OR_RETURN(Client * client, session.Connect());
  InterruptGuard guard;
  Reconnect reconnect(session, guard);
  const absl::Duration limit =
      session.timeout(flags.follow ? absl::InfiniteDuration() : kCallTimeout);
  const absl::Duration end = SteadyNow() + limit;
  bool completed = false;
  while (true) {
    ReadCall stream(&Jobs::StreamEvents, request, client->endpoint(), end - SteadyNow(), guard);
    v1::StreamEventsResponse response;
    while (session.host().out && stream.Read(response)) {
      reconnect.OnConnected();
      for (const v1::JobEvent& event : response.events()) {
        if (wanted.Has(event)) PrintEvent(event, session);
      }
      session.host().out << std::flush;
      // After a reconnect it goes on behind what was printed.
      request.set_after_sequence(response.events().rbegin()->sequence());
      // Of the same job: its name may have gone to a newer one.
      if (request.has_job()) request.mutable_job()->set_id(response.events().rbegin()->job_id());
      request.set_tail(0);
    }
    if (!session.host().out) stream.Cancel();
    const CallEnd stream_end = stream.Finish();
    if (!session.host().out) return ExitCode::kDone;  // RunMuster says so
    if (guard.interrupted()) return ExitCode::kInterrupted;
    if (stream_end.ok()) return ExitCode::kDone;
    const absl::Status error = client->Explain(stream_end, limit);
    if (absl::IsNotFound(error) && request.job().has_name() && !std::exchange(completed, true)) {
      MUSTER_ASSIGN_OR_RETURN(const bool again, client->CompleteName(*request.mutable_job(),
                                                                     session.timeout(), &guard));
      if (again) continue;
    }
    if (!flags.follow) return error;
    if (SteadyNow() >= end || absl::IsDeadlineExceeded(error)) {
      return TimedOut(
          absl::StrCat("left the events after ", HumanDuration(limit), "; the jobs go on"));
    }
    MUSTER_RETURN_IF_ERROR(reconnect.OnDisconnected(error, stream_end.reached));
  }
}

}  // namespace

void AddEvents(CLI::App& app, Session& session, Verb& verb) {
  CLI::App* command =
      app.add_subcommand("events", "what happened, oldest first: of a job, or of all");
  const auto flags = std::make_shared<EventsFlags>();
  command->add_option("JOB", flags->job, "its id or name (default: all jobs)");
  command->add_flag("-f,--follow", flags->follow, "go on with what happens");
  command->add_option("--tail", flags->tail,
                      "look at the newest so many of what there is; 0: all (100; with --since, "
                      "--until or --filter all)");
  command->add_option("--since", flags->since, "since then: a time, or how long ago (24h)");
  command->add_option("--until", flags->until, "before: likewise");
  AddFilterFlag(*command, flags->list);
  command->callback([flags, &session, &verb] {
    verb = [flags, &session] { return RunEvents(*flags, session); };
  });
}

}  // namespace muster::cli
