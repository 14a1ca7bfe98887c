// Fetches archives of uploaded folders from the controller. Blocking; one thread, but Cancel from
// any.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <atomic>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "muster/v1/upload_service.grpc.pb.h"

namespace muster::worker {

class UploadFetcher {
 public:
  UploadFetcher(const std::shared_ptr<grpc::Channel>& channel, std::string token);

  // Asks again while the controller is away or gives up: 60 times, and for 15 minutes at most; one
  // transfer may take 15 minutes. NOT_FOUND: it is not there. INVALID_ARGUMENT: it is larger than
  // an upload may be. UNAVAILABLE, CANCELLED: it did not come in all that time, or Cancel was called.
  absl::StatusOr<std::string> Fetch(const std::string& sha256) MUSTER_EXCLUDES(mutex_);

  // Ends what is under way and all to come.
  void Cancel() MUSTER_EXCLUDES(mutex_);

 private:
  absl::StatusOr<std::string> FetchOnce(const std::string& sha256) MUSTER_EXCLUDES(mutex_);

  const std::unique_ptr<v1::UploadService::Stub> stub_;
  const std::string token_;
  Mutex mutex_;
  CondVar cancel_;
  bool cancelled_ MUSTER_GUARDED_BY(mutex_) = false;
  grpc::ClientContext* context_ MUSTER_GUARDED_BY(mutex_) = nullptr;  // of the call under way
};

}  // namespace muster::worker
