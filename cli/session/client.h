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
  // answers, or the controller said so itself. DEADLINE_EXCEEDED: no answer within `timeout`.
  absl::Status Explain(const CallEnd& end, absl::Duration timeout) const;

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
    if (!end.ok()) return Explain(end, timeout);
    return response;
  }

  // The same for a call that changes something: it is made once. `reached`, where given, becomes
  // whether it reached the controller.
  template <typename Stub, typename Request, typename Response>
  absl::StatusOr<Response> CallOnce(UnaryMethod<Stub, Request, Response> method,
                                    const Request& request, absl::Duration timeout,
                                    InterruptGuard* guard = nullptr,
                                    bool* reached = nullptr) const {
    Response response;
    const CallEnd end = Attempt(method, request, response, timeout, guard);
    if (reached != nullptr) *reached = end.reached > absl::ZeroDuration();
    if (!end.ok()) return Explain(end, timeout);
    return response;
  }

 private:
  template <typename Stub, typename Request, typename Response>
  CallEnd Attempt(UnaryMethod<Stub, Request, Response> method, const Request& request,
                  Response& response, absl::Duration timeout, InterruptGuard* guard) const {
    StubCall call(endpoint_, timeout, guard);
    return call.End((Stub(call.channel()).*method)(&call.context(), request, &response));
  }

  const Endpoint endpoint_;
};

}  // namespace muster::cli
