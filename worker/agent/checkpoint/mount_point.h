// On which mount a path lies, by its name alone: the path is not touched, since it may hang. Links
// are not followed, so that what lies behind one counts as of the mount on which the link is.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace muster::worker {

// The mounts of this process, as /proc tells them; "": it does not. No mount is touched.
std::string ReadMountInfo();

// The mount of such a text in which the absolute path lies, as "<id> <mount point>"; "": none. A
// new mount at the same place has another id while the old mount is still held, as a hung thread
// holds it. Pure.
std::string MountOf(absl::string_view path, absl::string_view mount_info);

}  // namespace muster::worker
