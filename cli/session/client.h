// Calls of the JobService with token, deadline and errors that tell the way out.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "cli/session/context.h"
#include "cli/session/host.h"
#include "cli/session/interrupt.h"
#include "cli/session/stub_call.h"
#include "common/base/status_macros.h"
#include "muster/v1/job_service.pb.h"

namespace muster::cli {

// A job as the user names it: digits are an id, 42_3 is task 3 of array 42, anything else is a
// name. INVALID_ARGUMENT for what can be neither.
absl::StatusOr<v1::JobRef> ParseJobRef(absl::string_view text);

// Any thread.
class Client {
 public:
  explicit Client(Endpoint endpoint);

  const Endpoint& endpoint() const { return endpoint_; }

  // The end of a call that the caller made itself, as the user should see it. UNAVAILABLE: nobody
  // answers, or who does cannot show that it is the controller, or the controller said so itself.
  // DEADLINE_EXCEEDED: no answer within `timeout`.
  absl::Status Explain(const CallEnd& end, absl::Duration timeout) const;

  // Calls that name a job (`job` of the request) take the beginning of a name for the name, where
  // one alone of the newest jobs' names begins so, and no job is called so itself. NOT_FOUND lists
  // the names that begin so where there are several.

  // One unary call that only reads: client.Call(&Jobs::GetJob, request, timeout). It is made a
  // second time, within the same timeout, when the controller was there and became UNAVAILABLE: it
  // may be on its way down, and another up. CANCELLED: an interrupt ended it; only where there is a
  // guard.
  template <typename Stub, typename Request, typename Response>
  absl::StatusOr<Response> Call(UnaryMethod<Stub, Request, Response> method, const Request& request,
                                absl::Duration timeout, InterruptGuard* guard = nullptr) const {
    const absl::Duration deadline = SteadyNow() + timeout;
    Response response;
    CallEnd end = Attempt(method, request, response, timeout, guard);
    if (absl::IsUnavailable(end.status) && end.reached > absl::ZeroDuration()) {
      const CallEnd second = Attempt(method, request, response, deadline - SteadyNow(), guard);
      // Whoever was there a moment ago is not reported as absent.
      if (second.reached > absl::ZeroDuration()) end = second;
    }
    if (NamesNoJob(request, end)) {
      Request named = request;
      MUSTER_ASSIGN_OR_RETURN(const bool completed,
                              CompleteName(named, deadline - SteadyNow(), guard));
      if (completed) end = Attempt(method, named, response, deadline - SteadyNow(), guard);
    }
    if (!end.ok()) return Explain(end, timeout);
    return response;
  }

  // The same for a call that changes something: it is made once, and a job is named in full.
  // `reached`, where given, becomes
  // whether it reached the controller.
  template <typename Stub, typename Request, typename Response>
  absl::StatusOr<Response> CallOnce(UnaryMethod<Stub, Request, Response> method,
                                    const Request& request, absl::Duration timeout,
                                    InterruptGuard* guard = nullptr,
                                    bool* reached = nullptr) const {
    const absl::Duration deadline = SteadyNow() + timeout;
    Response response;
    CallEnd end = Attempt(method, request, response, timeout, guard);
    if (reached != nullptr) *reached = end.reached > absl::ZeroDuration();
    if (NamesNoJob(request, end)) {  // so that nothing was changed
      MUSTER_RETURN_IF_ERROR(SuggestName(request, deadline - SteadyNow(), guard));
    }
    if (!end.ok()) return Explain(end, timeout);
    return response;
  }

  // The same for the reference of a stream that ended with NOT_FOUND, and is to be opened once
  // more. Whether it is another now: false where no name begins so. NOT_FOUND: several do, or one
  // is like it.
  absl::StatusOr<bool> CompleteName(v1::JobRef& job, absl::Duration timeout,
                                    InterruptGuard* guard = nullptr) const;

 private:
  absl::Status Refused(const absl::Status& error) const;
  static absl::Status NoSuchName(const std::string& name, const std::string& nearest);
  template <typename Request>
  static bool NamesNoJob(const Request& request, const CallEnd& end) {
    if constexpr (requires { request.job().has_name(); }) {
      return absl::IsNotFound(end.status) && request.job().has_name();
    }
    return false;
  }
  template <typename Request>
  absl::StatusOr<bool> CompleteName(Request& request, absl::Duration timeout,
                                    InterruptGuard* guard) const {
    if constexpr (requires { request.mutable_job()->set_name(""); }) {
      return CompleteName(*request.mutable_job(), timeout, guard);
    }
    return false;
  }

  // NOT_FOUND with the job whose name begins as the one that the request names; OK: none is known.
  template <typename Request>
  absl::Status SuggestName(const Request& request, absl::Duration timeout,
                           InterruptGuard* guard) const {
    Request named = request;
    MUSTER_ASSIGN_OR_RETURN(const bool completed, CompleteName(named, timeout, guard));
    if constexpr (requires { request.job().name(); }) {
      if (completed) return NoSuchName(request.job().name(), named.job().name());
    }
    return absl::OkStatus();
  }

  template <typename Stub, typename Request, typename Response>
  CallEnd Attempt(UnaryMethod<Stub, Request, Response> method, const Request& request,
                  Response& response, absl::Duration timeout, InterruptGuard* guard) const {
    StubCall call(endpoint_, timeout, guard);
    return call.End((Stub(call.channel()).*method)(&call.context(), request, &response));
  }

  const Endpoint endpoint_;
};

}  // namespace muster::cli
