#include "controller/uploads/upload_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "common/os/sha256.h"
#include "common/upload/limits.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace muster::controller {
namespace {

using ::muster::testing::StatusIs;
using ::muster::testing::TempDir;
using ::testing::HasSubstr;

constexpr uint64_t kRoom = 1000;

class UploadStoreTest : public ::testing::Test {
 protected:
  void SetUp() override { Open(PosixFileSystem()); }

  void Open(FileSystem& fs) {
    store_.reset();
    auto store = UploadStore::Open(
        {.folder = dir_ / "uploads", .max_bytes = kRoom, .referred = [this] { return referred_; }},
        fs, clock_);
    ASSERT_OK(store);
    store_ = *std::move(store);
  }
  absl::Status Put(const std::string& bytes) {
    return PutAs(Sha256Hex(bytes), bytes.size(), bytes);
  }
  absl::Status PutAs(const std::string& sha256, uint64_t size, const std::string& bytes) {
    auto incoming = store_->Begin(sha256, size);
    if (!incoming.ok()) return incoming.status();
    if (absl::Status status = (*incoming)->Append(bytes); !status.ok()) return status;
    return (*incoming)->Commit();
  }
  // All of it, as an agent fetches it.
  absl::StatusOr<std::string> Fetch(const std::string& sha256) {
    UploadStore::Outgoing outgoing(*store_, sha256);
    std::string bytes;
    while (true) {
      absl::StatusOr<std::string> piece = outgoing.Next();
      if (!piece.ok() || piece->empty()) return piece.ok() ? bytes : piece;
      bytes += *piece;
    }
  }
  size_t Files() { return PosixFileSystem().List(dir_ / "uploads")->size(); }

  TempDir dir_;
  SimulatedClock clock_;
  std::map<std::string, absl::Duration> referred_;
  std::unique_ptr<UploadStore> store_;
};

// Somebody makes room by hand. Found all the same, each start fails and nobody sends it again.
TEST_F(UploadStoreTest, WhatSomebodyRemovedOrCutCanBeSentAgain) {
  const std::string bytes(900, 'x');
  const std::string path = dir_ / ("uploads/" + Sha256Hex(bytes));
  for (const bool cut : {false, true}) {
    ASSERT_OK(Put(bytes));
    ASSERT_OK(Fetch(Sha256Hex(bytes)));
    if (cut) {
      std::filesystem::resize_file(path, 899);
    } else {
      std::filesystem::remove(path);
    }
    const auto gone = Fetch(Sha256Hex(bytes));
    EXPECT_THAT(gone, StatusIs(absl::StatusCode::kNotFound));
    EXPECT_THAT(std::string(gone.status().message()), HasSubstr("submit it again"));
    EXPECT_FALSE(store_->Find(Sha256Hex(bytes)));
    EXPECT_EQ(store_->total_bytes(), 0u);
  }
  ASSERT_OK(Put(bytes));
  EXPECT_TRUE(store_->Find(Sha256Hex(bytes)));
}

TEST_F(UploadStoreTest, WhatWasCutOrChangedIsNotBackAfterARestart) {
  const std::string bytes(900, 'x');
  const std::string path = dir_ / ("uploads/" + Sha256Hex(bytes));
  for (const bool cut : {false, true}) {
    ASSERT_OK(Put(bytes));
    if (cut) {
      std::filesystem::resize_file(path, 899);
    } else {
      std::ofstream(path) << std::string(900, 'y');
    }
    Open(PosixFileSystem());
    const auto gone = Fetch(Sha256Hex(bytes));
    EXPECT_THAT(gone, StatusIs(absl::StatusCode::kNotFound));
    EXPECT_THAT(std::string(gone.status().message()), HasSubstr("submit it again"));
    EXPECT_EQ(Files(), 0u);
    Open(PosixFileSystem());
    EXPECT_FALSE(store_->Find(Sha256Hex(bytes)));
    EXPECT_EQ(store_->total_bytes(), 0u);
  }
}

// Also after it was given out once, and found whole.
TEST_F(UploadStoreTest, WhatWasChangedIsNotGivenOutAsWhole) {
  const std::string bytes(900, 'x');
  ASSERT_OK(Put(bytes));
  ASSERT_OK(Fetch(Sha256Hex(bytes)));
  std::ofstream(dir_ / ("uploads/" + Sha256Hex(bytes))) << std::string(900, 'y');
  EXPECT_THAT(Fetch(Sha256Hex(bytes)), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_FALSE(store_->Find(Sha256Hex(bytes)));
}

TEST_F(UploadStoreTest, WhatCameAnewOutlivesAReaderOfTheChangedOne) {
  const std::string bytes(900, 'x');
  ASSERT_OK(Put(bytes));
  std::ofstream(dir_ / ("uploads/" + Sha256Hex(bytes))) << std::string(900, 'y');
  UploadStore::Outgoing slow(*store_, Sha256Hex(bytes));
  ASSERT_OK(slow.Next());
  EXPECT_THAT(Fetch(Sha256Hex(bytes)), StatusIs(absl::StatusCode::kNotFound));
  ASSERT_OK(Put(bytes));
  EXPECT_THAT(slow.Next(), StatusIs(absl::StatusCode::kUnavailable));
  ASSERT_OK_AND_ASSIGN(const std::string again, Fetch(Sha256Hex(bytes)));
  EXPECT_EQ(again, bytes);
}

TEST_F(UploadStoreTest, WhatCannotBeReadForAMomentStays) {
  const std::string bytes(900, 'x');
  ASSERT_OK(Put(bytes));
  const std::string path = dir_ / ("uploads/" + Sha256Hex(bytes));
  std::filesystem::rename(path, dir_ / "aside");
  std::filesystem::create_directory(path);  // opens, and gives no bytes
  EXPECT_THAT(Fetch(Sha256Hex(bytes)), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_FALSE(store_->Find(Sha256Hex(bytes))) << "who has it may send it again";
  std::filesystem::remove(path);
  std::filesystem::rename(dir_ / "aside", path);
  ASSERT_OK_AND_ASSIGN(const std::string piece, Fetch(Sha256Hex(bytes)));
  EXPECT_EQ(piece, bytes);
  EXPECT_TRUE(store_->Find(Sha256Hex(bytes)));
}

TEST_F(UploadStoreTest, WhatCannotBeReadAnyMoreIsReplacedByWhatIsSentAgain) {
  const std::string bytes(900, 'x');
  ASSERT_OK(Put(bytes));
  const std::string path = dir_ / ("uploads/" + Sha256Hex(bytes));
  std::filesystem::remove(path);
  std::filesystem::create_symlink(path, path);  // cannot be opened, however often it is tried
  ASSERT_THAT(Fetch(Sha256Hex(bytes)), StatusIs(absl::StatusCode::kUnavailable));
  ASSERT_FALSE(store_->Find(Sha256Hex(bytes)));
  ASSERT_OK(Put(bytes));
  EXPECT_TRUE(store_->Find(Sha256Hex(bytes)));
  EXPECT_EQ(store_->total_bytes(), bytes.size());
  ASSERT_OK_AND_ASSIGN(const std::string again, Fetch(Sha256Hex(bytes)));
  EXPECT_EQ(again, bytes);
}

// A crash of the disk left a few bytes of it, which cannot be read either.
TEST_F(UploadStoreTest, WhatReplacesAnUnreadableOneCountsWithItsOwnSize) {
  const std::string bytes(900, 'x');
  ASSERT_OK(Put(bytes));
  const std::string path = dir_ / ("uploads/" + Sha256Hex(bytes));
  std::ofstream(path, std::ios::trunc) << "ten bytes.";
  Open(PosixFileSystem());
  ASSERT_EQ(store_->total_bytes(), 10u);
  std::filesystem::remove(path);
  std::filesystem::create_symlink(path, path);
  ASSERT_THAT(Fetch(Sha256Hex(bytes)), StatusIs(absl::StatusCode::kUnavailable));
  ASSERT_OK(Put(bytes));
  EXPECT_EQ(store_->total_bytes(), bytes.size());
}

TEST_F(UploadStoreTest, WhatWasPutIsThereAlsoAfterARestart) {
  const std::string bytes(UploadStore::kPieceBytes / 512, 'x');
  EXPECT_FALSE(store_->Find(Sha256Hex(bytes)));
  ASSERT_OK(Put(bytes));
  Open(PosixFileSystem());
  EXPECT_TRUE(store_->Find(Sha256Hex(bytes)));
  EXPECT_EQ(store_->total_bytes(), bytes.size());
  ASSERT_OK_AND_ASSIGN(const std::string piece, Fetch(Sha256Hex(bytes)));
  EXPECT_EQ(piece, bytes);
  EXPECT_THAT(Fetch(Sha256Hex("other")), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(Fetch("../token"), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(UploadStoreTest, WhatIsNotWhatItSaysLeavesNothing) {
  const auto bad = StatusIs(absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(PutAs(Sha256Hex("a"), 1, "b"), bad);
  EXPECT_THAT(PutAs(Sha256Hex("abc"), 3, "ab"), bad) << "truncated";
  EXPECT_THAT(PutAs(Sha256Hex("abc"), 2, "abc"), bad) << "too long";
  EXPECT_THAT(PutAs("../x", 1, "a"), bad);
  EXPECT_THAT(PutAs(std::string(64, 'A'), 1, "a"), bad);
  EXPECT_THAT(PutAs(Sha256Hex(""), 0, ""), bad);
  EXPECT_THAT(PutAs(Sha256Hex("a"), kMaxUploadBytes + 1, "a"), bad);
  EXPECT_EQ(Files(), 0u);
  EXPECT_EQ(store_->total_bytes(), 0u);
  ASSERT_OK(Put(std::string(kRoom, 'x'))) << "and no room is lost";
}

TEST_F(UploadStoreTest, RoomIsMadeByTheOldestThatNoLiveJobNeeds) {
  const std::string a(400, 'a'), b(400, 'b'), c(400, 'c');
  ASSERT_OK(Put(a));
  clock_.Advance(absl::Minutes(1));
  ASSERT_OK(Put(b));
  EXPECT_THAT(Put(c), StatusIs(absl::StatusCode::kResourceExhausted)) << "a submit may follow both";
  clock_.Advance(UploadStore::kKeepAlways);
  referred_ = {{Sha256Hex(a), absl::ZeroDuration()}, {Sha256Hex(b), absl::ZeroDuration()}};
  const absl::Status full = Put(c);
  EXPECT_THAT(full, StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(std::string(full.message()), HasSubstr("--uploads-max-bytes"));
  // Where room is short an ended job keeps it for no longer than a submit may take to follow.
  clock_.Advance(UploadStore::kKeepAlways);
  referred_[Sha256Hex(b)] = UploadStore::kKeepAlways;
  ASSERT_OK(Put(c));
  EXPECT_TRUE(store_->Find(Sha256Hex(a)));
  EXPECT_FALSE(store_->Find(Sha256Hex(b)));
  EXPECT_EQ(Files(), 2u);
}

TEST_F(UploadStoreTest, WhatNobodyAskedForInAnHourGoes) {
  for (const char* bytes : {"old", "live", "ended", "ended long ago"}) ASSERT_OK(Put(bytes));
  referred_ = {{Sha256Hex("live"), absl::ZeroDuration()},
               {Sha256Hex("ended"), UploadStore::kKeep / 2},
               {Sha256Hex("ended long ago"), UploadStore::kKeep}};
  clock_.Advance(2 * UploadStore::kKeep);
  ASSERT_OK(Put("new"));
  EXPECT_FALSE(store_->Find(Sha256Hex("old")));
  EXPECT_FALSE(store_->Find(Sha256Hex("ended long ago")));
  EXPECT_TRUE(store_->Find(Sha256Hex("live")));
  EXPECT_TRUE(store_->Find(Sha256Hex("ended"))) << "the job may be queued again";
}

TEST_F(UploadStoreTest, TooManyAtATimeAreTurnedAway) {
  std::vector<std::unique_ptr<UploadStore::Incoming>> open;
  for (size_t i = 0; i < UploadStore::kMaxIncoming; ++i) {
    auto incoming = store_->Begin(Sha256Hex(absl::StrCat(i)), 1);
    ASSERT_OK(incoming);
    open.push_back(*std::move(incoming));
  }
  EXPECT_THAT(store_->Begin(Sha256Hex("x"), 1), StatusIs(absl::StatusCode::kResourceExhausted));
  open.clear();
  EXPECT_EQ(Files(), 0u);
  ASSERT_OK(Put("x"));
}

TEST_F(UploadStoreTest, WhatACrashLeftIsRemovedAtTheStart) {
  ASSERT_OK_AND_ASSIGN(auto file, PosixFileSystem().CreateExclusive(
                                      dir_ / ("uploads/" + Sha256Hex("a") + ".7.tmp")));
  ASSERT_OK(file->Close());
  Open(PosixFileSystem());
  EXPECT_EQ(Files(), 0u);
}

TEST_F(UploadStoreTest, ADiskThatFailsAnywhereLeavesItWholeOrNotThere) {
  const std::string bytes(300, 'x');
  bool passed = false;
  int n = 0;
  while (!passed) {
    muster::testing::FaultyFileSystem fs(PosixFileSystem());
    ASSERT_OK(PosixFileSystem().RemoveTree(dir_ / "uploads"));
    ASSERT_NO_FATAL_FAILURE(Open(fs));
    fs.FailAt(++n, absl::ResourceExhaustedError("disk full"));
    const int before = fs.operations();
    const absl::Status put = Put(bytes);
    passed = fs.operations() - before < n;
    EXPECT_EQ(put.ok(), passed) << n;
    EXPECT_EQ(store_->Find(Sha256Hex(bytes)), passed) << n;
    ASSERT_NO_FATAL_FAILURE(Open(PosixFileSystem()));
    // What was renamed but not promised may be there; then it is whole.
    const absl::StatusOr<std::string> piece = Fetch(Sha256Hex(bytes));
    if (piece.ok()) {
      EXPECT_EQ(*piece, bytes) << n;
    }
    ASSERT_OK(Put(bytes));
    ASSERT_NO_FATAL_FAILURE(Open(PosixFileSystem()));
    EXPECT_EQ(store_->total_bytes(), bytes.size()) << n;
  }
  EXPECT_GE(n, 6) << "create, append, sync, close, rename, syncdir";
}

}  // namespace
}  // namespace muster::controller
