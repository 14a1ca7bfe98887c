#include <ATen/ops/empty.h>

#include <array>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/rng.h"
#include "common/base/status_macros.h"
#include "common/ckpt/block_hasher.h"
#include "worker/data/base/dataset.h"

namespace muster::worker {
namespace {

constexpr const char* kFile = "digits.csv";
// The real file has 257 KB.
constexpr uint64_t kMaxFileBytes = 4u << 20;
constexpr size_t kRows = 1797;
constexpr size_t kDigitSide = 8;
constexpr size_t kPixels = kDigitSide * kDigitSide;
constexpr int kMaxPixel = 16;
constexpr int kClasses = 10;
constexpr const char* kRemedy = "run scripts/fetch-digits with that folder";

struct Row {
  std::array<int, kPixels> pixels;
  int label = 0;
};

absl::StatusOr<Row> ParseRow(absl::string_view line, const std::string& where) {
  const auto bad = [&](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": ", what, "; ", kRemedy));
  };
  Row row;
  size_t column = 0;
  for (const absl::string_view field : absl::StrSplit(line, ',')) {
    if (column > kPixels) return bad("more than 65 columns");
    const int max = column < kPixels ? kMaxPixel : kClasses - 1;
    int value = 0;
    if (!absl::SimpleAtoi(field, &value) || value < 0 || value > max) {
      return bad(absl::StrCat("column ", column + 1, " is not a whole number from 0 to ", max));
    }
    (column < kPixels ? row.pixels[column] : row.label) = value;
    ++column;
  }
  if (column != kPixels + 1) return bad(absl::StrCat(column, " columns, want 65"));
  return row;
}

absl::StatusOr<std::vector<Row>> ParseRows(absl::string_view text, const std::string& path) {
  std::vector<Row> rows;
  std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  if (!lines.empty() && lines.back().empty()) lines.pop_back();
  if (lines.size() != kRows) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " has ", lines.size(), " lines, want ", kRows, "; ", kRemedy));
  }
  for (size_t i = 0; i < lines.size(); ++i) {
    MUSTER_ASSIGN_OR_RETURN(Row row, ParseRow(lines[i], absl::StrCat(path, ":", i + 1)));
    rows.push_back(row);
  }
  return rows;
}

Split SplitOfRow(size_t row) {
  const uint64_t place = SplitMix64(row) % 10;
  if (place < 7) return Split::kTrain;
  return place == 7 ? Split::kValidation : Split::kTest;
}

Dataset::Part MakePart(const std::vector<const Row*>& rows, size_t image_size) {
  const int64_t count = static_cast<int64_t>(rows.size());
  const int64_t side = static_cast<int64_t>(image_size);
  Dataset::Part part{at::empty({count, 1, side, side}, at::kFloat), at::empty({count}, at::kLong)};
  float* input = part.inputs.mutable_data_ptr<float>();
  int64_t* target = part.targets.mutable_data_ptr<int64_t>();
  const size_t repeat = image_size / kDigitSide;
  for (const Row* row : rows) {
    for (size_t y = 0; y < image_size; ++y) {
      for (size_t x = 0; x < image_size; ++x) {
        const int pixel = row->pixels[y / repeat * kDigitSide + x / repeat];
        *input++ = (static_cast<float>(pixel) / 16.0f - 0.5f) / 0.5f;
      }
    }
    *target++ = row->label;
  }
  return part;
}

}  // namespace

absl::StatusOr<std::unique_ptr<InMemoryDataset>> ReadDigits(FileSystem& fs,
                                                            const DigitsConfig& config) {
  if (config.image_size < 8 || config.image_size > 32 || config.image_size % 8 != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("digits: image_size is ", config.image_size, ", want 8, 16, 24 or 32"));
  }
  const std::string path = absl::StrCat(config.path, "/", kFile);
  absl::StatusOr<std::string> text = fs.ReadFile(path, kMaxFileBytes);
  if (absl::IsNotFound(text.status())) {
    return absl::NotFoundError(absl::StrCat(path, " is not there: ", kRemedy));
  }
  if (absl::IsFailedPrecondition(text.status())) {
    return absl::InvalidArgumentError(absl::StrCat(text.status().message(), "; ", kRemedy));
  }
  MUSTER_RETURN_IF_ERROR(text.status());
  MUSTER_ASSIGN_OR_RETURN(const std::vector<Row> rows, ParseRows(*text, path));

  std::array<std::vector<const Row*>, 3> splits;
  for (size_t i = 0; i < rows.size(); ++i) {
    splits[static_cast<size_t>(SplitOfRow(i))].push_back(&rows[i]);
  }
  const size_t image_size = static_cast<size_t>(config.image_size);
  BlockHasher hasher;
  hasher.Update(*text);
  return std::make_unique<InMemoryDataset>(
      std::array<Dataset::Part, 3>{MakePart(splits[0], image_size), MakePart(splits[1], image_size),
                                   MakePart(splits[2], image_size)},
      kClasses, absl::StrCat("digits-v1:", image_size, ":", HashToHex(hasher.Finish().whole)),
      PixelScale{{0.5f}, {0.5f}},
      std::vector<std::string>{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"});
}

}  // namespace muster::worker
