// <data dir>/identity.json: keeps who this agent is over its lives. Lives on the event loop.
//
// A write that fails costs nothing but time: the next agent cannot show then that this one is dead,
// and waits until its lease is over.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "common/fs/file_system.h"
#include "worker/agent/identity/identity.h"

namespace muster::worker {

class IdentityFile {
 public:
  // Begins the life of `incarnation`, on disk when it returns. Requires what BeginLife does. What
  // cannot be read counts as nothing.
  static IdentityFile Begin(FileSystem& fs, const std::string& data_dir, const Surroundings& here,
                            const std::string& incarnation, const std::string& fresh);

  const std::string& identity() const { return record_.identity; }
  const std::vector<std::string>& predecessors() const { return predecessors_; }
  const KnownController& controller() const { return record_.controller; }

  // This controller welcomed this incarnation.
  void OnWelcome(const KnownController& controller);

 private:
  IdentityFile(FileSystem& fs, std::string path, BegunLife begun)
      : fs_(&fs),
        path_(std::move(path)),
        record_(std::move(begun.record)),
        predecessors_(std::move(begun.predecessors)) {}
  void Write() const;

  FileSystem* fs_;
  std::string path_;
  IdentityRecord record_;
  std::vector<std::string> predecessors_;
};

}  // namespace muster::worker
