// Calls of the JobService with token, deadline and errors that tell the way out.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "cli/context.h"
#include "muster/v1/job_service.grpc.pb.h"

namespace muster::cli {

// A job as the user names it: digits are an id, 42_3 is task 3 of array 42, anything else is a
// name. INVALID_ARGUMENT for what can be neither.
absl::StatusOr<v1::JobRef> ParseJobRef(absl::string_view text);

// Connects at the first call. One thread.
class Client {
 public:
  explicit Client(Endpoint endpoint);

  const std::string& address() const { return endpoint_.address; }

  // Puts token and deadline on a call that the caller makes by stub(); an infinite timeout sets no
  // deadline.
  void Prepare(grpc::ClientContext& context, absl::Duration timeout) const;
  v1::JobService::Stub& stub() { return *stub_; }

  // The status of a call made with Prepare, as the user should see it. UNAVAILABLE: nobody answers,
  // or the controller said so itself. DEADLINE_EXCEEDED: no answer within `timeout`.
  absl::Status Explain(const grpc::Status& status, absl::Duration timeout) const;

  // One unary call: client.Call(&Stub::GetJob, request, timeout).
  template <typename Request, typename Response>
  absl::StatusOr<Response> Call(grpc::Status (v1::JobService::Stub::*method)(grpc::ClientContext*,
                                                                             const Request&,
                                                                             Response*),
                                const Request& request, absl::Duration timeout) {
    grpc::ClientContext context;
    Prepare(context, timeout);
    Response response;
    const grpc::Status status = (stub_.get()->*method)(&context, request, &response);
    if (!status.ok()) return Explain(status, timeout);
    return response;
  }

 private:
  const Endpoint endpoint_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::JobService::Stub> stub_;
};

}  // namespace muster::cli
