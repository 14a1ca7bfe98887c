// Fetches archives of uploaded folders from the controller. Blocking; any threads.
#pragma once

#include <grpcpp/channel.h>

#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "muster/v1/upload_service.grpc.pb.h"

namespace muster::worker {

class UploadFetcher {
 public:
  UploadFetcher(const std::shared_ptr<grpc::Channel>& channel, std::string token);

  // Asks again while the controller is away or gives up: 60 times at most, and not once 15 minutes
  // are over. One transfer may take 15 minutes, so that all may take half an hour. Calls `on_piece`
  // whenever a piece has come; `stop` ends it at once.
  // NOT_FOUND: it is not there. INVALID_ARGUMENT: it is larger than an upload may be.
  // DEADLINE_EXCEEDED: a transfer took longer, and would again. UNAVAILABLE, CANCELLED: it did not
  // come in all that time, or was stopped.
  absl::StatusOr<std::string> Fetch(const std::string& sha256, const std::stop_token& stop,
                                    const std::function<void()>& on_piece);

 private:
  absl::StatusOr<std::string> FetchOnce(const std::string& sha256, const std::stop_token& stop,
                                        const std::function<void()>& on_piece);

  const std::unique_ptr<v1::UploadService::Stub> stub_;
  const std::string token_;
};

}  // namespace muster::worker
