#include "worker/checkpoint/saver.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <stdexcept>

#include "absl/strings/str_cat.h"
#include "common/base/mutex.h"
#include "common/ckpt/checkpoint_finder.h"
#include "common/ckpt/checkpoint_root.h"
#include "common/ckpt/safetensors.h"
#include "common/fs/durable_folder.h"
#include "tests/support/crash_file_system.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "worker/checkpoint/restore.h"

namespace muster::worker {
namespace {

using ::absl::StatusCode;
using ::muster::testing::CrashFileSystem;
using ::muster::testing::FaultyFileSystem;
using ::muster::testing::StatusIs;
using ::muster::testing::TempDir;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr absl::Duration kLong = absl::Minutes(1);

// Answers at once, or holds each save before its rename until Release.
class FakePublisher final : public Publisher {
 public:
  void Begin(int64_t step) override { Record("begin", step); }
  absl::Status AwaitPublish(const CheckpointNews& news) override {
    Record("ready", news.step);
    return AwaitRelease(held_, news.step, publish_status);
  }
  absl::Status AwaitCommitted(const CheckpointNews& news) override {
    Record("commit", news.step);
    return AwaitRelease(commits_held_, news.step, commit_status);
  }
  void Supersede(int64_t step) override {
    MutexLock lock(mutex_);
    superseded_.insert(step);
    changed_.NotifyAll();
  }
  void Failed(int64_t step, const absl::Status&) override { Record("failed", step); }

  void Hold() {
    MutexLock lock(mutex_);
    held_ = true;
  }
  void HoldCommits() {
    MutexLock lock(mutex_);
    commits_held_ = true;
  }
  void Release() {
    MutexLock lock(mutex_);
    held_ = commits_held_ = false;
    changed_.NotifyAll();
  }
  void AwaitCall(const std::string& call) {
    MutexLock lock(mutex_);
    while (std::find(calls_.begin(), calls_.end(), call) == calls_.end()) changed_.Wait(mutex_);
  }
  std::vector<std::string> calls() {
    MutexLock lock(mutex_);
    return calls_;
  }

  absl::Status publish_status;
  absl::Status commit_status;

 private:
  absl::Status AwaitRelease(const bool& held, int64_t step, const absl::Status& status) {
    MutexLock lock(mutex_);
    while (held && superseded_.count(step) == 0) changed_.Wait(mutex_);
    return held ? absl::AbortedError("superseded") : status;
  }
  void Record(const std::string& what, int64_t step) {
    MutexLock lock(mutex_);
    calls_.push_back(what + " " + std::to_string(step));
    changed_.NotifyAll();
  }

  Mutex mutex_;
  CondVar changed_;
  bool held_ MUSTER_GUARDED_BY(mutex_) = false;
  bool commits_held_ MUSTER_GUARDED_BY(mutex_) = false;
  std::set<int64_t> superseded_ MUSTER_GUARDED_BY(mutex_);
  std::vector<std::string> calls_ MUSTER_GUARDED_BY(mutex_);
};

class SaverTest : public ::testing::Test {
 protected:
  void Start(FileSystem& fs = PosixFileSystem(), uint32_t attempt = 1) {
    SaverOptions options;
    options.root = root_;
    options.job_id = 7;
    options.job_name = "digits";
    options.attempt = attempt;
    options.generation = 1;
    options.nonce_seed = 99;
    options.holder = holder_;
    auto saver = Saver::Create(fs, publisher_, options);
    ASSERT_OK(saver);
    saver_ = *std::move(saver);
  }

  SaveAdmission Save(int64_t step, bool best = false, bool urgent = false) {
    SaveRequest request;
    request.urgent = urgent;
    request.step = step;
    request.epoch = 0.5;
    request.best = best;
    request.metrics = {{"validation_accuracy", 0.5}};
    request.model = &model_;
    request.optimizer = &optimizer_;
    request.state_json = R"({"step": )" + std::to_string(step) + "}";
    return saver_->Save(request);
  }

  std::vector<std::string> Names() {
    std::vector<std::string> names;
    const auto files = PosixFileSystem().List(root_);
    for (const FileInfo& file : files.value()) names.push_back(file.name);
    return names;
  }

  std::string FolderOf(int64_t step) { return root_ + "/step-" + std::to_string(step) + ".a1.g1"; }

  TempDir dir_;
  std::string root_ = dir_ / "job-7";
  CheckpointRoot holder_;  // none: nothing is checked
  NamedTensors model_ = {{"w", at::arange(6, at::kFloat).reshape({2, 3})},
                         {"steps", at::full({}, 3, at::kLong)}};
  NamedTensors optimizer_ = {{"w.exp_avg", at::full({2, 3}, 0.25)}};
  FakePublisher publisher_;
  std::unique_ptr<Saver> saver_;  // last: it uses the others
};

TEST_F(SaverTest, WhatItsCheckRefusesIsNotSaved) {
  Start();
  SaveRequest request;
  request.step = 1;
  request.model = &model_;
  request.optimizer = &optimizer_;
  request.check = [] { throw std::runtime_error("lost another rank"); };
  EXPECT_THROW(saver_->Save(request), std::runtime_error);
  EXPECT_OK(saver_->Flush(absl::Seconds(60)));
  EXPECT_THAT(saver_->TakeOutcomes(), IsEmpty());
  EXPECT_THAT(Names(), IsEmpty());
}

TEST_F(SaverTest, WhatIsSavedComesBackBitForBit) {
  Start();
  EXPECT_EQ(Save(10), SaveAdmission::kStarted);
  ASSERT_OK(saver_->Flush(kLong));
  const std::vector<SaveOutcome> outcomes = saver_->TakeOutcomes();
  ASSERT_EQ(outcomes.size(), 1u);
  EXPECT_OK(outcomes[0].status);
  EXPECT_EQ(outcomes[0].news.path, FolderOf(10));
  EXPECT_GT(outcomes[0].news.bytes, 0u);
  EXPECT_THAT(publisher_.calls(), ElementsAre("begin 10", "ready 10", "commit 10"));

  ASSERT_OK_AND_ASSIGN(
      const VerifiedCheckpoint checkpoint,
      ReadAndVerifyCheckpoint(PosixFileSystem(), FolderOf(10), outcomes[0].news.manifest_sha256));
  EXPECT_EQ(checkpoint.manifest.job_id, 7u);
  EXPECT_EQ(checkpoint.manifest.epoch, 0.5);
  EXPECT_EQ(checkpoint.manifest.metrics.at("validation_accuracy"), 0.5);

  NamedTensors loaded = {{"w", at::zeros({2, 3})}, {"steps", at::zeros({}, at::kLong)}};
  ASSERT_OK(LoadTensors(PosixFileSystem(), FolderOf(10) + "/" + kModelFile, loaded));
  EXPECT_TRUE(at::equal(loaded[0].tensor, model_[0].tensor));
  EXPECT_TRUE(at::equal(loaded[1].tensor, model_[1].tensor));
  EXPECT_EQ(LoadStateJson(PosixFileSystem(), FolderOf(10)).value(), R"({"step": 10})");
}

TEST_F(SaverTest, WhatTheLoopChangesAfterSaveIsNotInTheFile) {
  publisher_.Hold();
  Start();
  Save(10);
  Save(20);
  model_[0].tensor.zero_();
  publisher_.Release();
  ASSERT_OK(saver_->Flush(kLong));
  for (const int64_t step : {10, 20}) {
    NamedTensors loaded = {{"w", at::zeros({2, 3})}, {"steps", at::zeros({}, at::kLong)}};
    ASSERT_OK(LoadTensors(PosixFileSystem(), FolderOf(step) + "/" + kModelFile, loaded));
    EXPECT_EQ(loaded[0].tensor.sum().item<float>(), 15);
  }
}

TEST_F(SaverTest, ANewerSnapshotTakesThePlaceOfTheWaitingOne) {
  publisher_.Hold();
  Start();
  Save(10);
  publisher_.AwaitCall("ready 10");
  EXPECT_EQ(Save(20), SaveAdmission::kWaiting);
  EXPECT_EQ(Save(30), SaveAdmission::kWaiting);
  EXPECT_THAT(saver_->Flush(absl::ZeroDuration()), StatusIs(StatusCode::kDeadlineExceeded));
  publisher_.Release();
  ASSERT_OK(saver_->Flush(kLong));
  EXPECT_THAT(Names(), ElementsAre("step-10.a1.g1", "step-30.a1.g1"));
}

TEST_F(SaverTest, AWaitingBestOneGivesWayOnlyToABetterOne) {
  publisher_.Hold();
  Start();
  Save(10);
  publisher_.AwaitCall("ready 10");
  EXPECT_EQ(Save(20, /*best=*/true), SaveAdmission::kWaiting);
  EXPECT_EQ(Save(30), SaveAdmission::kSkipped);
  EXPECT_EQ(Save(40, /*best=*/true), SaveAdmission::kWaiting);
  EXPECT_EQ(Save(50), SaveAdmission::kSkipped);
  publisher_.Release();
  ASSERT_OK(saver_->Flush(kLong));
  EXPECT_THAT(Names(), ElementsAre("step-10.a1.g1", "step-40.a1.g1"));
}

std::vector<std::pair<int64_t, absl::StatusCode>> EndsOf(std::vector<SaveOutcome> outcomes) {
  std::vector<std::pair<int64_t, absl::StatusCode>> ends;
  for (const SaveOutcome& outcome : outcomes)
    ends.emplace_back(outcome.news.step, outcome.status.code());
  return ends;
}

TEST_F(SaverTest, AnUrgentOneWaitsNeitherForALeaseNorForACommitOfTheOneInFlight) {
  for (const bool before_rename : {true, false}) {
    before_rename ? publisher_.Hold() : publisher_.HoldCommits();
    Start();
    const int64_t step = before_rename ? 10 : 11;
    Save(step);
    publisher_.AwaitCall((before_rename ? "ready " : "commit ") + std::to_string(step));
    // It starts at once where the one in flight has given up already.
    EXPECT_NE(Save(step + 10, /*best=*/false, /*urgent=*/true), SaveAdmission::kSkipped);
    publisher_.AwaitCall((before_rename ? "ready " : "commit ") + std::to_string(step + 10));
    publisher_.Release();
    ASSERT_OK(saver_->Flush(kLong));
    EXPECT_THAT(EndsOf(saver_->TakeOutcomes()), ElementsAre(std::pair(step, StatusCode::kAborted),
                                                            std::pair(step + 10, StatusCode::kOk)));
    saver_.reset();
  }
  // What had its name keeps it: the next attempt may find it whole.
  EXPECT_THAT(Names(), UnorderedElementsAre("step-20.a1.g1", "step-11.a1.g1", "step-21.a1.g1"));
}

TEST_F(SaverTest, AnUrgentOneTakesThePlaceOfTheWaitingOneButABestOneIsWrittenFirst) {
  publisher_.Hold();
  Start();
  Save(10);
  publisher_.AwaitCall("ready 10");
  Save(20, /*best=*/true);
  EXPECT_NE(Save(30, /*best=*/false, /*urgent=*/true), SaveAdmission::kSkipped);
  publisher_.HoldCommits();
  publisher_.AwaitCall("ready 20");  // the run's result is its best checkpoint
  publisher_.Release();
  ASSERT_OK(saver_->Flush(kLong));
  EXPECT_EQ(saver_->TakeOutcomes().size(), 3u);
  EXPECT_THAT(Names(), ElementsAre("step-20.a1.g1", "step-30.a1.g1"));
}

// A disk that takes its time, in the middle of a file.
TEST_F(SaverTest, AnUrgentOneEndsTheWritingOfTheOneInFlight) {
  Start();
  model_.push_back({"large", at::zeros({64 << 20})});  // 256 MiB, in pieces of 4
  Save(10);
  publisher_.AwaitCall("begin 10");
  NamedTensors large = {model_.back()};
  model_.pop_back();
  Save(20, /*best=*/false, /*urgent=*/true);
  ASSERT_OK(saver_->Flush(kLong));
  const auto ends = EndsOf(saver_->TakeOutcomes());
  EXPECT_THAT(ends, ElementsAre(std::pair(int64_t{10}, StatusCode::kAborted),
                                std::pair(int64_t{20}, StatusCode::kOk)));
  const std::vector<std::string> calls = publisher_.calls();
  EXPECT_EQ(std::count(calls.begin(), calls.end(), "ready 10"), 0);
  EXPECT_THAT(Names(), ElementsAre("step-20.a1.g1"));
}

TEST_F(SaverTest, ASaveWaitsForItsRootAndMakesNothingMeanwhile) {
  holder_ = {.path = dir_.path(), .identity = "abc1"};
  ASSERT_OK(ClaimRoot(PosixFileSystem(), {dir_.path(), "abc1"}, {}, "test"));
  Start();
  Save(10);
  ASSERT_OK(saver_->Flush(kLong));
  const std::string marker = dir_ / kRootMarker;
  std::filesystem::rename(marker, dir_ / "kept");
  std::filesystem::rename(root_, dir_ / "away");
  Save(20);
  publisher_.AwaitCall("begin 20");
  EXPECT_THAT(saver_->Flush(absl::Milliseconds(100)), StatusIs(StatusCode::kDeadlineExceeded));
  EXPECT_FALSE(std::filesystem::exists(root_));
  std::filesystem::rename(dir_ / "away", root_);
  std::filesystem::rename(dir_ / "kept", marker);
  ASSERT_OK(saver_->Flush(kLong));
  EXPECT_THAT(Names(), ElementsAre("step-10.a1.g1", "step-20.a1.g1"));
  for (const SaveOutcome& outcome : saver_->TakeOutcomes()) EXPECT_OK(outcome.status);
}

TEST_F(SaverTest, ASaverThatGoesWaitsForNoRoot) {
  holder_ = {.path = dir_.path(), .identity = "abc1"};
  ASSERT_OK(ClaimRoot(PosixFileSystem(), {dir_.path(), "abc1"}, {}, "test"));
  Start();
  std::filesystem::remove(dir_ / kRootMarker);
  Save(10);
  publisher_.AwaitCall("begin 10");
  saver_.reset();
  EXPECT_THAT(publisher_.calls(), ElementsAre("begin 10", "failed 10"));
}

TEST_F(SaverTest, NoneIsMadeWhereTheRootIsNotSeen) {
  SaverOptions options;
  options.root = root_;
  options.holder = {.path = dir_.path(), .identity = "abc1"};
  EXPECT_THAT(Saver::Create(PosixFileSystem(), publisher_, options),
              StatusIs(StatusCode::kUnavailable, HasSubstr("is it mounted?")));
  EXPECT_FALSE(std::filesystem::exists(root_));
}

// From begin to commit, through a loss of power at each call: what the controller was told of is
// there afterwards.
TEST_F(SaverTest, WhatIsCommittedOutlivesALossOfPowerAtEachCall) {
  constexpr int kMaxOperations = 200;
  root_ = "/data/ckpt/job-7";
  for (const auto luck : {CrashFileSystem::Luck::kNone, CrashFileSystem::Luck::kNames,
                          CrashFileSystem::Luck::kSome}) {
    bool passed = false;
    for (int n = 1; !passed && n < kMaxOperations; ++n) {
      CrashFileSystem fs;
      ASSERT_OK(MakeDurableFolder(fs, "/data/ckpt"));
      fs.LosePowerAt(n);
      SaverOptions options;
      options.root = root_;
      options.job_id = 7;
      options.job_name = "digits";
      options.attempt = 1;
      options.generation = 1;
      FakePublisher publisher;
      auto saver = Saver::Create(fs, publisher, options);
      std::vector<SaveOutcome> outcomes;
      if (saver.ok()) {
        saver_ = *std::move(saver);
        Save(10);
        ASSERT_OK(saver_->Flush(kLong));
        outcomes = saver_->TakeOutcomes();
        saver_.reset();
      }
      passed = !fs.is_off();
      fs.LosePower();
      fs.PowerOn(luck, n);
      SCOPED_TRACE(absl::StrCat("call ", n));
      const std::vector<std::string> calls = publisher.calls();
      const bool told = std::find(calls.begin(), calls.end(), "commit 10") != calls.end();
      FindRequest request;
      request.root = root_;
      request.job_id = 7;
      request.job_name = "digits";
      request.attempt = 2;
      request.on_bad = [](const CheckpointCandidate& candidate, const absl::Status& status) {
        ADD_FAILURE() << "half there: " << candidate.path << ": " << status;
      };
      const auto found = FindCheckpoint(fs, request);
      ASSERT_OK(found);
      if (told) {
        EXPECT_TRUE(found->has_value()) << "committed, and gone";
      }
      if (passed) {
        EXPECT_TRUE(told);
      }
    }
    EXPECT_TRUE(passed);
  }
}

TEST_F(SaverTest, NothingIsPublishedBeforeTheAgentAllowsIt) {
  publisher_.Hold();
  Start();
  Save(10);
  publisher_.AwaitCall("ready 10");
  ASSERT_EQ(Names().size(), 1u);
  EXPECT_THAT(Names()[0], HasSubstr(".tmp"));
  publisher_.Release();
  ASSERT_OK(saver_->Flush(kLong));
  EXPECT_THAT(Names(), ElementsAre("step-10.a1.g1"));
}

TEST_F(SaverTest, WhatMayNotBePublishedIsRemoved) {
  publisher_.publish_status = absl::CancelledError("the rank leaves");
  Start();
  Save(10);
  ASSERT_OK(saver_->Flush(kLong));
  EXPECT_THAT(saver_->TakeOutcomes().at(0).status, StatusIs(StatusCode::kCancelled));
  EXPECT_THAT(Names(), ElementsAre());
  EXPECT_THAT(publisher_.calls(), ElementsAre("begin 10", "ready 10", "failed 10"));
}

TEST_F(SaverTest, ARefusedCommitLeavesTheWholeFolderForTheNextAttempt) {
  publisher_.commit_status = absl::FailedPreconditionError("fenced");
  Start();
  Save(10);
  ASSERT_OK(saver_->Flush(kLong));
  EXPECT_THAT(saver_->TakeOutcomes().at(0).status, StatusIs(StatusCode::kFailedPrecondition));
  EXPECT_THAT(publisher_.calls(), ElementsAre("begin 10", "ready 10", "commit 10"));
  FindRequest request;
  request.root = root_;
  request.job_id = 7;
  request.job_name = "digits";
  request.attempt = 2;
  ASSERT_OK_AND_ASSIGN(const auto found, FindCheckpoint(PosixFileSystem(), request));
  ASSERT_TRUE(found.has_value());
  EXPECT_TRUE(found->adopted);
}

TEST_F(SaverTest, AFullDiskFailsTheSaveAtEachPlaceAndTheNextOneWorks) {
  FaultyFileSystem fs(PosixFileSystem());
  Start(fs);
  int failures = 0;
  for (int n = 1; n < 100; ++n) {
    fs.FailAt(n, absl::ResourceExhaustedError("no space left on device"));
    Save(n);
    ASSERT_OK(saver_->Flush(kLong));
    const SaveOutcome outcome = saver_->TakeOutcomes().at(0);
    if (outcome.status.ok()) break;
    EXPECT_THAT(outcome.status, StatusIs(StatusCode::kResourceExhausted)) << n;
    ++failures;
    for (const std::string& name : Names()) EXPECT_THAT(name, Not(HasSubstr(".tmp"))) << n;
  }
  EXPECT_GT(failures, 15);
  EXPECT_LT(failures, 98);
}

TEST_F(SaverTest, AStartRemovesWhatOlderAttemptsLeftHalfWritten) {
  ASSERT_OK(PosixFileSystem().MakeDirectories(root_ + "/step-5.a1.g1.abc.tmp"));
  ASSERT_OK(PosixFileSystem().MakeDirectories(root_ + "/step-5.a1.g1"));
  Start(PosixFileSystem(), /*attempt=*/2);
  EXPECT_THAT(Names(), ElementsAre("step-5.a1.g1"));
}

TEST_F(SaverTest, ARootThatCannotBeMadeIsAnError) {
  ASSERT_OK(WriteFileAtomically(PosixFileSystem(), dir_ / "file", "x"));
  SaverOptions options;
  options.root = dir_ / "file/job";
  EXPECT_THAT(Saver::Create(PosixFileSystem(), publisher_, options),
              StatusIs(StatusCode::kAlreadyExists, HasSubstr("file is not a folder")));
}

TEST_F(SaverTest, GoingAwayDropsTheWaitingSnapshot) {
  publisher_.Hold();
  Start();
  Save(10);
  publisher_.AwaitCall("ready 10");
  Save(20);
  publisher_.publish_status = absl::CancelledError("the rank leaves");
  publisher_.Release();
  saver_.reset();
  EXPECT_THAT(publisher_.calls(), ::testing::Contains("failed 10"));
}

class RestoreTest : public ::testing::Test {
 protected:
  void Write(const std::vector<TensorBytes>& tensors) {
    std::string bytes;
    ASSERT_OK(WriteSafetensors(tensors, [&](absl::string_view piece) {
      bytes.append(piece.data(), piece.size());
      return absl::OkStatus();
    }));
    ASSERT_OK(WriteFileAtomically(PosixFileSystem(), file_, bytes));
  }
  absl::Status Load(const NamedTensors& targets) {
    return LoadTensors(PosixFileSystem(), file_, targets);
  }

  TempDir dir_;
  const std::string file_ = dir_ / "m.safetensors";
  const std::string zeros_ = std::string(64, '\0');
};

TEST_F(RestoreTest, WhatDoesNotFitIsListedAndNothingIsCopied) {
  const absl::string_view zeros = zeros_;
  Write({{"a", TensorType::kF32, {2}, zeros.substr(0, 8)},
         {"b", TensorType::kF32, {2}, zeros.substr(0, 8)},
         {"c", TensorType::kF32, {2}, zeros.substr(0, 8)},
         {"extra", TensorType::kF32, {2}, zeros.substr(0, 8)}});
  const NamedTensors targets = {{"a", at::ones({2})},
                                {"b", at::ones({3})},
                                {"c", at::ones({2}, at::kDouble)},
                                {"gone", at::ones({2})}};
  EXPECT_THAT(Load(targets), StatusIs(StatusCode::kFailedPrecondition,
                                      ::testing::AllOf(HasSubstr(file_), HasSubstr("missing: gone"),
                                                       HasSubstr("unexpected: extra"),
                                                       HasSubstr("b (F32[2], want F32[3])"),
                                                       HasSubstr("c (F32[2], want F64[2])"))));
  EXPECT_EQ(targets[0].tensor.sum().item<float>(), 2);
}

TEST_F(RestoreTest, WhatAFileLacksIsReadFromWhatStandsForIt) {
  const std::vector<float> values = {1, 2};
  const absl::string_view bytes(reinterpret_cast<const char*>(values.data()), 8);
  Write({{"a", TensorType::kF32, {2}, bytes}});
  const at::Tensor own = at::zeros({2}), second = at::zeros({2});
  ASSERT_OK(Load({{"a", own}, {"b", second, "a"}}));
  EXPECT_TRUE(at::equal(own, at::tensor(values)));
  EXPECT_TRUE(at::equal(second, own));
  EXPECT_THAT(Load({{"a", own}, {"b", at::zeros({3}), "a"}}),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("b (F32[2], want F32[3])")));
  EXPECT_THAT(Load({{"a", own}, {"b", second, "c"}}),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("missing: b")));
  Write({{"a", TensorType::kF32, {2}, zeros_.substr(0, 8)}, {"b", TensorType::kF32, {2}, bytes}});
  ASSERT_OK(Load({{"a", own}, {"b", second, "a"}}));
  EXPECT_TRUE(at::equal(second, at::tensor(values))) << "its own goes first";
}

TEST_F(RestoreTest, ManyDifferencesAreCounted) {
  Write({});
  NamedTensors targets;
  for (int i = 0; i < 9; ++i) targets.push_back({"t" + std::to_string(i), at::ones({1})});
  EXPECT_THAT(Load(targets), StatusIs(StatusCode::kFailedPrecondition,
                                      HasSubstr("missing: t0, t1, t2, t3, t4 and 4 more")));
}

TEST_F(RestoreTest, StridedAndTrainedTargetsAreFilledInPlace) {
  const std::vector<float> values = {1, 2, 3, 4};
  Write({{"w",
          TensorType::kF32,
          {2, 2},
          absl::string_view(reinterpret_cast<const char*>(values.data()), 16)}});
  const at::Tensor transposed = at::zeros({2, 2}).t();
  ASSERT_OK(Load({{"w", transposed}}));
  EXPECT_TRUE(at::equal(transposed, at::tensor(values).reshape({2, 2})));
  at::Tensor leaf = at::zeros({2, 2});
  leaf.set_requires_grad(true);
  ASSERT_OK(Load({{"w", leaf}}));
  EXPECT_TRUE(at::equal(leaf, transposed));
  EXPECT_TRUE(leaf.is_leaf());
}

TEST_F(RestoreTest, EveryElementTypeComesBack) {
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16, at::kLong,
                                    at::kInt, at::kByte, at::kBool}) {
    const at::Tensor source = at::tensor({0, 1, 1, 0, 1}).to(type);
    Write(
        {{"t",
          type == at::kDouble     ? TensorType::kF64
          : type == at::kFloat    ? TensorType::kF32
          : type == at::kHalf     ? TensorType::kF16
          : type == at::kBFloat16 ? TensorType::kBF16
          : type == at::kLong     ? TensorType::kI64
          : type == at::kInt      ? TensorType::kI32
          : type == at::kByte     ? TensorType::kU8
                                  : TensorType::kBool,
          {5},
          absl::string_view(static_cast<const char*>(source.const_data_ptr()), source.nbytes())}});
    const at::Tensor target = at::zeros({5}, type);
    ASSERT_OK(Load({{"t", target}}));
    EXPECT_TRUE(at::equal(target, source)) << type;
  }
}

TEST_F(RestoreTest, AMissingOrBrokenFileKeepsItsCode) {
  EXPECT_THAT(Load({}), StatusIs(StatusCode::kNotFound, HasSubstr(file_)));
  ASSERT_OK(WriteFileAtomically(PosixFileSystem(), file_, "short"));
  EXPECT_THAT(Load({}), StatusIs(StatusCode::kDataLoss, HasSubstr(file_)));
  EXPECT_THAT(LoadStateJson(PosixFileSystem(), dir_.path()),
              StatusIs(StatusCode::kNotFound, HasSubstr("state.json")));
}

}  // namespace
}  // namespace muster::worker
