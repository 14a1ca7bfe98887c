// What every call has in common: who calls, what they may do and how often are checked first, the
// answer is counted, what it changed is recorded, the status is mapped.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/metrics/metric_families.h"
#include "common/rpc/status_map.h"
#include "common/rpc/token.h"
#include "controller/access/access_control.h"
#include "controller/access/method_roles.h"
#include "controller/api/calls/rate_limiter.h"
#include "controller/api/calls/stream_watch.h"
#include "controller/model/types/job_types.h"

namespace muster::controller {

// UNAVAILABLE: what a call hears that comes, or still runs, when the controller stops.
absl::Status Stopping();

// A person's call that CallGate has let in.
struct Caller {
  std::shared_ptr<const Principal> principal;
  const MethodRole* method = nullptr;
  std::string bucket;  // whose budget of calls it takes from; for Admit

  // Whose share of what is bounded it takes: a user's, whatever their tokens and addresses. The
  // token in the data folder is many people's, who are told apart by their address.
  const std::string& Share() const { return principal->is_builtin() ? bucket : principal->user; }
  // Whose name jobs and records get: one's own, whatever the request says. Who has the token in
  // the data folder speaks for whom they name.
  std::string NameOr(const std::string& said) const {
    return principal->is_builtin() ? said : principal->user;
  }
};

// Checks and counts calls. Thread-safe; outlives the services.
class CallGate {
 public:
  // `token`: what every call must show; nullopt: connections are of known clients alone, whose
  // certificates say who calls. `limit`: of each principal's calls; none unless given. `access`:
  // further tokens, and where changes and denials are recorded; it outlives the gate. Without it
  // who has the token may do everything, and nothing is recorded.
  CallGate(std::optional<std::string> token, MetricFamilies& families, Clock& clock,
           const RateLimit& limit = {}, const StreamPatience& patience = {},
           AccessControl* access = nullptr)
      : token_(std::move(token)),
        families_(families),
        clock_(clock),
        patience_(patience),
        access_(access),
        limiter_(limit) {}

  // Hears of the connection ("ipv4:10.0.0.1:40312") of each call that is let in, whose caller is
  // known then. Before the first call.
  void OnKnown(std::function<void(const std::string& peer)> on_known) {
    on_known_ = std::move(on_known);
  }

  // ---- people ----

  // What can be told of a person's call from its headers: UNAUTHENTICATED; PERMISSION_DENIED: the
  // caller has the role nowhere; UNIMPLEMENTED: the table of methods has no such one. Counted, and
  // recorded.
  absl::Status CheckPersonHeaders(absl::string_view path, absl::string_view authorization);
  // The same in the handler of `method` ("JobService/Submit"), which knows then who calls; or
  // RESOURCE_EXHAUSTED as in Check, or as the change that it would make cannot be recorded.
  absl::StatusOr<Caller> Enter(grpc::ServerContextBase& context, absl::string_view method)
      MUSTER_EXCLUDES(mutex_);
  // Once the request has named what it is about. PERMISSION_DENIED, which is recorded.
  absl::Status CheckProject(const Caller& caller, const std::string& project,
                            const std::string& object = "");
  // `missing`: what one hears who has no role in the job's project, as if the job were not there.
  absl::Status CheckJob(const Caller& caller, const Job& job, const absl::Status& missing);
  // For what only those may do who may do all there is.
  absl::Status CheckAdmin(const Caller& caller, const std::string& object);
  // Reading `job` on the way to something else; `missing`: the caller may not.
  absl::Status CheckReads(const Caller& caller, const Job& job, const absl::Status& missing);
  // The same caller later on, by what is true then, as Enter lets them in; is not recorded.
  absl::StatusOr<Caller> Again(const Caller& caller) const;
  // Likewise, with CheckProject. Empty project: it does not matter.
  absl::Status CheckAgain(const Caller& caller, const std::string& project) const;
  // Likewise, with CheckJob, of a job of that project and owner.
  absl::Status CheckJobAgain(const Caller& caller, const std::string& project,
                             const std::string& owner) const;
  // As of each time that it is asked; null: everything.
  MayRead ReadsOf(const Caller& caller) const;
  // `done` runs once what `caller` changed is on record.
  void RecordChange(const Caller& caller, const std::string& project, const std::string& object,
                    std::function<void()> done);
  // RESOURCE_EXHAUSTED: changes cannot be recorded now, so that none may be made.
  absl::Status CanRecord() const;
  // What became of a machine that wants to join, which shows no user's token. `done` runs once a
  // join is on record, and at once where it was refused.
  void RecordJoin(const std::string& object, const absl::Status& outcome,
                  std::function<void()> done);
  // An agent was refused: for its certificate, its name, or what it asks for. Nothing is recorded
  // unless the outcome is UNAUTHENTICATED or PERMISSION_DENIED.
  void RecordRefusedAgent(absl::string_view method, const std::string& object,
                          const absl::Status& outcome);
  // Of what the caller asks; without a record.
  AuditEntry EntryOf(const Caller& caller, const std::string& project,
                     const std::string& object) const;

  // ---- all ----

  // What can be told from a call's headers, before any handler hears of it: UNAUTHENTICATED as in
  // Check, and counted.
  absl::Status CheckHeaders(absl::string_view authorization);
  // UNAUTHENTICATED: no token, or another one. RESOURCE_EXHAUSTED: too many calls; the message and
  // the trailing metadata kRetryAfterKey say after how long the next one may come.
  absl::Status Check(grpc::ServerContextBase& context) MUSTER_EXCLUDES(mutex_);
  // One more request on a stream that Check has let in: RESOURCE_EXHAUSTED as there, without the
  // metadata.
  absl::Status Admit(const std::string& bucket) MUSTER_EXCLUDES(mutex_);
  absl::Duration Now() const { return clock_.SinceBoot(); }
  const StreamPatience& patience() const { return patience_; }

  void CountCall(const char* method, absl::StatusCode code, absl::Duration took);
  void StreamOpened(const char* method);
  void StreamClosed(const char* method, absl::StatusCode code);

 private:
  absl::Status CheckCaller(const grpc::ServerContextBase& context) const;
  absl::StatusOr<std::shared_ptr<const Principal>> Authenticate(
      absl::string_view authorization, std::shared_ptr<const Principal>* known) const;
  AuditEntry DenialOf(const Principal* caller, absl::string_view method, const std::string& project,
                      const std::string& object, const absl::Status& denied) const;
  void RecordDenial(const Principal* caller, absl::string_view method, const std::string& project,
                    const std::string& object, const absl::Status& denied);
  std::string BucketOf(const grpc::ServerContextBase& context) const;
  absl::Duration WaitOf(const std::string& bucket) MUSTER_EXCLUDES(mutex_);

  const std::optional<std::string> token_;
  MetricFamilies& families_;
  Clock& clock_;
  const StreamPatience patience_;
  AccessControl* const access_;
  std::function<void(const std::string& peer)> on_known_ = [](const std::string&) {};
  Mutex mutex_;
  RateLimiter limiter_ MUSTER_GUARDED_BY(mutex_);
};

// Trailing metadata of a call that came too soon: milliseconds.
inline constexpr char kRetryAfterKey[] = "retry-after-ms";

// The address without its port: "ipv4:10.0.0.1" of "ipv4:10.0.0.1:40312".
std::string HostOfPeer(const std::string& peer);

// Tells a caller of another protocol what to do. `side` is who called ("the client", "the agent").
absl::Status CheckProtocolVersion(uint32_t theirs, absl::string_view side);

// A unary call under way. Finish it exactly once, from any thread; it deletes itself.
class UnaryCall final : public grpc::ServerUnaryReactor {
 public:
  // `method` must be a literal.
  UnaryCall(CallGate& gate, const char* method)
      : gate_(gate), method_(method), began_(gate.Now()) {}

  // A person's, of this method ("JobService/Submit"): as CallGate::Enter.
  absl::Status Enter(grpc::ServerContextBase& context, absl::string_view method) {
    absl::StatusOr<Caller> caller = gate_.Enter(context, method);
    if (caller.ok()) caller_ = *std::move(caller);
    return caller.status();
  }
  // Requires that Enter was OK.
  const Caller& caller() const { return caller_; }
  // What the record says was changed, where the method changes something. Before Done.
  void Changes(std::string project, std::string object) {
    project_ = std::move(project);
    object_ = std::move(object);
  }
  // It did not, or its handler records it otherwise.
  void NeedsNoRecord() { caller_.method = nullptr; }

  void Done(const absl::Status& status) {
    gate_.CountCall(method_, status.code(), gate_.Now() - began_);
    if (status.ok() && caller_.method != nullptr && caller_.method->changes) {
      // What was answered is on record.
      gate_.RecordChange(caller_, project_, object_, [this] { Finish(grpc::Status::OK); });
      return;
    }
    Finish(ToGrpc(status));
  }

 private:
  void OnDone() override { delete this; }

  CallGate& gate_;
  const char* method_;
  const absl::Duration began_;
  Caller caller_;
  std::string project_;
  std::string object_;
};

}  // namespace muster::controller
