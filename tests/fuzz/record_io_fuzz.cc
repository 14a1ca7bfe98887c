// A RecordIO file of any bytes, one of whole records, and an .idx of any bytes beside it: read or
// refused, and the same through any window.
#include <stddef.h>
#include <stdint.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/fuzz/checked_sink.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/memory_file_system.h"
#include "tests/worker/data/formats/support/format_bytes.h"
#include "worker/data/formats/record_io.h"

namespace {

using ::muster::testing::CheckedSink;
using ::muster::testing::FuzzInput;
using ::muster::testing::LittleEndianBytes;
using ::muster::testing::MemoryFileSystem;

std::string Walk(MemoryFileSystem& files, muster::worker::ReadWindow window) {
  CheckedSink sink;
  muster::worker::RecordIoOptions options;
  options.window = window;
  const auto report = muster::worker::IndexRecordIo(files, "/f.rec", options, sink);
  return sink.Outcome(report.status(), report.ok() ? *report : muster::worker::IndexReport());
}

void ReadAsRecordIo(const std::string& bytes, const std::string* idx) {
  MemoryFileSystem files;
  files.files()["/f.rec"] = bytes;
  if (idx != nullptr) files.files()["/f.idx"] = *idx;
  if (Walk(files, {1, 1}) != Walk(files, {})) CheckedSink::Broken("a window that matters");
}

std::string SomeParts(FuzzInput& input, std::string& idx) {
  std::string bytes;
  for (int i = 0; i < 12 && !input.empty(); ++i) {
    if (!input.Chance(24)) {
      absl::StrAppend(&idx, i, "\t", bytes.size() + (input.Chance(8) ? 4 : 0), "\n");
    }
    const std::string picture = input.Bytes(input.Below(40));
    const float label = input.Chance(16) ? 0.5f : static_cast<float>(input.Byte());
    std::string record = input.Chance(64) ? muster::testing::ImageRecord({label, label}, picture)
                                          : muster::testing::ImageRecord({label}, picture);
    if (input.Chance(32)) record += LittleEndianBytes(0xced7230a, 4) + "more";
    std::string part = muster::testing::RecordIoBytes(record);
    if (input.Chance(16)) part[input.Below(32)] = static_cast<char>(input.Byte());
    bytes += part;
  }
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  ReadAsRecordIo(bytes, nullptr);
  ReadAsRecordIo(LittleEndianBytes(0xced7230a, 4) + bytes, nullptr);
  ReadAsRecordIo(muster::testing::RecordIoBytes(bytes), &bytes);
  FuzzInput input(data, size);
  std::string idx;
  const std::string parts = SomeParts(input, idx);
  ReadAsRecordIo(parts, nullptr);
  ReadAsRecordIo(parts, &idx);
  return 0;
}
