#include "worker/data_tool/base/open_data.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/object_store/cache/any_file_system.h"
#include "worker/data/formats/sample_reader.h"

namespace muster::worker {
namespace {

// Somebody waits, who may have mistyped the address. Once a server has answered a command may be
// hours into its work, which a server that is started again must not end.
constexpr absl::Duration kUnansweredDeadline = absl::Seconds(10);

// Of the first sample: two indexes of the same files have it in one place.
bool AreTheSame(const SampleIndex& a, const SampleIndex& b) {
  if (a.size() != b.size() || a.fingerprint() != b.fingerprint()) return false;
  if (a.size() == 0) return true;
  const auto one = PlaceOfSample(a, 0), other = PlaceOfSample(b, 0);
  return one.ok() && other.ok() && one->file == other->file && one->offset == other->offset;
}

}  // namespace

// Both live for ever, as the one of this machine does: threads of its cache may still run at the
// end.
AnyFileSystem& DataFileSystem() {
  static AnyFileSystem* const files =
      new AnyFileSystem(PosixFileSystem(), {.remote_unanswered_deadline = kUnansweredDeadline});
  return *files;
}

AnyFileSystem& PatientDataFileSystem() {
  static AnyFileSystem* const files = new AnyFileSystem(PosixFileSystem());
  return *files;
}

absl::StatusOr<Split> SplitOfName(absl::string_view name) {
  for (const Split split : {Split::kTrain, Split::kValidation, Split::kTest})
    if (name == SplitName(split)) return split;
  return absl::InvalidArgumentError(
      absl::StrCat("there is no split ", name, ": want train, validation or test"));
}

std::vector<Split> OwnSplits(const DataIndexes& indexes) {
  std::vector<Split> splits = {Split::kTrain, Split::kValidation};
  if (!AreTheSame(IndexOf(indexes, Split::kValidation), IndexOf(indexes, Split::kTest)))
    splits.push_back(Split::kTest);
  return splits;
}

absl::StatusOr<StoredPlace> PlaceOfSample(const SampleIndex& index, uint64_t id) {
  MUSTER_ASSIGN_OR_RETURN(const SampleIndex::Place place, index.PlaceOf(id));
  return StoredPlace{id,
                     std::string(place.sample.key),
                     std::string(place.file.path),
                     place.sample.offset,
                     place.sample.size,
                     place.sample.label};
}

absl::StatusOr<uint64_t> FindSample(const SampleIndex& index, absl::string_view key_or_number) {
  const absl::StatusOr<uint64_t> id = index.Find(key_or_number);
  if (!absl::IsNotFound(id.status())) return id;
  uint64_t number = 0;
  if (absl::SimpleAtoi(key_or_number, &number) && number < index.size()) return number;
  return absl::NotFoundError(absl::StrCat("there is no sample ", key_or_number,
                                          ": neither a key nor a number below ", index.size()));
}

absl::Status ReadStored(FileSystem& data, const StoredPlace& place, std::string& bytes,
                        uint64_t most_bytes) {
  const uint64_t size = std::min(place.size, most_bytes);
  if (size > kMostSampleBytes) {
    return absl::ResourceExhaustedError(absl::StrCat(place.file, ": sample ", place.key, " has ",
                                                     place.size, " bytes, and ", kMostSampleBytes,
                                                     " are the most that is read"));
  }
  bytes.resize(size);
  return ReadSample(data, place.file, place.offset, size, bytes.data());
}

std::string ClassText(const SampleIndex& index, int64_t label) {
  if (label == kNoLabel) return "-";
  const std::vector<std::string>& names = index.class_names();
  if (label >= 0 && static_cast<uint64_t>(label) < names.size())
    return absl::StrCat(label, " ", names[static_cast<size_t>(label)]);
  return absl::StrCat(label);
}

}  // namespace muster::worker
