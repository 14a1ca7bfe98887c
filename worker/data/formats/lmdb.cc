#include "worker/data/formats/lmdb.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "worker/data/formats/parse/lmdb_pages.h"
#include "worker/data/formats/parse/proto_fields.h"
#include "worker/data/formats/sample_names.h"

namespace muster::worker {
namespace {

constexpr uint32_t kDatumData = 4, kDatumLabel = 5, kDatumEncoded = 7;

absl::Status BadValue(LmdbPages& pages, const LmdbPages::Entry& entry, absl::string_view what) {
  return pages.file().Bad(entry.offset, absl::StrCat("the value of ", entry.key, " ", what));
}

bool TellsOfOthers(absl::string_view key) { return absl::StartsWith(key, "__"); }

absl::StatusOr<bool> IsPicture(FileCursor& file, const LmdbPages::Entry& entry) {
  file.SeekTo(entry.offset);
  MUSTER_ASSIGN_OR_RETURN(const absl::string_view start,
                          file.Read(std::min<uint64_t>(entry.size, kPictureMagicBytes)));
  return BeginsAsPicture(start);
}

// The key's first folder; empty: it has none.
absl::string_view ClassOf(absl::string_view key) {
  while (absl::ConsumePrefix(&key, "./")) {
  }
  const size_t slash = key.find('/');
  return slash == absl::string_view::npos ? absl::string_view() : key.substr(0, slash);
}

// Sets offset, size and label of the sample.
absl::Status ReadDatum(LmdbPages& pages, const LmdbPages::Entry& entry, FoundSample& sample) {
  ProtoFields datum(pages.file(), entry.offset, entry.offset + entry.size);
  ProtoField field;
  bool has_data = false, has_label = false, encoded = false;
  while (true) {
    MUSTER_ASSIGN_OR_RETURN(const bool more, datum.Next(field));
    if (!more) break;
    if (field.number == kDatumData && field.type == ProtoField::Type::kBytes) {
      has_data = true;
      sample.offset = field.offset;
      sample.size = field.size;
    } else if (field.number == kDatumLabel && field.type == ProtoField::Type::kVarint) {
      has_label = true;
      sample.label = static_cast<int32_t>(static_cast<uint32_t>(field.value));
    } else if (field.number == kDatumEncoded && field.type == ProtoField::Type::kVarint) {
      encoded = field.value != 0;
    }
  }
  if (!has_data) return BadValue(pages, entry, "is neither a picture nor a Datum with data");
  if (!encoded) {
    return BadValue(pages, entry,
                    "is a Datum of raw pixels: write it with encoded pictures (convert_imageset "
                    "--encoded)");
  }
  if (!has_label) sample.label = kNoLabel;
  if (sample.label < kNoLabel) {
    return BadValue(pages, entry, absl::StrCat("has label ", sample.label));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> ClassesOf(LmdbPages& pages) {
  std::set<std::string> classes;
  MUSTER_RETURN_IF_ERROR(pages.Walk([&](const LmdbPages::Entry& entry) -> absl::Status {
    if (TellsOfOthers(entry.key)) return absl::OkStatus();
    const absl::string_view name = ClassOf(entry.key);
    if (name.empty() || classes.count(std::string(name)) > 0) return absl::OkStatus();
    MUSTER_ASSIGN_OR_RETURN(const bool is_picture, IsPicture(pages.file(), entry));
    if (is_picture) classes.insert(std::string(name));
    return absl::OkStatus();
  }));
  return std::vector<std::string>(classes.begin(), classes.end());
}

class LmdbWalk {
 public:
  LmdbWalk(LmdbPages& pages, LmdbIndex& index, SampleSink& sink)
      : pages_(pages), index_(index), sink_(sink) {
    file_ = sink_.AddFile(pages_.file().path(), pages_.file().size());
  }

  absl::Status Take(const LmdbPages::Entry& entry) {
    const absl::string_view sample_key = NameOf(entry.key).key;
    if (TellsOfOthers(entry.key) || sample_key.empty()) {
      index_.report.LeaveOut(
          absl::StrCat(pages_.file().path(), ": key ", entry.key, " is no sample's"));
      return absl::OkStatus();
    }
    FoundSample sample;
    sample.key = sample_key;
    sample.file = file_;
    MUSTER_ASSIGN_OR_RETURN(const bool is_picture, IsPicture(pages_.file(), entry));
    if (is_picture) {
      sample.offset = entry.offset;
      sample.size = entry.size;
      MUSTER_ASSIGN_OR_RETURN(sample.label, LabelOf(entry));
    } else {
      MUSTER_RETURN_IF_ERROR(ReadDatum(pages_, entry, sample));
    }
    MUSTER_RETURN_IF_ERROR(sink_.Add(sample));
    ++index_.report.samples;
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<int64_t> LabelOf(const LmdbPages::Entry& entry) const {
    const absl::string_view name = ClassOf(entry.key);
    if (name.empty()) return kNoLabel;
    const auto place = std::lower_bound(index_.classes.begin(), index_.classes.end(), name);
    if (place != index_.classes.end() && *place == name) {
      return std::distance(index_.classes.begin(), place);
    }
    return BadValue(pages_, entry,
                    absl::StrCat("is of class ", name, ", which the training split lacks"));
  }

  LmdbPages& pages_;
  LmdbIndex& index_;
  SampleSink& sink_;
  uint32_t file_ = 0;
};

}  // namespace

absl::StatusOr<LmdbIndex> IndexLmdb(FileSystem& fs, const std::string& path,
                                    const LmdbOptions& options, SampleSink& sink) {
  MUSTER_ASSIGN_OR_RETURN(LmdbPages pages, LmdbPages::Open(fs, path, options.window));
  LmdbIndex index;
  index.classes = options.classes;
  if (index.classes.empty()) {
    MUSTER_ASSIGN_OR_RETURN(index.classes, ClassesOf(pages));
  }
  if (!std::is_sorted(index.classes.begin(), index.classes.end())) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": the classes given are not in order"));
  }
  LmdbWalk walk(pages, index, sink);
  MUSTER_RETURN_IF_ERROR(
      pages.Walk([&](const LmdbPages::Entry& entry) { return walk.Take(entry); }));
  return index;
}

absl::StatusOr<std::vector<std::string>> FindLmdbClasses(FileSystem& fs, const std::string& path,
                                                         ReadWindow window) {
  MUSTER_ASSIGN_OR_RETURN(LmdbPages pages, LmdbPages::Open(fs, path, window));
  return ClassesOf(pages);
}

}  // namespace muster::worker
