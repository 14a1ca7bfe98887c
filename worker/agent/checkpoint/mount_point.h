// On which mount a path lies, by its name alone: the path is not touched, since it may hang. Links
// are not followed, so that what lies behind one counts as of the mount on which the link is.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/clock.h"

namespace muster::worker {

// The mounts of this process, as /proc tells them; "": it does not. No mount is touched.
std::string ReadMountInfo();

// The mount of such a text in which the absolute path lies, as "<id> <mount point>"; "": none. A
// new mount at the same place has another id while the old mount is still held, as a hung thread
// holds it. Pure.
std::string MountOf(absl::string_view path, absl::string_view mount_info);

// The mounts of this process, for questions on the agent's loop: they are read again when what is
// known of them is older than `every`.
class MountTable {
 public:
  // The clock outlives it.
  MountTable(Clock& clock, absl::Duration every, std::function<std::string()> read = ReadMountInfo)
      : clock_(clock), every_(every), read_(std::move(read)) {}

  // As MountOf.
  std::string Of(absl::string_view path);

 private:
  Clock& clock_;
  const absl::Duration every_;
  const std::function<std::string()> read_;
  std::string info_;
  absl::Duration until_ = -absl::InfiniteDuration();  // since boot: read anew then
};

}  // namespace muster::worker
