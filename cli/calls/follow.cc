#include "cli/calls/follow.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/output/views/views.h"
#include "cli/output/views/watch_view.h"
#include "common/base/status_macros.h"
#include "common/base/units.h"

namespace muster::cli {
namespace {

constexpr absl::Duration kReconnectPause = absl::Milliseconds(300);

std::string JobText(const v1::JobRef& job) {
  return job.has_id() ? absl::StrCat("job ", job.id()) : absl::StrCat("job ", job.name());
}

std::string GoesOn(const v1::JobRef& job) {
  const std::string name = job.has_id() ? absl::StrCat(job.id()) : job.name();
  return absl::StrCat("see it again with `muster watch ", name, "`, end it with `muster cancel ",
                      name, "`");
}

}  // namespace

void Reconnect::OnConnected() {
  if (lost_at_.has_value()) session_.Say("the controller is back");
  ever_connected_ = true;
  lost_at_.reset();
}

absl::Status Reconnect::OnDisconnected(const absl::Status& status, absl::Duration connected) {
  // The controller ended it, though not the job: it is stopping, or it gives up a client that has
  // not read for minutes, because its output stood still, and cancels the call.
  const bool ended = status.ok() || (absl::IsCancelled(status) && !guard_.interrupted());
  if (!ever_connected_ || !(ended || absl::IsUnavailable(status))) {
    return ended ? absl::InternalError("the controller ended the stream early") : status;
  }
  const absl::Duration now = SteadyNow();
  if (connected >= limits_.connected_after) lost_at_.reset();
  if (!lost_at_.has_value()) {
    session_.Say("lost the controller; waiting for it to come back");
    lost_at_ = now;
  }
  if (now - *lost_at_ > limits_.patience) {
    return ended ? absl::UnavailableError("the controller keeps ending the stream") : status;
  }
  guard_.Pause(kReconnectPause);
  return absl::OkStatus();
}

absl::StatusOr<v1::JobSummary> FollowJob(
    Session& session, InterruptGuard& guard, const v1::JobRef& job,
    const std::function<void(const v1::JobSummary&)>& on_update, absl::Duration began) {
  MUSTER_ASSIGN_OR_RETURN(Client * client, session.Connect());
  const absl::Duration limit = session.timeout(absl::InfiniteDuration());
  const absl::Duration end = began + limit;
  v1::WatchJobRequest request;
  *request.mutable_job() = job;
  v1::JobSummary last;
  Reconnect reconnect(session, guard);
  bool completed = false;
  while (true) {
    const absl::Duration left = end - SteadyNow();
    ReadCall stream(&Jobs::WatchJob, request, client->endpoint(), left, guard);
    v1::WatchJobResponse response;
    while (stream.Read(response)) {
      reconnect.OnConnected();
      last = response.summary();
      // By id from now on: a newer job of the same name must not take its place after a reconnect.
      request.mutable_job()->set_id(last.id());
      on_update(last);
    }
    const CallEnd stream_end = stream.Finish();
    if (IsTerminal(last.state())) return last;
    if (guard.interrupted()) {
      return WithHint(Interrupted(absl::StrCat("interrupted; ", JobText(job), " goes on")),
                      GoesOn(job));
    }
    // The controller has the same deadline by a clock of its own, and may be the first to say so.
    if (SteadyNow() >= end || absl::IsDeadlineExceeded(stream_end.status)) {
      return WithHint(TimedOut(absl::StrCat(JobText(job), " has not ended within ",
                                            HumanDuration(limit), "; it goes on")),
                      GoesOn(job));
    }
    const absl::Status error =
        stream_end.ok() ? absl::OkStatus() : client->Explain(stream_end, limit);
    if (absl::IsNotFound(error) && request.job().has_name() && !std::exchange(completed, true)) {
      MUSTER_ASSIGN_OR_RETURN(const bool again, client->CompleteName(*request.mutable_job(),
                                                                     session.timeout(), &guard));
      if (again) continue;
    }
    MUSTER_RETURN_IF_ERROR(reconnect.OnDisconnected(error, stream_end.reached));
  }
}

}  // namespace muster::cli
