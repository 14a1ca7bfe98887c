#include "worker/data/images/cifar_records.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"

namespace muster::worker {
namespace {

// The largest real file, train.bin of CIFAR-100, has 154 MB.
constexpr uint64_t kMaxFileBytes = 512u << 20;
constexpr uint64_t kMaxNamesBytes = 64u << 10;

}  // namespace

CifarEdition Cifar10() {
  return {"cifar10",
          {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
           "data_batch_5.bin"},
          "test_batch.bin",
          "batches.meta.txt",
          10,
          1};
}

CifarEdition Cifar100() {
  return {"cifar100", {"train.bin"}, "test.bin", "fine_label_names.txt", 100, 2};
}

absl::StatusOr<CifarEdition> CifarEditionIn(FileSystem& fs, const std::string& folder) {
  absl::Status denied;
  for (const CifarEdition& edition : {Cifar10(), Cifar100()}) {
    const absl::StatusOr<bool> there =
        fs.Exists(absl::StrCat(folder, "/", edition.train_files.front()));
    if (there.ok() && *there) return edition;
    if (!there.ok() && !absl::IsPermissionDenied(there.status())) return there.status();
    denied.Update(there.status());
  }
  MUSTER_RETURN_IF_ERROR(denied);
  return absl::NotFoundError(absl::StrCat(
      folder,
      " holds neither data_batch_1.bin (CIFAR-10) nor train.bin (CIFAR-100): unpack the "
      "binary version of the data set there"));
}

absl::StatusOr<std::string> ReadCifarRecords(FileSystem& fs, const CifarEdition& edition,
                                             const std::string& folder,
                                             const std::vector<const char*>& files,
                                             BlockHasher& hasher) {
  const size_t record_bytes = edition.record_bytes();
  std::string records;
  for (const char* file : files) {
    const std::string path = absl::StrCat(folder, "/", file);
    MUSTER_ASSIGN_OR_RETURN(const std::string bytes, fs.ReadFile(path, kMaxFileBytes));
    if (bytes.empty() || bytes.size() % record_bytes != 0) {
      return absl::InvalidArgumentError(absl::StrCat(path, " has ", bytes.size(),
                                                     " bytes, which is no number of records of ",
                                                     record_bytes, ": fetch it again"));
    }
    for (size_t at = edition.label_bytes - 1; at < bytes.size(); at += record_bytes) {
      if (static_cast<uint8_t>(bytes[at]) >= edition.classes) {
        return absl::InvalidArgumentError(absl::StrCat(
            path, ": record ", at / record_bytes, " has class ", static_cast<uint8_t>(bytes[at])));
      }
    }
    hasher.Update(bytes);
    records += bytes;
  }
  return records;
}

absl::StatusOr<std::vector<std::string>> ReadCifarClassNames(FileSystem& fs,
                                                             const CifarEdition& edition,
                                                             const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/", edition.names_file);
  MUSTER_ASSIGN_OR_RETURN(const bool is_there, ExistsIfAllowed(fs, path));
  if (!is_there) return std::vector<std::string>();
  MUSTER_ASSIGN_OR_RETURN(const std::string text, fs.ReadFile(path, kMaxNamesBytes));
  std::vector<std::string> names;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (!line.empty()) names.emplace_back(line);  // the real files end with an empty one
  }
  if (static_cast<int64_t>(names.size()) != edition.classes) {
    return absl::InvalidArgumentError(absl::StrCat(path, " names ", names.size(), " classes, want ",
                                                   edition.classes, ": fetch it again"));
  }
  return names;
}

}  // namespace muster::worker
