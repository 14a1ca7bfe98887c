// What CowTable and CowMap share: parts that copies of a container have in common, and the rule by
// which one of them may change a part in place.
//
// It may when both are true. It made the part itself since it was last copied or assigned, so that
// nobody can have it but copies of this very object. And nobody shares it now: a copy that was
// taken meanwhile keeps what it had. The count alone would not do: when a reader on another thread
// lets go of the last other reference, seeing the count fall does not order its reads before our
// write. What such readers have are published snapshots, which are copied and never changed. What
// remains for the caller: a copy of a container that is going to change still belongs to the thread
// that changes it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace muster::controller {

template <typename T>
struct CowPart {
  T value = {};
  uint64_t maker = 0;  // the writer that made it; constant for all others
};

// A member of each container: it stands for that object, and for no copy of it.
class CowWriter {
 public:
  CowWriter() = default;
  CowWriter(const CowWriter&) {}
  CowWriter& operator=(const CowWriter&) {
    id_ = NewId();
    return *this;
  }

  // The part to write to: the one given, or a copy in its place, or a new one for null.
  template <typename T>
  T& Own(std::shared_ptr<CowPart<T>>& part) const {
    if (part == nullptr) {
      part = std::make_shared<CowPart<T>>();
    } else if (part->maker != id_ || part.use_count() != 1) {
      part = std::make_shared<CowPart<T>>(*part);
    }
    part->maker = id_;
    return part->value;
  }

 private:
  static uint64_t NewId() {
    static std::atomic<uint64_t> last = 0;
    return ++last;
  }

  uint64_t id_ = NewId();
};

}  // namespace muster::controller
