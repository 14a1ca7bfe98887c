// The folders in which commands write what they offer as checkpoints: `<job's root>/offers`, which
// must be there before the program is, though most never write in it.
//
// One that was left empty is kept for a later job, under another name meanwhile; a renamed folder
// costs a tenth of a new one, and nothing is left behind by jobs that saved nothing. One thread.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/fs/file_system.h"

namespace muster::worker {

class OfferFolders {
 public:
  // Kept at most, and removed when the agent ends.
  static constexpr size_t kMaxSpare = 64;

  // `fs` outlives this. The name keeps the folders of several agents apart.
  OfferFolders(FileSystem& fs, std::string worker) : fs_(fs), worker_(std::move(worker)) {}
  ~OfferFolders();
  OfferFolders(const OfferFolders&) = delete;
  OfferFolders& operator=(const OfferFolders&) = delete;

  static std::string Path(const std::string& job_root);
  // Makes the folder; OK as well when it is there.
  absl::Status Make(const std::string& job_root);
  // The job's only rank has ended, and no other attempt of it can have begun: takes the root away
  // if nothing was ever written in it.
  void GiveBack(const std::string& job_root);

 private:
  bool IsUntouched(const std::string& job_root);

  FileSystem& fs_;
  const std::string worker_;
  std::vector<std::string> spare_;  // the n-th by its number
};

}  // namespace muster::worker
