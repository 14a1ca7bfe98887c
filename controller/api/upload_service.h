// gRPC handlers of UploadService: uploads of people on their port, fetches of agents on theirs.
// What waits for the disk is done on one thread of its own, piece by piece, so that no call holds
// up another for longer than one piece takes.
#pragma once

#include <deque>
#include <functional>
#include <thread>

#include "common/base/mutex.h"
#include "controller/api/call.h"
#include "controller/uploads/upload_store.h"
#include "muster/v1/upload_service.grpc.pb.h"

namespace muster::controller {

// The thread, and the store that only it writes to and reads from. Outlives the services' calls.
class UploadDesk {
 public:
  explicit UploadDesk(UploadStore& store);
  // Requires that no call is under way.
  ~UploadDesk();
  UploadDesk(const UploadDesk&) = delete;
  UploadDesk& operator=(const UploadDesk&) = delete;

  UploadStore& store() { return store_; }
  void Enqueue(std::function<void()> work) MUSTER_EXCLUDES(mutex_);

 private:
  void Run() MUSTER_EXCLUDES(mutex_);

  UploadStore& store_;
  Mutex mutex_;
  CondVar wake_;
  bool stopping_ MUSTER_GUARDED_BY(mutex_) = false;
  std::deque<std::function<void()>> work_ MUSTER_GUARDED_BY(mutex_);
  std::thread thread_;  // last: it uses all of the above
};

class UploadService final : public v1::UploadService::CallbackService {
 public:
  enum class Side { kPeople, kAgents };
  // Both references outlive the service.
  UploadService(UploadDesk& desk, CallGate& gate, Side side)
      : desk_(desk), gate_(gate), side_(side) {}

  grpc::ServerUnaryReactor* Find(grpc::CallbackServerContext* context,
                                 const v1::FindUploadRequest* request,
                                 v1::FindUploadResponse* response) override;
  grpc::ServerReadReactor<v1::UploadRequest>* Upload(grpc::CallbackServerContext* context,
                                                     v1::UploadResponse* response) override;
  grpc::ServerWriteReactor<v1::FetchUploadResponse>* Fetch(
      grpc::CallbackServerContext* context, const v1::FetchUploadRequest* request) override;

 private:
  // Whether the caller may call what is meant for `side`.
  absl::Status Allow(grpc::CallbackServerContext& context, Side side);

  UploadDesk& desk_;
  CallGate& gate_;
  const Side side_;
};

}  // namespace muster::controller
