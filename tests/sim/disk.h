// The controller's disk, in memory, under real SQLite: a sqlite3_vfs that keeps what was written
// apart from what was synced. A power loss drops, reorders and tears what was not synced; a killed
// process loses nothing. It can be full, and calls can fail.
//
// After a failed sync the written pages count as clean, as on Linux: they can still be read, but no
// later sync makes them durable.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/sim/dice.h"

namespace muster::sim {

class Disk {
 public:
  static constexpr char kVfs[] = "muster-sim";

  explicit Disk(Dice dice) : dice_(dice) {}

  // From now on SQLite's files are on this disk. One at a time.
  void Mount();

  // Asked before each change of the disk; false: the machine is dead, nothing happens any more.
  std::function<bool()> alive = [] { return true; };

  bool full = false;    // no file may grow
  bool copies = false;  // on such a disk nothing at all is written while it is full
  int fail_writes = 0;  // so many of the next writes fail
  int fail_syncs = 0;   // and syncs

  // The files of another one, all of them durable. Before the first Mount.
  void Load(const Disk& image);
  void LosePower();
  // What a process would read now.
  Disk Copy() const;
  uint64_t syncs() const { return syncs_; }

  struct Change {
    bool is_truncate = false;
    uint64_t offset = 0;  // of the data, or the new size
    std::string data;
  };
  struct File {
    std::string visible;
    std::string durable;
    bool link_is_durable = false;
    std::vector<Change> unsynced;
  };

  // ---- for the VFS ----
  std::shared_ptr<File> Open(const std::string& name, bool create);
  bool Exists(const std::string& name) const { return files_.count(name) != 0; }
  int Write(File& file, uint64_t offset, const std::string& data);
  int Truncate(File& file, uint64_t size);
  int Sync(File& file);
  int Delete(const std::string& name, bool sync);
  uint64_t Random() { return dice_.Next(); }

 private:
  void Keep(File& file, const Change& change);

  Dice dice_;
  std::map<std::string, std::shared_ptr<File>> files_;
  std::map<std::string, std::shared_ptr<File>> unlinked_;  // the unlink is not durable yet
  uint64_t syncs_ = 0;
};

}  // namespace muster::sim
