// Who tells an agent that its machine will be taken away: a cloud's metadata service, one class a
// cloud. Called from one thread (notice_watcher.h), which may wait for it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/object_store/http_client.h"

namespace muster::worker {

// What the cloud said.
struct MachineNotice {
  std::string id;       // tells it from another notice; may be empty
  std::string message;  // a sentence's end for people: "AWS will terminate this machine"
  absl::Duration left;  // from the answer until the machine may be gone; never negative
  // The cloud waits for a word that the machine is ready, and takes no other machine at it.
  bool awaits_approval = false;
};

class NoticeSource {
 public:
  virtual ~NoticeSource() = default;

  // Asks once. Nothing: no notice stands now. UNAVAILABLE, DEADLINE_EXCEEDED: no answer, or one
  // that the service failed; UNAUTHENTICATED: it refuses its own token; INVALID_ARGUMENT,
  // OUT_OF_RANGE: an answer that makes no sense, or is too long; FAILED_PRECONDITION: what answers
  // is no such service; CANCELLED: by the stop.
  virtual absl::StatusOr<std::optional<MachineNotice>> Ask() = 0;

  // Tells the cloud that the machine may go before its time. Errors as of Ask.
  virtual absl::Status Approve(const std::string& id) = 0;
};

// The names that --preemption-source takes.
inline constexpr char kNoSource[] = "none";
inline constexpr char kAwsSource[] = "aws";
inline constexpr char kGcpSource[] = "gcp";
inline constexpr char kAzureSource[] = "azure";

// Where all three clouds have their metadata service, inside each machine.
inline constexpr char kMetadataUrl[] = "http://169.254.169.254";

// Null for "none". INVALID_ARGUMENT for another name, or for a `url` that is none:
// http(s)://HOST[:PORT][/PATH], with no user, query or fragment in it, at most 512 bytes. `clock`
// and `stop`, which ends a question within about a second, outlive the source. `has_gpus`: the
// machine has.
absl::StatusOr<std::unique_ptr<NoticeSource>> MakeNoticeSource(const std::string& name,
                                                               const std::string& url,
                                                               bool has_gpus, Clock& clock,
                                                               const HttpStop& stop);
// What MakeNoticeSource checks.
absl::Status CheckNoticeSource(const std::string& name, const std::string& url);

}  // namespace muster::worker
