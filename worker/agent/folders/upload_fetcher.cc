#include "worker/agent/folders/upload_fetcher.h"

#include <grpcpp/client_context.h>

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/deadline.h"
#include "common/base/mutex.h"
#include "common/rpc/status_map.h"
#include "common/rpc/token.h"
#include "common/upload/limits.h"

namespace muster::worker {
namespace {

// Of one transfer: 64 MiB at 0.6 Mbit/s. Many agents may share the controller's link. It ends a
// transfer itself where a piece is not read for half a minute.
constexpr absl::Duration kCallTimeout = absl::Minutes(15);
// Nothing is asked for again after so long.
constexpr absl::Duration kPatience = absl::Minutes(15);
constexpr absl::Duration kRetryPause = absl::Seconds(1);
constexpr int kTries = 60;

}  // namespace

UploadFetcher::UploadFetcher(const std::shared_ptr<grpc::Channel>& channel, std::string token)
    : stub_(v1::UploadService::NewStub(channel)), token_(std::move(token)) {}

absl::StatusOr<std::string> UploadFetcher::Fetch(const std::string& sha256,
                                                 const std::stop_token& stop,
                                                 const std::function<void()>& on_piece) {
  Mutex mutex;
  CondVar stopped;
  const std::stop_callback wake(stop, [&] {
    MutexLock lock(mutex);
    stopped.NotifyAll();
  });
  const Deadline deadline(kPatience);
  for (int i = 1;; ++i) {
    absl::StatusOr<std::string> archive = FetchOnce(sha256, stop, on_piece);
    // CANCELLED, but not by `stop`: the controller stopped, or gave up on an agent that did not
    // read for a while.
    // RESOURCE_EXHAUSTED: too many calls, or fetches, of this agent's.
    const absl::Status& status = archive.status();
    const bool may_pass = absl::IsUnavailable(status) || absl::IsCancelled(status) ||
                          absl::IsResourceExhausted(status);
    MutexLock lock(mutex);
    if (!may_pass || stop.stop_requested() || i == kTries || deadline.over()) return archive;
    stopped.WaitFor(mutex, kRetryPause);
  }
}

absl::StatusOr<std::string> UploadFetcher::FetchOnce(const std::string& sha256,
                                                     const std::stop_token& stop,
                                                     const std::function<void()>& on_piece) {
  grpc::ClientContext context;
  AddToken(context, token_);
  context.set_deadline(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(kCallTimeout));
  const std::stop_callback cancel(stop, [&context] { context.TryCancel(); });
  v1::FetchUploadRequest request;
  request.set_sha256(sha256);
  const auto stream = stub_->Fetch(&context, request);
  std::string archive;
  v1::FetchUploadResponse piece;
  bool is_too_large = false;
  while (!is_too_large && stream->Read(&piece)) {
    on_piece();
    is_too_large = archive.size() + piece.data().size() > kMaxUploadBytes;
    if (!is_too_large) archive += piece.data();
  }
  if (is_too_large) context.TryCancel();
  const grpc::Status status = stream->Finish();
  if (is_too_large) {
    return absl::InvalidArgumentError(absl::StrCat("upload ", sha256, ": larger than it may be"));
  }
  if (!status.ok()) return FromGrpc(status);
  return archive;
}

}  // namespace muster::worker
