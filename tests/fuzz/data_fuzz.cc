// Files of a data set of any bytes: NumPy's arrays, CIFAR's records and the tokens of a text are
// read or refused, and what is read lies in the file and in its bounds.
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/ckpt/block_hasher.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/memory_file_system.h"
#include "worker/data/base/npy.h"
#include "worker/data/images/cifar_records.h"
#include "worker/data/text/token_files.h"
#include "worker/data/text/token_store.h"
#include "worker/data/text/token_windows.h"

namespace {

using ::muster::testing::FuzzInput;
using ::muster::testing::MemoryFileSystem;

constexpr size_t kMostAxes = 32;

[[noreturn]] void Broken(const char* what) {
  ::fprintf(stderr, "BROKEN: %s\n", what);
  ::abort();
}

void ReadAsNpy(const std::string& bytes) {
  const auto header = muster::worker::ParseNpyHeader(bytes);
  if (!header.ok()) return;
  if (header->data_offset_bytes > bytes.size()) Broken("an array begins behind its file");
  if (header->type.empty() || header->type[0] == '>') Broken("a type that nobody reads");
  if (header->shape.size() > kMostAxes) Broken("more axes than there may be");
  for (const int64_t extent : header->shape) {
    if (extent < 0) Broken("an axis of a negative length");
  }
}

// A header as numpy.save writes it, before bytes of the input: most of them are read.
std::string SomeNpy(FuzzInput& input) {
  static const char* const kTypes[] = {"|u1", "<u2", "<u4", "<i4", "<i8", "<f4", ">u2", ""};
  static const char* const kShapes[] = {"", "3, 4", "-1", "9223372036854775807",
                                        "18446744073709551615"};
  const uint32_t kind = input.Below(8);
  const std::string shape =
      kind < 5 ? kShapes[kind] : absl::StrCat(static_cast<uint32_t>(input.Byte()));
  std::string dictionary = absl::StrCat("{'descr': '", kTypes[input.Below(8)],
                                        "', 'fortran_order': ", input.Chance(16) ? "True" : "False",
                                        ", 'shape': (", shape, ",), }\n");
  if (input.Chance(16)) dictionary.resize(input.Below(static_cast<uint32_t>(dictionary.size())));
  const int version = 1 + static_cast<int>(input.Below(3));
  std::string npy = std::string("\x93NUMPY", 6) + static_cast<char>(version) + '\0';
  size_t length = dictionary.size();
  if (input.Chance(16)) length = static_cast<size_t>(input.Word());
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) npy += static_cast<char>(length >> (8 * i));
  return npy + dictionary;
}

// The same tokens, a row at a time.
void ReadAsWindows(MemoryFileSystem& fs, const std::vector<std::string>& files,
                   const muster::worker::TokenStore& tokens, int64_t vocabulary) {
  constexpr int64_t kContext = 3;
  const auto windows = muster::worker::TokenWindows::Open(fs, files, kContext, vocabulary);
  if (!windows.ok() || windows->tokens() != tokens.size()) Broken("windows on other tokens");
  std::vector<int64_t> row(kContext + 1), stored(kContext + 1);
  for (int64_t i = 0; i < windows->rows(); ++i) {
    if (!windows->ReadRow(i, row.data()).ok()) Broken("a row that is there is not read");
    muster::worker::WidenTokens(tokens.Stored(i * kContext, kContext + 1), kContext + 1,
                                stored.data());
    if (row != stored) Broken("a row of other tokens");
  }
}

void ReadAsTokens(MemoryFileSystem& fs, const std::string& name, int64_t vocabulary) {
  const std::string& bytes = fs.files()["/data/" + name];
  const auto files = muster::worker::FindTokenFiles(fs, "/data", "train");
  if (!files.ok() || files->size() != 1 || files->front() != "/data/" + name) {
    Broken("the file of a split is not found");
  }
  const auto span = muster::worker::FindTokens(fs, files->front());
  if (!span.ok()) return;
  const uint64_t width = static_cast<uint64_t>(muster::worker::BytesOf(span->type));
  if (span->offset_bytes > bytes.size() || span->size_bytes > bytes.size() - span->offset_bytes ||
      span->size_bytes % width != 0) {
    Broken("tokens lie outside of their file");
  }
  muster::worker::TokenStore tokens(vocabulary);
  muster::BlockHasher hasher;
  const absl::Status read = muster::worker::AppendFile(fs, files->front(), *span, hasher, tokens);
  if (!read.ok()) {
    if (tokens.size() != 0) Broken("tokens of a piece that was refused");
    return;
  }
  if (tokens.size() != static_cast<int64_t>(span->size_bytes / width)) Broken("tokens are missing");
  ReadAsWindows(fs, *files, tokens, vocabulary);
  std::vector<int64_t> all(static_cast<size_t>(tokens.size()));
  muster::worker::WidenTokens(tokens.Stored(0, tokens.size()), tokens.size(), all.data());
  for (const int64_t token : all) {
    if (token < 0 || token >= vocabulary) Broken("a token outside of the vocabulary");
  }
}

void ReadAsTokens(const std::string& name, const std::string& bytes, int64_t vocabulary) {
  MemoryFileSystem fs;
  fs.files()["/data/" + name] = bytes;
  ReadAsTokens(fs, name, vocabulary);
}

// A number of so many bytes, little-endian: the likely one in most cases.
std::string Number(FuzzInput& input, uint64_t likely, int bytes) {
  const uint64_t value = input.Chance(8) ? input.Word() : likely;
  std::string number;
  for (int i = 0; i < bytes; ++i) number += static_cast<char>(value >> (8 * i));
  return number;
}

// llm.c's header before bytes of the input.
std::string SomeShard(FuzzInput& input) {
  const std::string tokens = input.Bytes(input.Byte());
  const bool wide = input.Chance(64);
  std::string shard = Number(input, wide ? 20240801 : 20240520, 4) +
                      Number(input, wide ? 7 : 1, 4) +
                      Number(input, tokens.size() / (wide ? 4 : 2), 4);
  shard.resize(input.Chance(8) ? input.Byte() * 4 : 1024);
  return shard + tokens;
}

// Megatron's index and the tokens that it is about.
void ReadAsMegatron(FuzzInput& input, int64_t vocabulary) {
  constexpr uint8_t kCodes[] = {1, 4, 5, 8};
  constexpr uint64_t kWidths[] = {1, 4, 8, 2};
  const uint32_t kind = input.Below(4);
  const uint64_t count = input.Below(8);
  std::string index("MMIDIDX\0\0", 9);
  index += Number(input, 1, 8) + Number(input, kCodes[kind], 1);
  index += Number(input, count, 8) + Number(input, 1, 8);
  std::string pointers;
  uint64_t end = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t length = input.Below(9);
    index += Number(input, length, 4);
    pointers += Number(input, end, 8);
    end += length * kWidths[kind];
  }
  index += pointers + Number(input, 0, 8);
  if (input.Chance(16)) index.resize(input.Byte());
  MemoryFileSystem fs;
  fs.files()["/data/train.idx"] = index;
  fs.files()["/data/train.bin"] = std::string(input.Chance(16) ? input.Byte() : end, '\0');
  ReadAsTokens(fs, "train.bin", vocabulary);
  fs.files()["/data/train.idx"] = "MMIDIDX" + std::string(input.Rest());
  ReadAsTokens(fs, "train.bin", vocabulary);
}

// Whole records of labels of the input, or some bytes more or less.
std::string SomeRecords(FuzzInput& input, const muster::worker::CifarEdition& edition) {
  std::string bytes;
  const uint32_t count = input.Below(4);
  for (uint32_t i = 0; i < count; ++i) {
    std::string record(edition.record_bytes(), '\0');
    for (size_t at = 0; at < edition.label_bytes; ++at)
      record[at] = static_cast<char>(input.Chance(240) ? input.Below(10) : input.Byte());
    bytes += record;
  }
  if (input.Chance(32)) bytes += input.Bytes(input.Byte());
  return bytes;
}

void ReadAsCifar(FuzzInput& input) {
  using ::muster::worker::CifarEdition;
  const CifarEdition edition =
      input.Chance(128) ? muster::worker::Cifar10() : muster::worker::Cifar100();
  MemoryFileSystem fs;
  for (const char* file : edition.train_files) {
    if (!input.Chance(8)) fs.files()[absl::StrCat("/data/", file)] = SomeRecords(input, edition);
  }
  const auto found = muster::worker::CifarEditionIn(fs, "/data");
  if (!found.ok()) return;
  if (input.Chance(32)) fs.files()[absl::StrCat("/data/", found->names_file)] = input.Bytes(400);
  const auto names = muster::worker::ReadCifarClassNames(fs, *found, "/data");
  if (names.ok() && !names->empty() && static_cast<int64_t>(names->size()) != found->classes)
    Broken("names of other classes");
  muster::BlockHasher hasher;
  const auto records =
      muster::worker::ReadCifarRecords(fs, *found, "/data", found->train_files, hasher);
  if (!records.ok()) return;
  if (records->size() % found->record_bytes() != 0 || records->empty()) Broken("half a record");
  for (size_t at = found->label_bytes - 1; at < records->size(); at += found->record_bytes()) {
    if (static_cast<uint8_t>((*records)[at]) >= found->classes) Broken("a class that is none");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  ReadAsNpy(bytes);
  ReadAsTokens("train.npy", bytes, /*vocabulary=*/256);
  ReadAsTokens("train.bin", bytes, /*vocabulary=*/50257);
  FuzzInput input(data, size);
  constexpr int64_t kVocabularies[] = {1, 200, 256, 257, 65536, 65537, int64_t{1} << 32};
  const int64_t vocabulary = kVocabularies[input.Below(7)];
  const std::string npy = SomeNpy(input);
  ReadAsNpy(npy);
  ReadAsCifar(input);
  ReadAsTokens("train.npy", npy + std::string(input.Rest()), vocabulary);
  FuzzInput tokens(data, size);
  ReadAsTokens("some_train_1.bin", SomeShard(tokens), vocabulary);
  ReadAsMegatron(tokens, vocabulary);
  return 0;
}
