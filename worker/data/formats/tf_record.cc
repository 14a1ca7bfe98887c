#include "worker/data/formats/tf_record.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/fs/little_endian.h"
#include "worker/data/formats/parse/crc32c.h"
#include "worker/data/formats/sample_names.h"

namespace muster::worker {
namespace {

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kCrcBytes = 4;
constexpr uint64_t kRecordHeadBytes = kLengthBytes + kCrcBytes;

// The length of the record whose header stands at the cursor.
absl::StatusOr<uint64_t> ReadLength(FileCursor& cursor) {
  const uint64_t at = cursor.position();
  MUSTER_ASSIGN_OR_RETURN(const absl::string_view head, cursor.Read(kRecordHeadBytes));
  if (ReadLittleEndian<uint32_t>(head.data() + kLengthBytes) !=
      MaskCrc32c(Crc32c(head.substr(0, kLengthBytes)))) {
    if (at == 0 && (absl::StartsWith(head, "\x1f\x8b") || absl::StartsWith(head, "\x78"))) {
      return cursor.Bad(at,
                        "is compressed, so nothing in it can be read by its place: write it "
                        "without compression");
    }
    return cursor.Bad(at, "is no header of a TFRecord: its checksum is wrong");
  }
  const uint64_t length = ReadLittleEndian<uint64_t>(head.data());
  if (cursor.remaining() < kCrcBytes || length > cursor.remaining() - kCrcBytes) {
    return cursor.Bad(at, absl::StrCat("a record should have ", length, " bytes, but the file has ",
                                       cursor.remaining(), " more: it is cut off"));
  }
  return length;
}

// Compares the checksum of the record at the cursor; the cursor is behind both then.
absl::Status VerifyRecord(FileCursor& cursor, uint64_t length) {
  const uint64_t begin = cursor.position();
  uint32_t crc = 0;
  for (uint64_t left = length; left > 0;) {
    const uint64_t bytes = std::min(left, FileCursor::kMostReadBytes);
    MUSTER_ASSIGN_OR_RETURN(const absl::string_view part, cursor.Read(bytes));
    crc = Crc32c(part, crc);
    left -= bytes;
  }
  MUSTER_ASSIGN_OR_RETURN(const absl::string_view stored, cursor.Read(kCrcBytes));
  if (ReadLittleEndian<uint32_t>(stored.data()) == MaskCrc32c(crc)) return absl::OkStatus();
  return cursor.Bad(
      begin, absl::StrCat("a record of ", length, " bytes is damaged: its checksum ", "is wrong"));
}

}  // namespace

absl::StatusOr<IndexReport> IndexTfRecords(FileSystem& fs, const std::string& path,
                                           const TfRecordOptions& options, SampleSink& sink) {
  MUSTER_ASSIGN_OR_RETURN(FileCursor cursor, FileCursor::Open(fs, path, options.window));
  const uint32_t file = sink.AddFile(path, cursor.size());
  const std::string file_name = path.substr(path.rfind('/') + 1);
  IndexReport report;
  uint64_t next = 0;
  for (uint64_t number = 0; next < cursor.size(); ++number) {
    cursor.SeekTo(next);
    MUSTER_ASSIGN_OR_RETURN(const uint64_t length, ReadLength(cursor));
    const uint64_t begin = cursor.position();
    if (options.verify) MUSTER_RETURN_IF_ERROR(VerifyRecord(cursor, length));
    MUSTER_ASSIGN_OR_RETURN(TfExample example,
                            ReadTfExample(cursor, begin, begin + length, options.features));
    if (example.key.empty()) example.key = NumberedKey(file_name, number);
    FoundSample sample;
    sample.key = example.key;
    sample.file = file;
    sample.offset = example.offset;
    sample.size = example.size;
    sample.label = example.label;
    MUSTER_RETURN_IF_ERROR(sink.Add(sample));
    ++report.samples;
    next = begin + length + kCrcBytes;
  }
  return report;
}

}  // namespace muster::worker
