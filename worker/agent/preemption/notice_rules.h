// What a row of a source's answers amounts to: a notice that is given, one whose end comes sooner
// than was said, one that is withdrawn. Pure.
#pragma once

#include <optional>

#include "absl/time/time.h"
#include "worker/agent/preemption/notice_source.h"

namespace muster::worker {

// A notice is withdrawn when the source has said for so long that there is none. Each time doubles
// it, up to the cap: a source that says now this and now that keeps the machine free of work.
inline constexpr absl::Duration kWithdrawnAfter = absl::Seconds(10);
inline constexpr absl::Duration kMaxWithdrawnAfter = absl::Minutes(10);
// An end that is sooner by less is the same one: the answers' times have whole seconds.
inline constexpr absl::Duration kSameEnd = absl::Seconds(2);

enum class NoticeChange { kNone, kGiven, kSooner, kWithdrawn };

class NoticeRules {
 public:
  // `now` and deadline() are times since boot.
  NoticeChange OnAnswer(const std::optional<MachineNotice>& answer, absl::Duration now);
  // No answer, or one that makes no sense: that says nothing either way.
  void OnFailure() { none_since_.reset(); }

  bool stands() const { return stands_; }
  // When the machine may be gone, while a notice stands.
  absl::Duration deadline() const { return deadline_; }

 private:
  bool stands_ = false;
  absl::Duration deadline_;
  std::optional<absl::Duration> none_since_;  // while one stands: the first answer that said none
  absl::Duration withdrawn_after_ = kWithdrawnAfter;
};

}  // namespace muster::worker
