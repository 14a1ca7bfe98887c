// A WebDataset tar of any bytes, and one whose headers have right checksums: read or refused, and
// the same through any window.
#include <stddef.h>
#include <stdint.h>

#include <string>

#include "tests/fuzz/checked_sink.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/memory_file_system.h"
#include "tests/worker/data/formats/support/format_bytes.h"
#include "worker/data/formats/web_dataset.h"

namespace {

using ::muster::testing::CheckedSink;
using ::muster::testing::FuzzInput;
using ::muster::testing::MemoryFileSystem;

std::string Walk(MemoryFileSystem& files, muster::worker::ReadWindow window) {
  CheckedSink sink;
  muster::worker::WebDatasetOptions options;
  options.window = window;
  const auto report = muster::worker::IndexWebDataset(files, "/t.tar", options, sink);
  return sink.Outcome(report.status(), report.ok() ? *report : muster::worker::IndexReport());
}

void ReadAsTar(const std::string& bytes) {
  MemoryFileSystem files;
  files.files()["/t.tar"] = bytes;
  if (Walk(files, {1, 1}) != Walk(files, {})) CheckedSink::Broken("a window that matters");
}

std::string SomePaxRecords(FuzzInput& input) {
  static const char* const kKeys[] = {"path", "size", "mtime", "GNU.sparse.major", "hdrcharset"};
  std::string records;
  for (uint32_t i = input.Below(4); i > 0; --i) {
    records += muster::testing::PaxRecord(kKeys[input.Below(5)], input.Bytes(input.Below(24)));
  }
  if (input.Chance(24)) records += input.Bytes(input.Below(40));
  return records;
}

// Members as archivers write them, with some oddities.
std::string SomeTar(FuzzInput& input) {
  static const char kTypes[] = {'0', '0', '0', '0', '\0', '7', 'x', 'x',
                                'g', 'L', 'K', '1', '5',  'S', 'M', 'V'};
  static const char* const kExtensions[] = {".jpg", ".cls", ".json", ".txt", ".PNG", ""};
  std::string tar;
  for (int i = 0; i < 40 && !input.empty(); ++i) {
    muster::testing::TarHeaderFields fields;
    fields.type = kTypes[input.Below(16)];
    fields.gnu = input.Chance(64);
    fields.name = std::string(1 + input.Below(3), static_cast<char>('a' + input.Below(6))) +
                  kExtensions[input.Below(6)];
    if (input.Chance(32)) fields.prefix = input.Bytes(input.Below(16));
    std::string contents = input.Chance(128) ? "1" : input.Bytes(input.Byte());
    if (fields.type == 'x' || fields.type == 'g') contents = SomePaxRecords(input);
    fields.size = input.Chance(8) ? input.Word() >> 31 : contents.size();
    if (input.Chance(16)) fields.size_field = input.Bytes(12);
    contents.resize((contents.size() + 511) / 512 * 512);
    std::string header = TarHeader(fields);
    if (input.Chance(4)) header[input.Byte()] = static_cast<char>(input.Byte());
    if (input.Chance(128)) header = muster::testing::FixTarChecksum(std::move(header));
    tar += header + contents;
  }
  return input.Chance(240) ? tar + muster::testing::TarEnd() : tar;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ReadAsTar(std::string(reinterpret_cast<const char*>(data), size));
  FuzzInput input(data, size);
  ReadAsTar(SomeTar(input));
  return 0;
}
