#include "worker/agent/upload_fetcher.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/deadline.h"
#include "common/base/status_macros.h"
#include "common/rpc/status_map.h"
#include "common/rpc/token.h"
#include "common/upload/limits.h"

namespace muster::worker {
namespace {

// As long as the controller lets a transfer take: many agents may share its link.
constexpr absl::Duration kCallTimeout = absl::Minutes(15);
// Nothing is asked for again after so long.
constexpr absl::Duration kPatience = absl::Minutes(15);
constexpr absl::Duration kRetryPause = absl::Seconds(1);
constexpr int kTries = 60;

}  // namespace

UploadFetcher::UploadFetcher(const std::shared_ptr<grpc::Channel>& channel, std::string token)
    : stub_(v1::UploadService::NewStub(channel)), token_(std::move(token)) {}

absl::StatusOr<std::string> UploadFetcher::Fetch(const std::string& sha256) {
  const Deadline deadline(kPatience);
  for (int i = 1;; ++i) {
    absl::StatusOr<std::string> archive = FetchOnce(sha256);
    // CANCELLED, but not by Cancel: the controller stopped, or gave up on an agent that did not
    // read for a while.
    const bool may_pass =
        absl::IsUnavailable(archive.status()) || absl::IsCancelled(archive.status());
    MutexLock lock(mutex_);
    if (!may_pass || cancelled_ || i == kTries || deadline.over()) return archive;
    cancel_.WaitFor(mutex_, kRetryPause);
  }
}

absl::StatusOr<std::string> UploadFetcher::FetchOnce(const std::string& sha256) {
  grpc::ClientContext context;
  AddToken(context, token_);
  context.set_deadline(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(kCallTimeout));
  {
    MutexLock lock(mutex_);
    if (cancelled_) return absl::CancelledError("the agent stops");
    context_ = &context;
  }
  v1::FetchUploadRequest request;
  request.set_sha256(sha256);
  const auto stream = stub_->Fetch(&context, request);
  std::string archive;
  v1::FetchUploadResponse piece;
  bool is_too_large = false;
  while (!is_too_large && stream->Read(&piece)) {
    is_too_large = archive.size() + piece.data().size() > kMaxUploadBytes;
    if (!is_too_large) archive += piece.data();
  }
  if (is_too_large) context.TryCancel();
  const grpc::Status status = stream->Finish();
  {
    MutexLock lock(mutex_);
    context_ = nullptr;
  }
  if (is_too_large) {
    return absl::InvalidArgumentError(absl::StrCat("upload ", sha256, ": larger than it may be"));
  }
  if (!status.ok()) return FromGrpc(status);
  return archive;
}

void UploadFetcher::Cancel() {
  MutexLock lock(mutex_);
  cancelled_ = true;
  if (context_ != nullptr) context_->TryCancel();
  cancel_.NotifyAll();
}

}  // namespace muster::worker
