#include "worker/checkpoint/saver.h"

#include <ATen/ATen.h>

#include <filesystem>

#include "common/base/mutex.h"
#include "common/ckpt/checkpoint_finder.h"
#include "common/ckpt/safetensors.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "worker/checkpoint/restore.h"

namespace muster::worker {
namespace {

using ::absl::StatusCode;
using ::muster::testing::FaultyFileSystem;
using ::muster::testing::StatusIs;
using ::muster::testing::TempDir;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr absl::Duration kLong = absl::Minutes(1);

// Answers at once, or holds each save before its rename until Release.
class FakePublisher final : public Publisher {
 public:
  void Begin(int64_t step) override { Record("begin", step); }
  absl::Status AwaitPublish(const CheckpointNews& news) override {
    Record("ready", news.step);
    MutexLock lock(mutex_);
    while (held_) changed_.Wait(mutex_);
    return publish_status;
  }
  absl::Status AwaitCommitted(const CheckpointNews& news) override {
    Record("commit", news.step);
    return commit_status;
  }
  void Failed(int64_t step, const absl::Status&) override { Record("failed", step); }

  void Hold() {
    MutexLock lock(mutex_);
    held_ = true;
  }
  void Release() {
    MutexLock lock(mutex_);
    held_ = false;
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
  void Record(const std::string& what, int64_t step) {
    MutexLock lock(mutex_);
    calls_.push_back(what + " " + std::to_string(step));
    changed_.NotifyAll();
  }

  Mutex mutex_;
  CondVar changed_;
  bool held_ MUSTER_GUARDED_BY(mutex_) = false;
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
    auto saver = Saver::Create(fs, publisher_, options);
    ASSERT_OK(saver);
    saver_ = *std::move(saver);
  }

  SaveAdmission Save(int64_t step, bool best = false) {
    SaveRequest request;
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
  const std::string root_ = dir_ / "job-7";
  NamedTensors model_ = {{"w", at::arange(6, at::kFloat).reshape({2, 3})},
                         {"steps", at::full({}, 3, at::kLong)}};
  NamedTensors optimizer_ = {{"w.exp_avg", at::full({2, 3}, 0.25)}};
  FakePublisher publisher_;
  std::unique_ptr<Saver> saver_;  // last: it uses the others
};

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
