#include "worker/data_tool/check/preflight_rows.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/rng.h"
#include "common/base/status_macros.h"
#include "common/ckpt/block_hasher.h"
#include "worker/data/base/data_fingerprint.h"
#include "worker/data/base/npy.h"
#include "worker/data/base/sample_source.h"
#include "worker/data/csv/csv_table.h"
#include "worker/data/text/text_files.h"
#include "worker/data/text/token_files.h"
#include "worker/data/text/token_splits.h"
#include "worker/data/text/token_windows.h"

namespace muster::worker {
namespace {

constexpr Split kSets[] = {Split::kTrain, Split::kValidation, Split::kTest};
constexpr int64_t kTextVocabulary = 256;

absl::Status CheckReadable(FileSystem& data, const std::string& path) {
  char first = 0;
  return data.ReadAt(path, 0, &first, 1).status();
}

absl::StatusOr<uint64_t> TotalBytes(FileSystem& data, const std::vector<std::string>& paths) {
  uint64_t total = 0;
  for (const std::string& path : paths) {
    MUSTER_ASSIGN_OR_RETURN(const uint64_t bytes, data.FileSize(path));
    total += bytes;
  }
  return total;
}

absl::Status TryRows(const TokenWindows& windows, int64_t context, uint64_t seed,
                     PreflightReport& report) {
  std::vector<int64_t> row(static_cast<size_t>(context) + 1);
  for (const uint64_t at : IdsToTry(static_cast<uint64_t>(windows.rows()), seed)) {
    ++report.tried;
    MUSTER_RETURN_IF_ERROR(windows.ReadRow(static_cast<int64_t>(at), row.data()));
  }
  return absl::OkStatus();
}

// Of token files that are read whole; as ReadTokens has it.
absl::StatusOr<std::string> WholeTokensFingerprint(FileSystem& data,
                                                   const trainer_spec::Tokens& tokens,
                                                   const TokenSplitFiles& files) {
  BlockHasher hasher;
  for (size_t i = 0; i < files.size(); ++i) {
    if (i == 2 && files[2] == files[1]) continue;
    TokenStore store(tokens.vocabulary);
    for (const std::string& path : files[i]) {
      MUSTER_ASSIGN_OR_RETURN(const TokenSpan span, FindTokens(data, path));
      hasher.Update(absl::StrCat(kTokenSplits[i], ":", span.size_bytes, ":"));
      MUSTER_RETURN_IF_ERROR(AppendFile(data, path, span, hasher, store));
    }
  }
  return TokensFingerprint(tokens.context, tokens.vocabulary, HashToHex(hasher.Finish().whole));
}

}  // namespace

std::vector<uint64_t> IdsToTry(uint64_t samples, uint64_t seed) {
  std::vector<uint64_t> ids(std::min(samples, kPreflightSamples));
  for (uint64_t i = 0; i < ids.size(); ++i)
    ids[i] = ids.size() == samples ? i : SplitMix64(SplitMix64(seed) + i) % samples;
  return ids;
}

absl::StatusOr<PreflightReport> PreflightTokens(FileSystem& data,
                                                const trainer_spec::Tokens& tokens, uint64_t seed) {
  MUSTER_ASSIGN_OR_RETURN(const TokenSplitFiles files, FindTokenSplits(data, tokens.path));
  const bool shards = AreTokenShards(files);
  PreflightReport report;
  std::vector<std::string> fingerprints;
  uint64_t bytes = 0;
  for (size_t i = 0; i < files.size(); ++i) {
    MUSTER_ASSIGN_OR_RETURN(const TokenWindows windows,
                            TokenWindows::Open(data, files[i], tokens.context, tokens.vocabulary));
    if (windows.rows() < 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          files[i].back(), " has ", windows.tokens(), " tokens, want ", tokens.context + 1,
          " at least: a row of context ", tokens.context, " and a token"));
    }
    report.samples[i] = static_cast<uint64_t>(windows.rows());
    MUSTER_ASSIGN_OR_RETURN(const uint64_t of_split, TotalBytes(data, files[i]));
    bytes += of_split;
    if (shards) {
      MUSTER_ASSIGN_OR_RETURN(fingerprints.emplace_back(), windows.Fingerprint());
    }
    MUSTER_RETURN_IF_ERROR(TryRows(windows, tokens.context, seed + i, report));
  }
  if (shards) {
    report.fingerprint = TokenShardsFingerprint(tokens.context, tokens.vocabulary, fingerprints);
  } else if (bytes <= kMostPreflightBytes) {
    MUSTER_ASSIGN_OR_RETURN(report.fingerprint, WholeTokensFingerprint(data, tokens, files));
  }
  return report;
}

absl::StatusOr<PreflightReport> PreflightText(FileSystem& data, const trainer_spec::Text& text) {
  MUSTER_ASSIGN_OR_RETURN(const std::vector<TextFile> files, FindTextFiles(data, text.path));
  uint64_t bytes = 0;
  for (const TextFile& file : files) bytes += file.size_bytes;
  PreflightReport report;
  if (bytes > kMostPreflightBytes) {
    MUSTER_RETURN_IF_ERROR(CheckReadable(data, files.front().path));
    return report;
  }
  BlockHasher hasher;
  TokenStore store(kTextVocabulary);
  for (const TextFile& file : files) {
    MUSTER_RETURN_IF_ERROR(
        AppendFile(data, file.path, {TokenType::kUint8, 0, file.size_bytes}, hasher, store));
  }
  report.fingerprint = TextFingerprint(text.context, HashToHex(hasher.Finish().whole));
  return report;
}

absl::StatusOr<PreflightReport> PreflightCsv(FileSystem& data, const trainer_spec::Csv& csv) {
  MUSTER_ASSIGN_OR_RETURN(const bool exists, data.Exists(csv.path));
  if (!exists) {
    return absl::NotFoundError(
        absl::StrCat(csv.path, " is not there: name a CSV file or the folder of train.csv"));
  }
  std::vector<std::string> files = {csv.path};
  if (data.List(csv.path).ok()) {
    files.clear();
    for (const Split split : kSets) {
      const std::string file = absl::StrCat(csv.path, "/", SplitName(split), ".csv");
      MUSTER_ASSIGN_OR_RETURN(const bool given, data.Exists(file));
      if (given) files.push_back(file);
      if (!given && split == Split::kTrain)
        return absl::NotFoundError(absl::StrCat(file, " is not there"));
    }
  }
  MUSTER_ASSIGN_OR_RETURN(const uint64_t bytes, TotalBytes(data, files));
  PreflightReport report;
  if (bytes > kMostPreflightBytes) {
    MUSTER_RETURN_IF_ERROR(CheckReadable(data, files.front()));
    return report;
  }
  BlockHasher hasher;
  CsvConfig columns{csv.target, csv.features, csv.regress ? CsvTarget::kNumber : CsvTarget::kClass};
  int64_t classes = 0;
  for (const std::string& file : files) {
    MUSTER_ASSIGN_OR_RETURN(const CsvTable table, ReadCsvTable(data, file, columns, hasher));
    hasher.Update(absl::StrCat(":", table.rows, ":"));
    report.tried += static_cast<uint64_t>(table.rows);
    // The others have the columns and the classes of the training set, which is the first.
    if (classes == 0) classes = table.classes;
    if (table.classes > classes) {
      return absl::InvalidArgumentError(absl::StrCat(file, " has the class ", table.classes - 1,
                                                     ", and the training set has none above ",
                                                     classes - 1));
    }
    if (columns.features.empty()) columns.features = table.feature_names;
    if (columns.class_names.empty()) columns.class_names = table.class_names;
  }
  report.fingerprint = CsvFingerprint(csv.target, csv.features, csv.regress, csv.normalize,
                                      HashToHex(hasher.Finish().whole));
  return report;
}

absl::StatusOr<PreflightReport> PreflightNumpy(FileSystem& data, const trainer_spec::Numpy& numpy) {
  PreflightReport report;
  for (const Split split : kSets) {
    const std::string start = absl::StrCat(numpy.path, "/", SplitName(split));
    int64_t rows[2] = {};
    bool given[2] = {};
    const std::string paths[2] = {start + "_inputs.npy", start + "_targets.npy"};
    for (int half = 0; half < 2; ++half) {
      MUSTER_ASSIGN_OR_RETURN(given[half], split == Split::kTrain
                                               ? data.Exists(paths[half])
                                               : ExistsIfAllowed(data, paths[half]));
      if (!given[half]) continue;
      std::string header(kMaxNpyHeaderBytes, '\0');
      MUSTER_ASSIGN_OR_RETURN(const uint64_t got,
                              data.ReadAt(paths[half], 0, header.data(), header.size()));
      header.resize(got);
      const absl::StatusOr<NpyHeader> parsed = ParseNpyHeader(header);
      if (!parsed.ok()) {
        return absl::Status(parsed.status().code(),
                            absl::StrCat(paths[half], ": ", parsed.status().message()));
      }
      rows[half] = parsed->shape.empty() ? 0 : parsed->shape[0];
    }
    if (!given[0] && !given[1] && split != Split::kTrain) continue;
    if (!given[0] || !given[1])
      return absl::NotFoundError(absl::StrCat(paths[given[0] ? 1 : 0], " is not there"));
    if (rows[0] != rows[1] || rows[0] < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat(paths[1], ": has ", rows[1], " targets for ", rows[0], " inputs"));
    }
    report.samples[static_cast<size_t>(split)] = static_cast<uint64_t>(rows[0]);
  }
  return report;
}

}  // namespace muster::worker
