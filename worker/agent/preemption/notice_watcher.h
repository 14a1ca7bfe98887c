// A thread that asks a notice source about once a second, and tells the agent's loop what changes.
// Whatever the source does (it fails, hangs, talks nonsense), the agent is not held up.
//
// Metrics: whether the source answers, notices given, whether one stands.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/metrics/metric_families.h"
#include "common/object_store/http_client.h"
#include "worker/agent/base/backoff.h"
#include "worker/agent/base/mailbox.h"
#include "worker/agent/preemption/notice_rules.h"
#include "worker/agent/preemption/notice_source.h"

namespace muster::worker {

// What the loop is told.
struct NoticeWord {
  // kNone once only: the first question is answered, or has failed, and no notice was given.
  NoticeChange change = NoticeChange::kNone;
  MachineNotice notice;     // given, or sooner
  absl::Duration deadline;  // since boot: when the machine may be gone
};

struct NoticeWatcherOptions {
  std::string source = kNoSource;  // as --preemption-source
  std::string url;                 // empty: kMetadataUrl
  bool has_gpus = false;           // the machine has
  uint64_t seed = 0;               // differs between agents
  // From the beginning of one question to that of the next, where the source answers.
  absl::Duration period = absl::Seconds(1);
  // Between questions where it does not: doubles up to the cap.
  absl::Duration first_backoff = absl::Seconds(1);
  absl::Duration max_backoff = absl::Seconds(5);
};

class NoticeWatcher {
 public:
  using Handler = std::function<void(const NoticeWord&)>;

  // Null where the source is "none". INVALID_ARGUMENT as of MakeNoticeSource. `clock` and
  // `families` outlive it; `handler` runs on the loop of `mailbox`.
  static absl::StatusOr<std::unique_ptr<NoticeWatcher>> Create(const NoticeWatcherOptions& options,
                                                               Clock& clock,
                                                               MetricFamilies& families,
                                                               std::shared_ptr<Mailbox> mailbox,
                                                               Handler handler);
  // Ends a question that is under way within about a second.
  ~NoticeWatcher();
  NoticeWatcher(const NoticeWatcher&) = delete;
  NoticeWatcher& operator=(const NoticeWatcher&) = delete;

  // Asks from now on.
  void Start();
  // So that the destructor finds it done.
  void BeginStop() { stop_.Stop(); }
  // Tells the cloud, with the next question, that the machine may go before its time. One that
  // cannot be told is told again until the notice is withdrawn.
  void Approve(const std::string& id) MUSTER_EXCLUDES(mutex_);

 private:
  NoticeWatcher(const NoticeWatcherOptions& options, Clock& clock, MetricFamilies& families,
                std::shared_ptr<Mailbox> mailbox, Handler handler);
  void Run();
  void TakeAnswer(const std::optional<MachineNotice>& answer, absl::Duration now);
  void TakeFailure(const absl::Status& why);
  void Say(NoticeWord word);
  void GiveApproval() MUSTER_EXCLUDES(mutex_);

  const NoticeWatcherOptions options_;
  Clock& clock_;
  MetricFamilies& families_;
  const std::shared_ptr<Mailbox> mailbox_;
  const Handler handler_;
  HttpStop stop_;
  std::unique_ptr<NoticeSource> source_;
  // The thread's own.
  NoticeRules rules_;
  Backoff backoff_;
  bool has_said_ = false;
  std::optional<bool> answers_;  // as logged last

  Mutex mutex_;
  std::string to_approve_ MUSTER_GUARDED_BY(mutex_);  // empty: nothing
  std::thread thread_;                                // last: it uses all of the above
};

}  // namespace muster::worker
