#include "worker/data_tool/pack/link_tree.h"

#include <errno.h>
#include <unistd.h>

#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "common/fs/errno_status.h"
#include "common/object_store/remote_path.h"
#include "worker/data/formats/find_format.h"
#include "worker/data/index/data_indexes.h"
#include "worker/data_tool/base/interruption.h"
#include "worker/data_tool/base/open_data.h"
#include "worker/data_tool/pack/class_split.h"
#include "worker/data_tool/pack/pack_source.h"

namespace muster::worker {
namespace {

class LinkTree {
 public:
  LinkTree(AnyFileSystem& data, FileSystem& local, const SplitRequest& request)
      : data_(data), local_(local), request_(request), part_(request.out + ".part") {}

  absl::StatusOr<std::array<uint64_t, 3>> Make() {
    MUSTER_RETURN_IF_ERROR(Check());
    IndexOptions options;
    options.path = request_.path;
    options.progress = request_.index_progress;
    options.goes_on = [] { return !Interrupted(); };
    MUSTER_ASSIGN_OR_RETURN(const DataIndexes indexes, OpenOrMakeIndexes(data_, local_, options));
    MUSTER_RETURN_IF_ERROR(local_.RemoveTree(part_));
    const absl::Status made = MakeLinks(indexes);
    if (!made.ok()) {
      local_.RemoveTree(part_).IgnoreError();
      return made;
    }
    return counts_;
  }

 private:
  absl::Status Check() {
    MUSTER_ASSIGN_OR_RETURN(const bool there, local_.Exists(request_.out));
    if (there) return absl::AlreadyExistsError(absl::StrCat(request_.out, " is there already"));
    if (IsRemotePath(request_.path)) {
      return absl::FailedPreconditionError(absl::StrCat(
          request_.path, " does not lie on this machine: nothing can be a link to it"));
    }
    MUSTER_ASSIGN_OR_RETURN(const FoundData found, FindFormat(data_, request_.path));
    if (found.format != DataFormat::kImageFolder) {
      return absl::FailedPreconditionError(
          absl::StrCat(request_.path, " is ", DataFormatName(found.format),
                       ", of which no tree of links can be made: `muster data pack --validation ",
                       request_.validation, "` writes shards that are split"));
    }
    if (!found.validation.empty() || !found.test.empty()) {
      return absl::FailedPreconditionError(
          absl::StrCat(request_.path, " names its sets for validation or test already"));
    }
    root_ = absl::StrCat(found.train.empty() ? found.unnamed.front() : found.train.front(), "/");
    return absl::OkStatus();
  }

  absl::Status MakeLinks(const DataIndexes& indexes) {
    std::vector<const SampleIndex*> all;
    for (const auto& index : indexes.splits) all.push_back(index.get());
    const SampleSet samples("all", all);
    std::vector<HashedSample> hashed;
    hashed.reserve(samples.size());
    for (uint64_t number = 0; number < samples.size(); ++number) {
      MUSTER_ASSIGN_OR_RETURN(const StoredPlace place, samples.At(number));
      hashed.push_back({place.label, KeyHash(place.key, request_.seed)});
    }
    const std::vector<uint8_t> parts = SplitByClass(hashed, request_.validation, request_.test);
    for (uint64_t number = 0; number < samples.size(); ++number) {
      MUSTER_RETURN_IF_ERROR(CheckInterrupted());
      MUSTER_ASSIGN_OR_RETURN(const StoredPlace place, samples.At(number));
      MUSTER_RETURN_IF_ERROR(Link(place.file, static_cast<Split>(parts[number])));
      ++counts_[parts[number]];
      request_.progress();
    }
    MUSTER_RETURN_IF_ERROR(local_.Rename(part_, request_.out));
    return local_.SyncDirectory(ParentFolder(request_.out));
  }

  absl::Status Link(const std::string& file, Split split) {
    absl::string_view below = file;
    if (!absl::ConsumePrefix(&below, root_)) {
      return absl::FailedPreconditionError(
          absl::StrCat(file, " does not lie in ", root_, ": `muster data index --anew`"));
    }
    const std::string link = absl::StrCat(part_, "/", SplitName(split), "/", below);
    if (std::string folder = ParentFolder(link); folder != folder_) {
      MUSTER_RETURN_IF_ERROR(local_.MakeDirectories(folder));
      folder_ = std::move(folder);
    }
    std::error_code failed;
    const std::string target = std::filesystem::absolute(file, failed).lexically_normal().string();
    if (failed) return FileErrno(failed.value(), "find", file);
    return ::symlink(target.c_str(), link.c_str()) == 0 ? absl::OkStatus()
                                                        : FileErrno(errno, "link", link);
  }

  AnyFileSystem& data_;
  FileSystem& local_;
  const SplitRequest& request_;
  const std::string part_;
  std::string root_;
  std::string folder_;  // that was made last
  std::array<uint64_t, 3> counts_ = {};
};

}  // namespace

absl::StatusOr<std::array<uint64_t, 3>> SplitFolder(AnyFileSystem& data, FileSystem& local,
                                                    const SplitRequest& request) {
  return LinkTree(data, local, request).Make();
}

}  // namespace muster::worker
