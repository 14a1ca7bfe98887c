#include "worker/data/formats/record_io.h"

#include <string.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "common/fs/little_endian.h"
#include "worker/data/formats/sample_names.h"

namespace muster::worker {
namespace {

constexpr uint32_t kRecordMagic = 0xced7230au;
constexpr uint64_t kPartHeadBytes = 8;
constexpr uint64_t kImageHeadBytes = 24;
constexpr uint32_t kMostPartBytes = (1u << 29) - 1;
constexpr uint64_t kMostIdxBytes = 256 << 20;
constexpr float kMostFloatClass = 1 << 24;  // above, a float holds no odd numbers

enum PartKind : uint32_t { kWhole = 0, kFirst = 1, kMiddle = 2, kLast = 3 };

struct RecordPart {
  uint32_t kind = 0;
  uint64_t at = 0;      // of its header
  uint64_t offset = 0;  // of its bytes
  uint64_t size = 0;
};

float FloatAt(absl::string_view bytes, size_t at) {
  const uint32_t bits = ReadLittleEndian<uint32_t>(bytes.data() + at);
  float value;
  ::memcpy(&value, &bits, sizeof value);
  return value;
}

// Keys of records, by where they begin.
struct IdxEntry {
  uint64_t offset = 0;
  absl::string_view key;
};

struct RecordIdx {
  bool is_there = false;
  std::string text;
  std::vector<IdxEntry> entries;  // by offset; keys are parts of text
};

absl::Status ParseIdx(const std::string& path, RecordIdx& idx) {
  absl::string_view rest = idx.text;
  for (uint64_t number = 1; !rest.empty(); ++number) {
    absl::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    absl::ConsumeSuffix(&line, "\r");
    if (line.empty()) continue;
    const size_t tab = line.rfind('\t');
    IdxEntry entry;
    if (tab == absl::string_view::npos || tab == 0 ||
        !absl::SimpleAtoi(line.substr(tab + 1), &entry.offset)) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, " line ", number, ": want a key, a tab and an offset in bytes"));
    }
    entry.key = line.substr(0, tab);
    idx.entries.push_back(entry);
  }
  std::stable_sort(idx.entries.begin(), idx.entries.end(),
                   [](const IdxEntry& a, const IdxEntry& b) { return a.offset < b.offset; });
  for (size_t i = 1; i < idx.entries.size(); ++i) {
    if (idx.entries[i].offset == idx.entries[i - 1].offset) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": keys ", idx.entries[i - 1].key,
                                                     " and ", idx.entries[i].key,
                                                     " name one record"));
    }
  }
  return absl::OkStatus();
}

absl::Status ReadIdx(FileSystem& fs, const std::string& path, RecordIdx& idx) {
  const std::string idx_path = RecordIdxPath(path);
  MUSTER_ASSIGN_OR_RETURN(idx.is_there, ExistsIfAllowed(fs, idx_path));
  if (!idx.is_there) return absl::OkStatus();
  MUSTER_ASSIGN_OR_RETURN(idx.text, fs.ReadFile(idx_path, kMostIdxBytes));
  return ParseIdx(idx_path, idx);
}

class RecordFile {
 public:
  RecordFile(FileCursor cursor, const RecordIdx& idx, SampleSink& sink)
      : cursor_(std::move(cursor)), idx_(idx), sink_(sink) {}

  absl::StatusOr<IndexReport> Run() {
    file_ = sink_.AddFile(cursor_.path(), cursor_.size());
    file_name_ = cursor_.path().substr(cursor_.path().rfind('/') + 1);
    for (uint64_t number = 0; next_ < cursor_.size(); ++number) {
      MUSTER_ASSIGN_OR_RETURN(const RecordPart part, ReadPart());
      std::string key;
      MUSTER_ASSIGN_OR_RETURN(const bool named, NameRecord(part.at, number, key));
      if (part.kind == kFirst) {
        MUSTER_RETURN_IF_ERROR(SkipParts(part, key));
      } else if (part.kind != kWhole) {
        return cursor_.Bad(part.at, "is a part of a record whose beginning is missing");
      } else if (named) {
        MUSTER_RETURN_IF_ERROR(AddRecord(part, key));
      } else {
        LeaveOut(part.at, key, "is not named by the .idx");
      }
    }
    if (next_idx_ < idx_.entries.size()) return WrongIdx(idx_.entries[next_idx_]);
    return report_;
  }

 private:
  absl::StatusOr<RecordPart> ReadPart() {
    RecordPart part;
    part.at = next_;
    cursor_.SeekTo(next_);
    MUSTER_ASSIGN_OR_RETURN(const absl::string_view head, cursor_.Read(kPartHeadBytes));
    if (ReadLittleEndian<uint32_t>(head.data()) != kRecordMagic) {
      return cursor_.Bad(part.at, "is no record: the magic number 0xced7230a is missing");
    }
    const uint32_t word = ReadLittleEndian<uint32_t>(head.data() + 4);
    part.kind = word >> 29;
    part.size = word & kMostPartBytes;
    part.offset = part.at + kPartHeadBytes;
    if (part.kind > kLast) return cursor_.Bad(part.at, "is no record: it has an unknown flag");
    const uint64_t padded = (part.size + 3) / 4 * 4;
    if (padded > cursor_.remaining()) {
      return cursor_.Bad(
          part.at, absl::StrCat("a record should have ", part.size, " bytes, but the file has ",
                                cursor_.remaining(), " more: it is cut off"));
    }
    next_ = part.offset + padded;
    return part;
  }

  // False where there is an .idx that does not name it; the key is then its number.
  absl::StatusOr<bool> NameRecord(uint64_t at, uint64_t number, std::string& key) {
    key = NumberedKey(file_name_, number);
    if (!idx_.is_there) return true;
    if (next_idx_ >= idx_.entries.size()) return false;
    const IdxEntry& entry = idx_.entries[next_idx_];
    if (entry.offset < at) return WrongIdx(entry);
    if (entry.offset > at) return false;
    key = std::string(entry.key);
    ++next_idx_;
    return true;
  }

  absl::Status SkipParts(RecordPart part, const std::string& key) {
    const uint64_t at = part.at;
    uint64_t parts = 1;
    while (part.kind != kLast) {
      if (next_ >= cursor_.size()) {
        return cursor_.Bad(at, "is a record whose last part is missing: the file is cut off");
      }
      MUSTER_ASSIGN_OR_RETURN(part, ReadPart());
      if (part.kind != kMiddle && part.kind != kLast) {
        return cursor_.Bad(part.at, "begins a record within the parts of another");
      }
      ++parts;
    }
    LeaveOut(at, key,
             absl::StrCat("is stored in ", parts, " parts, since its bytes hold the magic ",
                          "number of RecordIO: write this picture anew"));
    return absl::OkStatus();
  }

  absl::Status AddRecord(const RecordPart& part, const std::string& key) {
    if (part.size < kImageHeadBytes) {
      return cursor_.Bad(part.at, absl::StrCat("a record of ", part.size, " bytes has no header ",
                                               "of a picture"));
    }
    cursor_.SeekTo(part.offset);
    MUSTER_ASSIGN_OR_RETURN(const absl::string_view head, cursor_.Read(kImageHeadBytes));
    const uint64_t labels = ReadLittleEndian<uint32_t>(head.data());
    float label = FloatAt(head, 4);
    if (labels * 4 > part.size - kImageHeadBytes) {
      return cursor_.Bad(part.at,
                         absl::StrCat("should have ", labels, " labels, which do not fit"));
    }
    if (labels > 0) {
      MUSTER_ASSIGN_OR_RETURN(const absl::string_view first, cursor_.Read(4));
      label = FloatAt(first, 0);
    }
    const uint64_t head_bytes = kImageHeadBytes + labels * 4;
    if (part.size == head_bytes) {
      LeaveOut(part.at, key, "has no picture");
      return absl::OkStatus();
    }
    if (!(label >= -1 && label <= kMostFloatClass) || label != std::floor(label)) {
      return cursor_.Bad(part.at, absl::StrCat("label ", label, " is no class"));
    }
    FoundSample sample;
    sample.key = key;
    sample.file = file_;
    sample.offset = part.offset + head_bytes;
    sample.size = part.size - head_bytes;
    sample.label = static_cast<int64_t>(label);
    ++report_.samples;
    return sink_.Add(sample);
  }

  void LeaveOut(uint64_t at, const std::string& key, absl::string_view what) {
    report_.LeaveOut(absl::StrCat(cursor_.path(), " at byte ", at, ": record ", key, " ", what));
  }

  absl::Status WrongIdx(const IdxEntry& entry) const {
    return absl::InvalidArgumentError(absl::StrCat(
        RecordIdxPath(cursor_.path()), ": key ", entry.key, " should begin at byte ", entry.offset,
        " of the .rec, where no record does: make the .idx anew (rec2idx.py)"));
  }

  FileCursor cursor_;
  const RecordIdx& idx_;
  SampleSink& sink_;
  uint32_t file_ = 0;
  std::string file_name_;
  uint64_t next_ = 0;    // where the next part begins
  size_t next_idx_ = 0;  // the first entry that no record was found for
  IndexReport report_;
};

}  // namespace

std::string RecordIdxPath(const std::string& path) {
  return absl::StrCat(absl::StripSuffix(path, ".rec"), ".idx");
}

absl::StatusOr<IndexReport> IndexRecordIo(FileSystem& fs, const std::string& path,
                                          const RecordIoOptions& options, SampleSink& sink) {
  RecordIdx idx;
  if (options.use_idx) MUSTER_RETURN_IF_ERROR(ReadIdx(fs, path, idx));
  MUSTER_ASSIGN_OR_RETURN(FileCursor cursor, FileCursor::Open(fs, path, options.window));
  return RecordFile(std::move(cursor), idx, sink).Run();
}

}  // namespace muster::worker
