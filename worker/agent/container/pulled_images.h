// Which container images this agent has pulled, by their last use, so that those of long ago can
// go: a machine that runs many jobs would fill its disk with them. Images that somebody else
// brought are none of its business. The list is a file, a line an image. One thread.
#pragma once

#include <cstddef>
#include <list>
#include <string>
#include <vector>

#include "common/fs/file_system.h"

namespace muster::worker {

class PulledImages {
 public:
  // `fs` outlives it. What the file says of an earlier life is taken over.
  PulledImages(FileSystem& fs, std::string file, size_t most);

  // It was just pulled. Returns those that are too many by that, the longest unused first, which
  // the caller removes.
  std::vector<std::string> Add(const std::string& image);
  // It is wanted again; nothing for one that is not known.
  void Use(const std::string& image);
  // It was taken from the list, and could not be removed.
  void Keep(const std::string& image);

  size_t size() const { return images_.size(); }

 private:
  void Write();

  FileSystem& fs_;
  const std::string file_;
  const size_t most_;
  std::list<std::string> images_;  // the longest unused first; a few dozen
};

}  // namespace muster::worker
