#include "worker/data/index/sample_index.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "worker/data/index/index_layout.h"

namespace muster::worker {

absl::StatusOr<std::unique_ptr<SampleIndex>> SampleIndex::Open(
    const std::string& path, const MappedFile::Progress& progress) {
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<MappedFile> mapped, MappedFile::Open(path, progress));
  auto index = std::unique_ptr<SampleIndex>(new SampleIndex(path, std::move(mapped)));
  MUSTER_RETURN_IF_ERROR(index->ReadFooter());
  return index;
}

absl::Status SampleIndex::Broken(absl::string_view why) const {
  return absl::DataLossError(
      absl::StrCat(path_, " is no whole index: ", why, "; remove it, and it is made again"));
}

absl::Status SampleIndex::ReadFooter() {
  const absl::string_view all = mapped_->bytes();
  const absl::string_view footer = FindIndexFooter(all);
  if (footer.empty()) return Broken("its end is missing or changed");
  const nlohmann::json json = nlohmann::json::parse(footer.begin(), footer.end(), nullptr,
                                                    /*allow_exceptions=*/false);
  uint64_t key_bytes = 0, path_bytes = 0;
  const auto count = [&json](const char* name, uint64_t& value) {
    const auto found = json.find(name);
    if (found == json.end() || !found->is_number_unsigned()) return false;
    value = found->get<uint64_t>();
    return true;
  };
  const auto label = [&json](const char* name, int64_t& value) {
    const auto found = json.find(name);
    if (found == json.end() || !found->is_number_integer()) return false;
    value = found->get<int64_t>();
    return true;
  };
  const bool read = json.is_object() && count("samples", samples_) && count("files", files_) &&
                    count("key_bytes", key_bytes) && count("path_bytes", path_bytes) &&
                    count("sample_bytes", sample_bytes_) && label("least_label", least_label_) &&
                    label("greatest_label", greatest_label_) && json.contains("fingerprint") &&
                    json["fingerprint"].is_string() && json.contains("set") &&
                    json["set"].is_string() && json.contains("classes") &&
                    json["classes"].is_array();
  if (!read) return Broken("its footer lacks something");
  fingerprint_ = json["fingerprint"].get<std::string>();
  set_ = json["set"].get<std::string>();
  for (const nlohmann::json& name : json["classes"]) {
    if (!name.is_string()) return Broken("a class has no name");
    class_names_.push_back(name.get<std::string>());
  }
  absl::string_view rest = all.substr(
      kIndexMagic.size(), all.size() - kIndexMagic.size() - footer.size() - kIndexTailBytes);
  const auto take = [&rest](uint64_t number, uint64_t each, absl::string_view& part) {
    if (number > rest.size() / each) return false;
    part = rest.substr(0, number * each);
    rest.remove_prefix(number * each);
    return true;
  };
  if (!take(samples_, kIndexEntryBytes, entries_) || !take(key_bytes, 1, keys_) ||
      !take(files_, kIndexFileBytes, file_table_) || !take(path_bytes, 1, paths_) ||
      !rest.empty()) {
    return Broken("its parts do not have the sizes that its footer says");
  }
  return absl::OkStatus();
}

absl::StatusOr<absl::string_view> SampleIndex::KeyAt(uint64_t id) const {
  const char* at = entries_.data() + id * kIndexEntryBytes;
  const uint64_t begin = id == 0 ? 0 : DecodeIndexEntry(at - kIndexEntryBytes).key_end;
  const uint64_t end = DecodeIndexEntry(at).key_end;
  if (begin > end || end > keys_.size())
    return Broken(absl::StrCat("the key of sample ", id, " lies outside"));
  return keys_.substr(begin, end - begin);
}

absl::StatusOr<FoundSample> SampleIndex::At(uint64_t id) const {
  MUSTER_CHECK(id < samples_, "a sample's id lies in its index");
  MUSTER_ASSIGN_OR_RETURN(const absl::string_view key, KeyAt(id));
  const IndexEntry entry = DecodeIndexEntry(entries_.data() + id * kIndexEntryBytes);
  if (entry.file >= files_) return Broken(absl::StrCat("sample ", id, " lies in no file"));
  return FoundSample{key, entry.file, entry.offset, entry.size, entry.label};
}

absl::StatusOr<uint64_t> SampleIndex::Find(absl::string_view key) const {
  uint64_t begin = 0, end = samples_;
  while (begin < end) {
    const uint64_t middle = begin + (end - begin) / 2;
    MUSTER_ASSIGN_OR_RETURN(const absl::string_view there, KeyAt(middle));
    if (there == key) return middle;
    if (there < key) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return absl::NotFoundError(absl::StrCat(path_, " has no sample with the key ", key));
}

absl::StatusOr<SampleIndex::File> SampleIndex::FileAt(uint32_t file) const {
  MUSTER_CHECK(file < files_, "a file's number lies in its index");
  const char* at = file_table_.data() + uint64_t{file} * kIndexFileBytes;
  const IndexFile entry = DecodeIndexFile(at);
  const uint64_t begin = file == 0 ? 0 : DecodeIndexFile(at - kIndexFileBytes).path_end;
  if (begin > entry.path_end || entry.path_end > paths_.size())
    return Broken(absl::StrCat("the path of file ", file, " lies outside"));
  return File{paths_.substr(begin, entry.path_end - begin), entry.size_bytes};
}

absl::StatusOr<SampleIndex::Place> SampleIndex::PlaceOf(uint64_t id) const {
  MUSTER_ASSIGN_OR_RETURN(const FoundSample sample, At(id));
  MUSTER_ASSIGN_OR_RETURN(const File file, FileAt(sample.file));
  if (sample.offset > file.size_bytes || sample.size > file.size_bytes - sample.offset) {
    return absl::DataLossError(absl::StrCat(file.path, ": the index has the sample ", sample.key,
                                            " outside of it: `muster data index --anew`"));
  }
  return Place{sample, file};
}

}  // namespace muster::worker
