// The index beside a shard: any text, and one made for a shard and then changed: read or refused,
// and unchanged it gives what the shard gives.
#include <stddef.h>
#include <stdint.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/fuzz/checked_sink.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/memory_file_system.h"
#include "tests/worker/data/formats/support/format_bytes.h"
#include "worker/data/formats/shard_index.h"

namespace {

using ::muster::testing::CheckedSink;
using ::muster::testing::FuzzInput;
using ::muster::testing::MemoryFileSystem;
using ::muster::testing::TarFile;

constexpr char kShard[] = "/t.tar";

std::string SomeShard(FuzzInput& input) {
  static const char* const kExtensions[] = {".jpg", ".cls", ".json", ".txt", ".PNG", ""};
  std::string shard;
  for (int i = 0; i < 8 && !input.empty(); ++i) {
    std::string name = absl::StrCat("s", input.Below(4), kExtensions[input.Below(6)]);
    if (input.Chance(8)) name += input.Bytes(4);
    shard += TarFile(name, input.Chance(128) ? "1" : input.Bytes(input.Below(40)));
  }
  return shard + muster::testing::TarEnd();
}

// What a sink was given, or "refused", or "unused".
std::string Read(MemoryFileSystem& files, const std::string& text) {
  muster::worker::IndexedShard shard{kShard, files.files()[kShard].size(), nullptr};
  shard.read = [&](uint64_t offset, char* buffer, uint64_t bytes) {
    return files.ReadAt(kShard, offset, buffer, bytes);
  };
  CheckedSink sink;
  const auto report = muster::worker::IndexByShardIndex(shard, "/t.idx", text, {}, sink);
  if (!report.ok()) return "refused";
  if (!report->has_value()) return "unused";
  return sink.Outcome(report.status(), **report);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  MemoryFileSystem files;
  files.files()[kShard] = TarFile("a.jpg", "1") + muster::testing::TarEnd();
  Read(files, std::string(reinterpret_cast<const char*>(data), size));

  FuzzInput input(data, size);
  files.files()[kShard] = SomeShard(input);
  CheckedSink walked;
  const auto walk = muster::worker::IndexWebDataset(files, kShard, {}, walked);
  const auto text = muster::worker::MakeShardIndex(files, kShard, {});
  if (text.ok() != walk.ok() && !absl::IsFailedPrecondition(text.status()))
    CheckedSink::Broken("an index of a shard that is refused, or none of one that is not");
  if (!text.ok()) return 0;
  if (Read(files, *text) != walked.Outcome(walk.status(), *walk))
    CheckedSink::Broken("an index with other samples than its shard");
  std::string changed = *text;
  for (int i = 0; i < 4 && !input.empty(); ++i) {
    const size_t at = input.Word() % (changed.size() + 1);
    changed.replace(at, input.Below(6), input.Bytes(input.Below(6)));
  }
  Read(files, changed);
  return 0;
}
