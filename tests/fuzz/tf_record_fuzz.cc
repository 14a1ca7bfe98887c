// A TFRecord file of any bytes, and one whose checksums are right: read or refused, and the same
// through any window.
#include <stddef.h>
#include <stdint.h>

#include <string>

#include "tests/fuzz/checked_sink.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/memory_file_system.h"
#include "tests/worker/data/formats/support/format_bytes.h"
#include "worker/data/formats/tf_record.h"

namespace {

using ::muster::testing::BytesFeature;
using ::muster::testing::CheckedSink;
using ::muster::testing::FuzzInput;
using ::muster::testing::IntegerFeature;
using ::muster::testing::MemoryFileSystem;
using ::muster::testing::ProtoBytes;
using ::muster::testing::TfRecordBytes;

std::string Walk(MemoryFileSystem& files, muster::worker::ReadWindow window, bool verify) {
  CheckedSink sink;
  muster::worker::TfRecordOptions options;
  options.window = window;
  options.verify = verify;
  const auto report = muster::worker::IndexTfRecords(files, "/f.tfrecord", options, sink);
  return sink.Outcome(report.status(), report.ok() ? *report : muster::worker::IndexReport());
}

// `checksums_hold`: then verifying them changes nothing.
void ReadAsTfRecords(const std::string& bytes, bool checksums_hold) {
  MemoryFileSystem files;
  files.files()["/f.tfrecord"] = bytes;
  const std::string outcome = Walk(files, {}, false);
  if (Walk(files, {1, 1}, false) != outcome) CheckedSink::Broken("a window that matters");
  const std::string verified = Walk(files, {}, true);
  if (checksums_hold && verified != outcome) CheckedSink::Broken("a checksum that is wrong");
}

std::string SomeFeature(FuzzInput& input) {
  switch (input.Below(5)) {
    case 0:
      return IntegerFeature(static_cast<int64_t>(input.Word()), input.Chance(128));
    case 1:
      return IntegerFeature(input.Byte(), input.Chance(128));
    case 2:
      return ProtoBytes(1 + input.Below(4), ProtoBytes(1, input.Bytes(input.Below(16))));
    case 3:
      return input.Bytes(input.Below(16));
    default:
      return BytesFeature(input.Bytes(input.Below(48)));
  }
}

std::string SomeExample(FuzzInput& input) {
  static const char* const kNames[] = {"image/encoded", "image/class/label", "image/filename",
                                       "__key__", "image/height"};
  std::string entries;
  if (input.Chance(200)) {
    entries = ProtoBytes(1, ProtoBytes(1, kNames[0]) + ProtoBytes(2, BytesFeature("picture")));
  }
  for (uint32_t i = input.Below(5); i > 0; --i) {
    const std::string name = ProtoBytes(1, kNames[input.Below(5)]);
    const std::string value = ProtoBytes(2, SomeFeature(input));
    std::string entry = input.Chance(200) ? name + value : value + name;
    if (input.Chance(16)) entry += input.Bytes(input.Below(12));
    entries += ProtoBytes(1, entry);
  }
  std::string example = ProtoBytes(1, entries);
  if (input.Chance(16)) example.resize(input.Below(static_cast<uint32_t>(example.size())));
  return example;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  ReadAsTfRecords(bytes, /*checksums_hold=*/false);
  ReadAsTfRecords(TfRecordBytes(bytes), /*checksums_hold=*/true);
  FuzzInput input(data, size);
  std::string records;
  for (int i = 0; i < 8 && !input.empty(); ++i) records += TfRecordBytes(SomeExample(input));
  ReadAsTfRecords(records, /*checksums_hold=*/true);
  return 0;
}
