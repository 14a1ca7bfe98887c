#include "cli/commands/show/artifact_list.h"

#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <utility>

#include "common/fs/file_system.h"

namespace muster::cli {
namespace {

ArtifactList Read(const std::string& folder) {
  ArtifactList list;
  const absl::StatusOr<std::vector<FileInfo>> files = PosixFileSystem().List(folder);
  if (!files.ok()) return list;
  list.seen = true;
  for (const FileInfo& file : *files) {
    if (list.names.size() == kMaxArtifacts) {
      ++list.left_out;
    } else {
      list.names.push_back(file.is_directory ? file.name + "/" : file.name);
    }
  }
  return list;
}

}  // namespace

ArtifactList ListArtifacts(const std::string& folder, absl::Duration patience) {
  auto read =
      std::make_shared<std::packaged_task<ArtifactList()>>([folder] { return Read(folder); });
  std::future<ArtifactList> result = read->get_future();
  // Left behind when the file system hangs: it holds nothing of ours, and ends with the program.
  std::thread([read] { (*read)(); }).detach();
  const auto patient = absl::ToChronoMilliseconds(patience);
  return result.wait_for(patient) == std::future_status::ready ? result.get() : ArtifactList();
}

}  // namespace muster::cli
