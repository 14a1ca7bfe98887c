// Calls by gRPC's stubs. Each has a channel and a connection of its own, so that a call which
// begins after the controller came back finds it at once: a channel that had lost it would wait
// before it connects again.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/sync_stream.h>

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "cli/session/context.h"
#include "cli/session/host.h"
#include "cli/session/interrupt.h"
#include "muster/v1/access_service.grpc.pb.h"
#include "muster/v1/admin_service.grpc.pb.h"
#include "muster/v1/exec_service.grpc.pb.h"
#include "muster/v1/job_service.grpc.pb.h"
#include "muster/v1/upload_service.grpc.pb.h"

namespace muster::cli {

using Admin = v1::AdminService::Stub;
using Jobs = v1::JobService::Stub;
using Uploads = v1::UploadService::Stub;
using Access = v1::AccessService::Stub;

// Methods of the stubs: &Jobs::GetJob, &Jobs::WatchJob.
template <typename Stub, typename Request, typename Response>
using UnaryMethod = grpc::Status (Stub::*)(grpc::ClientContext*, const Request&, Response*);
template <typename Request, typename Response>
using ReadMethod = std::unique_ptr<grpc::ClientReader<Response>> (Jobs::*)(grpc::ClientContext*,
                                                                           const Request&);

// How a call ended.
struct CallEnd {
  absl::Status status;
  // How long the call lasted, if it reached the controller; zero: it did not.
  absl::Duration reached = absl::ZeroDuration();

  bool ok() const { return status.ok(); }
};

// What a stub needs for a call that is about to begin: a channel, and a context with token and
// deadline. An infinite timeout sets no deadline.
class StubCall {
 public:
  // Where there is a guard an interrupt cancels the call, until this is destroyed.
  StubCall(const Endpoint& endpoint, absl::Duration timeout, InterruptGuard* guard = nullptr);
  ~StubCall();
  StubCall(const StubCall&) = delete;
  StubCall& operator=(const StubCall&) = delete;

  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }
  grpc::ClientContext& context() { return context_; }

  // Requires that the call has ended, with this status.
  CallEnd End(const grpc::Status& status) const;

 private:
  const std::shared_ptr<grpc::Channel> channel_;
  grpc::ClientContext context_;
  InterruptGuard* const guard_;
  const absl::Duration began_ = SteadyNow();
};

// A call with one request and many responses.
template <typename Response>
class ReadCall {
 public:
  template <typename Request>
  ReadCall(ReadMethod<Request, Response> method, const Request& request, const Endpoint& endpoint,
           absl::Duration timeout, InterruptGuard& guard)
      : call_(endpoint, timeout, &guard),
        reader_((Jobs(call_.channel()).*method)(&call_.context(), request)) {}

  // Waits for the next message. False: there is none, and Finish tells why.
  bool Read(Response& response) { return reader_->Read(&response); }
  // Requires Cancel, or that Read returned false.
  CallEnd Finish() { return call_.End(reader_->Finish()); }
  void Cancel() { call_.context().TryCancel(); }

 private:
  StubCall call_;
  const std::unique_ptr<grpc::ClientReader<Response>> reader_;
};

}  // namespace muster::cli
