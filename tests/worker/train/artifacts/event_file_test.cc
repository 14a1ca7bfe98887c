#include "worker/train/artifacts/event_file.h"

#include <cstring>

#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "worker/train/artifacts/tensorboard_writer.h"

namespace muster::worker {
namespace {

using muster::testing::StatusIs;
using muster::testing::TempDir;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The payloads of the records, lengths checked; the real TensorBoard checks the sums
// (tests/peer/tensorboard_reads.py).
std::vector<std::string> Records(const std::string& path) {
  const auto bytes = PosixFileSystem().ReadFile(path, 1 << 20);
  EXPECT_OK(bytes);
  std::vector<std::string> records;
  size_t at = 0;
  while (bytes.ok() && at < bytes->size()) {
    uint64_t length = 0;
    std::memcpy(&length, bytes->data() + at, sizeof length);
    if (at + 16 + length > bytes->size()) {
      ADD_FAILURE() << "record at " << at << " is cut";
      break;
    }
    records.push_back(bytes->substr(at + 12, length));
    at += 16 + length;
  }
  return records;
}

TEST(EventFile, BeginsWithItsVersionAndHoldsScalarsByName) {
  TempDir dir;
  ASSERT_OK_AND_ASSIGN(const auto file, EventFile::Create(PosixFileSystem(), dir / "events", 4,
                                                          absl::FromUnixSeconds(100)));
  EXPECT_OK(file->AddScalars(5, {{"loss", 0.5}}, absl::FromUnixSeconds(101)));
  const std::vector<std::string> records = Records(dir / "events");
  ASSERT_EQ(records.size(), 3u);
  EXPECT_THAT(records[0], HasSubstr("brain.Event:2"));
  const std::string value = std::string("\x0a\x04loss\x15") + std::string("\x00\x00\x00\x3f", 4);
  EXPECT_THAT(records[2], HasSubstr(std::string("\x10\x05", 2)));
  EXPECT_THAT(records[2], HasSubstr(value));
}

TEST(EventFile, DoesNotWriteOverAnother) {
  TempDir dir;
  const auto create = [&] {
    return EventFile::Create(PosixFileSystem(), dir / "events", 0, absl::FromUnixSeconds(1))
        .status();
  };
  EXPECT_OK(create());
  EXPECT_THAT(create(), StatusIs(absl::StatusCode::kAlreadyExists));
}

class Listener final : public RunHost {
 public:
  void KeepAlive() override {}
  void MemoryEstimated(const std::string&) override {}
  RequestedStop requested_stop() override { return {.stop = true}; }
  void Progress(const std::string&, int64_t, int64_t, double) override {}
  void Metrics(int64_t step, const std::map<std::string, double>&) override {
    steps.push_back(step);
  }
  void CorruptCheckpoint(const std::string&, int64_t, const std::string&) override {}
  void UnreadCheckpoint(const std::string&, int64_t, const std::string&) override {}
  std::vector<int64_t> steps;
};

TEST(TensorBoardWriter, PassesReportsOnAlsoWhenTheFolderCannotBeMade) {
  TempDir dir;
  Listener listener;
  TensorBoardWriter good(PosixFileSystem(), listener, dir / "made/here", 3);
  good.Metrics(1, {{"loss", 1}});
  good.Metrics(2, {{"loss", 0.5}});
  const auto files = PosixFileSystem().List(dir / "made/here");
  ASSERT_OK(files);
  ASSERT_EQ(files->size(), 1u);
  EXPECT_THAT(files->front().name, HasSubstr(".muster.a3"));
  EXPECT_EQ(Records(dir / ("made/here/" + files->front().name)).size(), 4u);

  TensorBoardWriter bad(PosixFileSystem(), listener, "/proc/no/such/place", 1);
  bad.Metrics(3, {{"loss", 1}});
  bad.Metrics(4, {{"loss", 1}});
  EXPECT_TRUE(bad.requested_stop().stop);
  EXPECT_THAT(listener.steps, ElementsAre(1, 2, 3, 4));
}

}  // namespace
}  // namespace muster::worker
