// gRPC handlers of UploadService: uploads of people on their port, fetches of agents on theirs.
// What waits for the disk is done on one thread of its own, piece by piece, so that no call holds
// up another for longer than one piece takes. That thread also ends uploads that come too slowly,
// of which only a few may be under way at a time, and fetches that are not read.
#pragma once

#include <deque>
#include <functional>
#include <set>
#include <thread>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "controller/api/calls/caller_shares.h"
#include "controller/api/calls/service_call.h"
#include "controller/api/calls/upload_use.h"
#include "controller/uploads/upload_store.h"
#include "muster/v1/upload_service.grpc.pb.h"

namespace muster::controller {

// How long an upload or a fetch may take: from one piece to the next, and all of it. 64 MiB at 0.6
// Mbit/s take a quarter of an hour.
struct UploadPatience {
  absl::Duration piece = absl::Seconds(30);
  absl::Duration whole = absl::Minutes(15);
};

// The thread, and the store that only it writes to and reads from. Outlives the services' calls.
class UploadThread {
 public:
  // What is looked at now and then, on the thread.
  class Timed {
   public:
    virtual ~Timed() = default;
    virtual void CheckDeadline(absl::Duration now) = 0;  // since boot
  };

  // Fetches of one agent that are under way: by its certificate and its address.
  static constexpr size_t kMostFetches = 32;

  // Both references outlive the thread.
  UploadThread(UploadStore& store, Clock& clock, UploadPatience patience = {});
  // Requires that no call is under way.
  ~UploadThread();
  UploadThread(const UploadThread&) = delete;
  UploadThread& operator=(const UploadThread&) = delete;

  UploadStore& store() { return store_; }
  const UploadPatience& patience() const { return patience_; }
  CallerShares& shares() { return shares_; }  // of uploads that are under way
  CallerShares& fetch_shares() { return fetch_shares_; }
  absl::Duration Now() const { return clock_.SinceBoot(); }
  void Enqueue(std::function<void()> work) MUSTER_EXCLUDES(mutex_);
  // On the thread; until Forget.
  void Watch(Timed& timed) { timed_.insert(&timed); }
  void Forget(Timed& timed) { timed_.erase(&timed); }

 private:
  void Run() MUSTER_EXCLUDES(mutex_);
  void CheckDeadlines();

  UploadStore& store_;
  Clock& clock_;
  const UploadPatience patience_;
  CallerShares shares_{UploadStore::kMaxIncoming / 4};
  CallerShares fetch_shares_{kMostFetches};
  std::set<Timed*> timed_;  // of the thread, as is the next
  absl::Duration checked_at_;
  Mutex mutex_;
  CondVar wake_;
  bool stopping_ MUSTER_GUARDED_BY(mutex_) = false;
  std::deque<std::function<void()>> work_ MUSTER_GUARDED_BY(mutex_);
  std::thread thread_;  // last: it uses all of the above
};

class UploadService final : public v1::UploadService::CallbackService {
 public:
  enum class Side { kPeople, kAgents };
  // Both references outlive the service. Without `may_use` everybody may use what is there, without
  // `may_fetch` every agent may fetch it; the one is asked for people, on any thread, the other for
  // agents, on the upload thread.
  UploadService(UploadThread& upload_thread, CallGate& gate, Side side,
                MayUseUpload may_use = nullptr, MayFetchUpload may_fetch = nullptr)
      : upload_thread_(upload_thread),
        gate_(gate),
        side_(side),
        may_use_(std::move(may_use)),
        may_fetch_(std::move(may_fetch)) {}

  grpc::ServerUnaryReactor* Find(grpc::CallbackServerContext* context,
                                 const v1::FindUploadRequest* request,
                                 v1::FindUploadResponse* response) override;
  grpc::ServerReadReactor<v1::UploadRequest>* Upload(grpc::CallbackServerContext* context,
                                                     v1::UploadResponse* response) override;
  grpc::ServerWriteReactor<v1::FetchUploadResponse>* Fetch(
      grpc::CallbackServerContext* context, const v1::FetchUploadRequest* request) override;

 private:
  // Whether the caller may call `method` ("Find"), which is meant for `side`. Of agents nothing is
  // known as of a Caller.
  absl::StatusOr<Caller> Allow(grpc::CallbackServerContext& context, Side side,
                               absl::string_view method);

  UploadThread& upload_thread_;
  CallGate& gate_;
  const Side side_;
  const MayUseUpload may_use_;
  const MayFetchUpload may_fetch_;
};

}  // namespace muster::controller
