// Which assignments this incarnation has taken, and what it answered: one that comes again is
// answered again, never done again. No I/O.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace muster::worker {

class AssignmentLog {
 public:
  // Older ones are forgotten; by then the controller has their acknowledgement.
  static constexpr size_t kMaxRemembered = 10'000;

  // False when it was taken before.
  bool Take(uint64_t outbox_seq);
  // Of those that were taken; 0: none.
  uint64_t highest() const { return highest_; }
  // It is done, or refused (`refusal` says why).
  void Answer(uint64_t outbox_seq, std::string refusal);
  // Nothing while it is under way or unknown; else the refusal (empty: done).
  std::optional<std::string> AnswerOf(uint64_t outbox_seq) const;

 private:
  uint64_t highest_ = 0;
  std::map<uint64_t, std::optional<std::string>> answers_;
};

}  // namespace muster::worker
