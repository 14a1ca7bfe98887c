// The folders in which commands write what they offer as checkpoints: `<job's root>/offers`, which
// must be there before the program is, though most never write in it.
//
// They lie on a file system that the user names, so this is for side threads.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "common/fs/file_system.h"

namespace muster::worker {

class OfferFolders {
 public:
  static std::string Path(const std::string& job_root);
  // Makes the folder; OK as well when it is there.
  static absl::Status Make(FileSystem& fs, const std::string& job_root);
  // The job's only rank has ended: takes the folder and the root away if nothing is in them.
  // `still_asked` is asked before each removal: who waited for long in a hung file system must not
  // take a later attempt's empty folder. A removal that itself hangs is not called back: where it
  // goes on after a later attempt found the folder, that attempt's program finds none.
  static void GiveBack(const std::string& job_root, const std::function<bool()>& still_asked);
};

}  // namespace muster::worker
