// A CSV file of any bytes: it is read or refused, and what is read is a whole table of finite
// numbers and of classes that are there.
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <string>
#include <vector>

#include "common/ckpt/block_hasher.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/memory_file_system.h"
#include "worker/data/csv/csv_table.h"

namespace {

using ::muster::testing::FuzzInput;
using ::muster::testing::MemoryFileSystem;
using ::muster::worker::CsvConfig;
using ::muster::worker::CsvTarget;

[[noreturn]] void Broken(const char* what) {
  ::fprintf(stderr, "BROKEN: %s\n", what);
  ::abort();
}

void ReadAsTable(const std::string& text, const CsvConfig& config) {
  MemoryFileSystem fs;
  fs.files()["/some.csv"] = text;
  muster::BlockHasher hasher, whole;
  const auto table = muster::worker::ReadCsvTable(fs, "/some.csv", config, hasher);
  if (!table.ok()) return;
  whole.Update(text);
  if (hasher.Finish().whole != whole.Finish().whole) Broken("bytes that nobody looked at");
  const size_t rows = static_cast<size_t>(table->rows);
  if (rows == 0 || table->features.size() != rows * table->feature_names.size()) {
    Broken("a table with holes");
  }
  for (const float value : table->features) {
    if (!::isfinite(value)) Broken("a feature that is no number");
  }
  if (config.kind == CsvTarget::kNumber ? table->numbers.size() != rows
                                        : table->labels.size() != rows) {
    Broken("targets are missing");
  }
  if (!table->class_names.empty() &&
      static_cast<int64_t>(table->class_names.size()) != table->classes) {
    Broken("classes without a name");
  }
  for (const int64_t label : table->labels) {
    if (label < 0 || label >= table->classes) Broken("a class that is none");
  }
}

// Fields that are mostly right.
std::string SomeTable(FuzzInput& input) {
  static const char* const kFields[] = {
      "1",   "-2.5",  "cat",  "\"a \"\"b\"\"\"", "",    " 7 ", "\"x\ny\"", "1e9",
      "nan", "\"3\"", "\xff", "1e400",           "0x1", "\"",  "007"};
  std::string text = "a,\"y\",b\n";
  while (!input.empty() && text.size() < 4000) {
    for (int column = 0; column < 3; ++column) {
      text += input.Chance(200) ? "12" : kFields[input.Below(15)];
      if (!input.Chance(4)) text += column < 2 ? "," : input.Chance(64) ? "\r\n" : "\n";
    }
  }
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  ReadAsTable(bytes, {"y"});
  ReadAsTable("a,y\n" + bytes, {"y"});
  FuzzInput input(data, size);
  const std::string text = SomeTable(input);
  ReadAsTable(text, {"y"});
  ReadAsTable(text, {"y", {"b"}, CsvTarget::kNumber});
  CsvConfig known{"y"};
  known.class_names = {"12", "cat"};
  ReadAsTable(text, known);
  return 0;
}
