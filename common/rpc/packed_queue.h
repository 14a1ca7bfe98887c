// The messages that wait to be written on a stream. What waits at once travels in one message, and
// is handled at once by the other side, so that its reports share a commit there. For messages with
// a field `more`: those that follow, none of which has any `more` of its own. All others travel
// alone.
#pragma once

#include <cstddef>
#include <deque>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace muster {

inline constexpr int kMostPacked = 64;  // in `more`
// Of all that travel in one message; a larger one travels alone.
inline constexpr size_t kMostPackedBytes = 256u << 10;

template <typename Message>
concept Packable = requires(Message message) {
  message.add_more();
};

// Not thread-safe, and without a bound of its own: its owner looks at size() and bytes().
template <typename Message>
class PackedQueue {
 public:
  // `message` has no `more`.
  void Push(Message message) {
    const size_t bytes = message.ByteSizeLong();
    bytes_ += bytes;
    waiting_.push_back({std::move(message), bytes});
  }

  // The oldest one, with as many behind it as fit. Requires that one waits.
  Message Take() {
    size_t taken = waiting_.front().bytes;
    Message first = TakeOne();
    if constexpr (Packable<Message>) {
      while (!waiting_.empty() && first.more_size() < kMostPacked) {
        taken += waiting_.front().bytes;
        if (taken > kMostPackedBytes) break;
        *first.add_more() = TakeOne();
      }
    }
    return first;
  }

  // Requires that one waits.
  const Message& newest() const { return waiting_.back().message; }
  void DropNewest() {
    bytes_ -= waiting_.back().bytes;
    waiting_.pop_back();
  }

  bool empty() const { return waiting_.empty(); }
  size_t size() const { return waiting_.size(); }
  size_t bytes() const { return bytes_; }

 private:
  struct Waiting {
    Message message;
    size_t bytes;
  };

  Message TakeOne() {
    Message message = std::move(waiting_.front().message);
    bytes_ -= waiting_.front().bytes;
    waiting_.pop_front();
    return message;
  }

  std::deque<Waiting> waiting_;
  size_t bytes_ = 0;
};

// What came from outside: INVALID_ARGUMENT for more of `more` than Take packs.
template <typename Message>
absl::Status CheckPacked(const Message& message) {
  if constexpr (Packable<Message>) {
    if (message.more_size() > kMostPacked) {
      return absl::InvalidArgumentError(
          absl::StrCat("more: at most ", kMostPacked, " messages; got ", message.more_size()));
    }
    for (const Message& next : message.more()) {
      if (next.more_size() > 0) {
        return absl::InvalidArgumentError("more: a message in it has more of its own");
      }
    }
  }
  return absl::OkStatus();
}

// Calls `handle` with the message and with each one behind it, in their order, while it says true.
template <typename Message, typename Handle>
void ForEachPacked(const Message& message, Handle&& handle) {
  if (!handle(message)) return;
  if constexpr (Packable<Message>) {
    for (const Message& next : message.more()) {
      if (!handle(next)) return;
    }
  }
}

}  // namespace muster
