// A Parquet file of any bytes: it is read or refused, and every value that is said to lie in the
// file lies there.
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <string>
#include <vector>

#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/memory_file_system.h"
#include "worker/data/parquet/delta_integers.h"
#include "worker/data/parquet/footer.h"
#include "worker/data/parquet/image_rows.h"
#include "worker/data/parquet/page_codec.h"
#include "worker/data/parquet/page_header.h"
#include "worker/data/parquet/parquet_file.h"
#include "worker/data/parquet/value_decoder.h"

namespace {

using ::muster::testing::FuzzInput;
using ::muster::testing::MemoryFileSystem;
using ::muster::worker::ParquetColumn;
using ::muster::worker::ParquetFile;
using ::muster::worker::ParquetLimits;
using ::muster::worker::ParquetValue;

constexpr int64_t kMostRows = 2000;  // a run of one value may have as many as its writer likes
constexpr const char* kPath = "/data/some.parquet";

[[noreturn]] void Broken(const char* what) {
  ::fprintf(stderr, "BROKEN: %s\n", what);
  ::abort();
}

ParquetLimits SmallLimits() {
  ParquetLimits limits;
  limits.page_bytes = 1 << 20;
  return limits;
}

void ReadAsFile(const std::string& bytes) {
  MemoryFileSystem fs;
  fs.files()[kPath] = bytes;
  const auto file = ParquetFile::Open(fs, kPath, SmallLimits());
  if (!file.ok()) return;
  for (const auto& group : file->row_groups()) {
    if (group.chunks.size() != file->columns().size()) Broken("a row group without its columns");
  }
  const auto images = muster::worker::FindImageColumns(*file);
  if (images.ok()) {
    (void)muster::worker::ForEachImage(*file, *images, [](const muster::worker::ImageRow& image) {
      return image.row >= kMostRows ? absl::CancelledError("") : absl::OkStatus();
    });
  }
  for (size_t i = 0; i < file->columns().size(); ++i) {
    int64_t next = 0;
    const auto read =
        file->ForEachRow({i}, [&](int64_t row, absl::Span<const ParquetValue> values) {
          if (row != next++) Broken("a row is missing");
          const ParquetValue& value = values[0];
          if (value.file_offset != ParquetValue::kNowhere &&
              (value.file_offset > bytes.size() ||
               bytes.compare(value.file_offset, value.bytes.size(), value.bytes.data(),
                             value.bytes.size()) != 0)) {
            Broken("a value does not lie where it is said to");
          }
          return row >= kMostRows ? absl::CancelledError("") : absl::OkStatus();
        });
    if (read.ok() && next != file->rows()) Broken("rows are missing");
  }
}

// A page of any bytes, whose decoder a file's chunk chooses.
void ReadAsPage(FuzzInput& input) {
  ParquetColumn column;
  column.type = static_cast<muster::worker::ParquetType>(input.Below(8));
  column.type_length = 1 + input.Below(20);
  const auto encoding = static_cast<muster::worker::ParquetEncoding>(input.Below(10));
  const auto codec = static_cast<muster::worker::ParquetCodec>(input.Below(8));
  const uint64_t size = input.Below(256) * 16;
  muster::worker::ParquetDictionary dictionary(input.Below(4));
  const std::string rest(input.Rest());
  std::string unpacked;
  const absl::Status done = muster::worker::DecompressPage(codec, rest, size, unpacked);
  if (done.ok() && unpacked.size() != size) Broken("a page of another size");
  for (const std::string& bytes : {unpacked, rest}) {
    const auto decoder =
        muster::worker::MakeValueDecoder(column, encoding, bytes, 1000, &dictionary);
    if (!decoder.ok()) continue;
    ParquetValue value;
    for (int64_t i = 0; i < kMostRows && (*decoder)->Next(value); ++i) {
      if (value.bytes.size() > bytes.size()) Broken("a value is longer than its page");
    }
  }
  const uint64_t end = muster::worker::DeltaIntegers(rest).End();
  if (end != ~uint64_t{0} && end > rest.size()) Broken("numbers end behind their bytes");
  const auto header = muster::worker::ParseParquetPageHeader(rest);
  if (header.ok() && header->header_bytes > rest.size()) Broken("a header ends behind its bytes");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  ReadAsFile(bytes);
  // The bytes as a footer behind some data.
  std::string file = "PAR1" + std::string(64, '\0') + bytes;
  for (int i = 0; i < 4; ++i) file += static_cast<char>(size >> (8 * i));
  ReadAsFile(file + "PAR1");
  FuzzInput input(data, size);
  ReadAsPage(input);
  return 0;
}
