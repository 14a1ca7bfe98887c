// Calls of the JobService with token, deadline and errors that tell the way out.
#pragma once

#include <google/protobuf/message_lite.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "cli/context.h"
#include "cli/interrupt.h"
#include "cli/methods.h"
#include "common/call/call.h"
#include "muster/v1/job_service.pb.h"

namespace muster::cli {

// A job as the user names it: digits are an id, 42_3 is task 3 of array 42, anything else is a
// name. INVALID_ARGUMENT for what can be neither.
absl::StatusOr<v1::JobRef> ParseJobRef(absl::string_view text);

// Any thread; each call has a connection of its own.
class Client {
 public:
  explicit Client(Endpoint endpoint);

  const std::string& address() const { return endpoint_.address; }

  // Address, token and deadline of a call that the caller makes itself; an infinite timeout sets no
  // deadline.
  CallOptions Options(absl::Duration timeout) const;

  // The end of such a call as the user should see it. UNAVAILABLE: nobody answers, or the
  // controller said so itself. DEADLINE_EXCEEDED: no answer within `timeout`.
  absl::Status Explain(const CallEnd& end, absl::Duration timeout) const;

  // One unary call: client.Call(rpc::kGetJob, request, timeout). CANCELLED: an interrupt ended it;
  // only where there is a guard.
  template <typename Request, typename Response>
  absl::StatusOr<Response> Call(Method<Request, Response> method, const Request& request,
                                absl::Duration timeout, InterruptGuard* guard = nullptr) const {
    Response response;
    const CallEnd end = guard == nullptr
                            ? CallOnce(method, request, response, Options(timeout))
                            : CallUnder(*guard, method.path, request, response, timeout);
    if (!end.ok()) return Explain(end, timeout);
    return response;
  }

 private:
  CallEnd CallUnder(InterruptGuard& guard, const char* path,
                    const google::protobuf::MessageLite& request,
                    google::protobuf::MessageLite& response, absl::Duration timeout) const;

  const Endpoint endpoint_;
};

}  // namespace muster::cli
