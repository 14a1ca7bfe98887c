// `muster events`: what happened to jobs, when, why, and by whom.
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "cli/calls/follow.h"
#include "cli/commands/commands.h"
#include "cli/output/text.h"
#include "common/base/status_macros.h"
#include "common/base/units.h"

namespace muster::cli {
namespace {

struct EventsFlags {
  std::string job;
  uint32_t tail = 100;
  bool follow = false;
};

std::string EventLine(const v1::JobEvent& event) {
  const std::string state = v1::JobState_Name(event.to());
  const std::string reason =
      event.reason() == v1::REASON_UNSPECIFIED ? "" : v1::Reason_Name(event.reason());
  return absl::StrCat(TimeText(event.time_ms()), "  job ", event.job_id(), "  ", state, "  ",
                      reason, "  ", Plain(event.actor()), "  ", Plain(event.message()), "\n");
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
  request.set_tail(flags.tail);
  request.set_follow(flags.follow);
  MUSTER_ASSIGN_OR_RETURN(Client * client, session.Connect());
  InterruptGuard guard;
  Reconnect reconnect(session, guard);
  const absl::Duration limit =
      session.timeout(flags.follow ? absl::InfiniteDuration() : kCallTimeout);
  const absl::Duration end = SteadyNow() + limit;
  while (true) {
    ReadCall stream(&Jobs::StreamEvents, request, client->endpoint(), end - SteadyNow(), guard);
    v1::StreamEventsResponse response;
    while (session.host().out && stream.Read(response)) {
      reconnect.OnConnected();
      for (const v1::JobEvent& event : response.events()) PrintEvent(event, session);
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
  command->add_option("--tail", flags->tail, "of what there is the newest so many; 0: all")
      ->capture_default_str();
  command->callback([flags, &session, &verb] {
    verb = [flags, &session] { return RunEvents(*flags, session); };
  });
}

}  // namespace muster::cli
