// The small parts of the loop: cadence, failure classes, the guard, the state's codec, autocast.
#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include <cmath>
#include <limits>
#include <stdexcept>

#include "absl/strings/str_cat.h"
#include "tests/support/status_matchers.h"
#include "worker/train/memory/memory_probe.h"
#include "worker/train/run/best.h"
#include "worker/train/run/cadence.h"
#include "worker/train/run/failure.h"
#include "worker/train/run/run_state.h"
#include "worker/train/step/amp.h"
#include "worker/train/step/torch_guard.h"

namespace muster::worker {
namespace {

using muster::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Cadence, EpochsAreDueWhenABatchReachesOverTheirEnd) {
  EXPECT_TRUE(DueByEpochs(0.95, 1.0, 1));
  EXPECT_TRUE(DueByEpochs(0.95, 1.05, 1));
  EXPECT_FALSE(DueByEpochs(1.0, 1.05, 1));
  EXPECT_FALSE(DueByEpochs(0.95, 1.05, 2));
  EXPECT_TRUE(DueByEpochs(1.95, 2.05, 2));
  EXPECT_FALSE(DueByEpochs(0.95, 1.05, 0));
  EXPECT_TRUE(DueBySteps(10, 5));
  EXPECT_FALSE(DueBySteps(11, 5));
  EXPECT_FALSE(DueBySteps(10, 0));
}

TEST(Cadence, ThirdsAddUpToWholeEpochs) {
  int due = 0;
  for (int step = 1; step <= 300; ++step)
    due += DueByEpochs((step - 1) * 7 / 21.0, step * 7 / 21.0, 1) ? 1 : 0;
  EXPECT_EQ(due, 100);
}

TEST(Failure, CarriesItsClassAndKeepsItsCode) {
  const absl::Status status = Classify(absl::NotFoundError("no file"), kDataError, "data");
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kNotFound, "data: no file"));
  EXPECT_EQ(FailureClassOf(status), "DATA_ERROR");
  EXPECT_EQ(FailureClassOf(absl::InternalError("x")), "APPLICATION");
  EXPECT_OK(Classify(absl::OkStatus(), kDataError));
}

TEST(TorchGuard, NamesTheClassOfWhatWasThrown) {
  const auto class_of = [](auto thrower, absl::StatusCode code) {
    const absl::Status status = TorchGuard([&]() -> absl::Status {
      thrower();
      return absl::OkStatus();
    });
    EXPECT_THAT(status, StatusIs(code));
    return FailureClassOf(status);
  };
  EXPECT_EQ(class_of([] { at::ones({2}).add(at::ones({3})); }, absl::StatusCode::kInternal),
            "APPLICATION");
  EXPECT_EQ(class_of([] { at::empty({int64_t{1} << 50}); }, absl::StatusCode::kResourceExhausted),
            "OUT_OF_MEMORY");
  EXPECT_EQ(class_of([] { throw std::bad_alloc(); }, absl::StatusCode::kResourceExhausted),
            "OUT_OF_MEMORY");
  EXPECT_EQ(class_of([] { TORCH_CHECK_WITH(DistStoreError, false, "gone"); },
                     absl::StatusCode::kUnavailable),
            "PEER_LOST");
  EXPECT_EQ(class_of(
                [] {
                  throw std::runtime_error(
                      "[/src/gloo/transport/tcp/pair.cc:1] Connection closed by peer");
                },
                absl::StatusCode::kUnavailable),
            "PEER_LOST");
}

TEST(TorchGuard, PassesAValueOrItsFailureAndCatchesWhatIsThrownInstead) {
  using absl::StatusOr;
  EXPECT_EQ(TorchGuardOr([] { return StatusOr<int>(7); }).value(), 7);
  EXPECT_THAT(TorchGuardOr([] { return StatusOr<int>(absl::NotFoundError("no file")); }),
              StatusIs(absl::StatusCode::kNotFound, "no file"));
  const StatusOr<int> thrown = TorchGuardOr([]() -> StatusOr<int> { throw std::bad_alloc(); });
  EXPECT_THAT(thrown, StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(FailureClassOf(thrown.status()), "OUT_OF_MEMORY");
}

TEST(TorchGuard, NamesTheOperationThatCannotBeDeterministic) {
  at::Context& context = at::globalContext();
  context.setDeterministicAlgorithms(true, /*warn_only=*/false);
  const absl::Status status = TorchGuard([] {
    at::Tensor x = at::ones({3});
    x.put_(at::zeros({1}, at::kLong), at::ones({1}));
    return absl::OkStatus();
  });
  context.setDeterministicAlgorithms(false, false);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition,
                               HasSubstr("train.deterministic is true, but the operation put_ ")));
  EXPECT_EQ(FailureClassOf(status), "APPLICATION");
}

TEST(RunState, SurvivesItsCodecToTheLastBit) {
  RunState state;
  state.step = 123456789012;
  state.epoch = 1.0 / 3.0;
  state.best_step = 7;
  state.best_accuracy = 0.1 + 0.2;
  state.best_loss = 1e-300;
  state.loss_scale = {0.1, 4, 5, 6};
  RunIdentity identity;
  identity.seed = ~uint64_t{0};
  identity.data_fingerprint = "digits:abc";
  identity.spec_json = R"({"name":"x"})";
  identity.code_version = "0123abc-dirty";
  identity.device_name = "Some \"CPU\"";
  identity.ranks_on_other_devices = 2;
  identity.precision = "bf16";
  identity.transport = "two_level 0-1,2-3";
  identity.compression = "bf16";
  identity.sync_batch_norm = true;
  identity.deterministic = true;
  identity.class_names = {"Cat", "dog \xc3\xa9"};
  identity.libraries = {{"torch", "2.13"}, {"onednn", "3.12"}};
  const auto decoded = DecodeRunState(EncodeRunState(state, identity));
  ASSERT_OK(decoded);
  EXPECT_EQ(decoded->state.step, state.step);
  EXPECT_EQ(decoded->state.epoch, state.epoch);
  EXPECT_EQ(decoded->state.best_accuracy, state.best_accuracy);
  EXPECT_EQ(decoded->state.best_loss, state.best_loss);
  EXPECT_EQ(decoded->state.loss_scale.scale, 0.1);
  EXPECT_EQ(decoded->state.loss_scale.growth_tracker, 4);
  EXPECT_EQ(decoded->state.loss_scale.skips_in_row, 5);
  EXPECT_EQ(decoded->state.loss_scale.skipped_steps, 6);
  EXPECT_EQ(decoded->identity.seed, identity.seed);
  EXPECT_EQ(decoded->identity.code_version, identity.code_version);
  EXPECT_EQ(decoded->identity.device_name, identity.device_name);
  EXPECT_EQ(decoded->identity.ranks_on_other_devices, 2);
  EXPECT_EQ(decoded->identity.precision, "bf16");
  EXPECT_EQ(decoded->identity.transport, "two_level 0-1,2-3");
  EXPECT_EQ(decoded->identity.compression, "bf16");
  EXPECT_TRUE(decoded->identity.sync_batch_norm);
  EXPECT_TRUE(decoded->identity.deterministic);
  EXPECT_EQ(decoded->identity.libraries, identity.libraries);
  EXPECT_EQ(decoded->identity.class_names, identity.class_names);
  EXPECT_EQ(decoded->identity.data_fingerprint, identity.data_fingerprint);
  EXPECT_EQ(decoded->identity.spec_json, identity.spec_json);
}

TEST(RunState, WhatWasRehearsedHoldsForTheSameRecipeProgramAndMachine) {
  const RunState state = {.step = 3, .rehearsed = {.activations = 5, .program = 7, .holes = 9}};
  const RunIdentity saved = {.world_size = 2,
                             .device_name = "one GPU",
                             .code_version = "x",
                             .spec_json = R"({"train": {"batch_size": 8}})"};
  const auto decoded = DecodeRunState(EncodeRunState(state, saved));
  ASSERT_OK(decoded);
  EXPECT_EQ(decoded->state.rehearsed.activations, 5);
  EXPECT_EQ(decoded->state.rehearsed.program, 7);
  EXPECT_EQ(decoded->state.rehearsed.holes, 9);
  EXPECT_TRUE(SameMemory(decoded->identity, saved));

  RunIdentity shrunk = saved, moved = saved, larger = saved;
  shrunk.world_size = 1;
  moved.device_name = "another GPU";
  larger.spec_json = R"({"train": {"batch_size": 9}})";
  for (const RunIdentity& now : {shrunk, moved, larger}) EXPECT_FALSE(SameMemory(saved, now));

  const auto without = DecodeRunState(EncodeRunState({.step = 3}, saved));
  ASSERT_OK(without);
  EXPECT_EQ(without->state.rehearsed.activations, -1);
  std::string bad = EncodeRunState(state, saved);
  bad.replace(bad.find("\"holes\": 9"), 10, "\"holes\": \"\"");
  EXPECT_THAT(DecodeRunState(bad), StatusIs(absl::StatusCode::kDataLoss));
}

TEST(RunState, NumbersThatAreNoneComeBack) {
  RunState state;
  state.step = state.validation_step = 8;
  state.validation_loss = std::numeric_limits<double>::quiet_NaN();
  state.validation_owed = true;
  state.best_step = 4;
  state.best_accuracy = 0.5;
  state.best_loss = std::numeric_limits<double>::infinity();
  const auto decoded = DecodeRunState(EncodeRunState(state, RunIdentity()));
  ASSERT_OK(decoded);
  EXPECT_TRUE(std::isnan(decoded->state.validation_loss));
  EXPECT_TRUE(decoded->state.validation_owed);
  EXPECT_EQ(decoded->state.best_step, 4);
  EXPECT_EQ(decoded->state.best_loss, state.best_loss);
}

// As it was written before, which made every restart from it fail.
TEST(RunState, ANumberThatWasWrittenAsNullIsNone) {
  RunState state;
  state.step = state.validation_step = state.best_step = 8;
  std::string old = EncodeRunState(state, RunIdentity());
  for (const char* key : {"validation_loss", "best_loss"}) {
    const std::string written = absl::StrCat("\"", key, "\": 0.0");
    const size_t at = old.find(written);
    ASSERT_NE(at, std::string::npos) << old;
    old.replace(at, written.size(), absl::StrCat("\"", key, "\": null"));
  }
  const auto decoded = DecodeRunState(old);
  ASSERT_OK(decoded);
  EXPECT_TRUE(std::isnan(decoded->state.validation_loss));
  EXPECT_EQ(decoded->state.best_step, -1) << "what is no number was never the best";
}

TEST(Best, IsChosenByAccuracyThenLossAndNeverWithoutANumber) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  RunState run;
  const auto take = [&run](int64_t step, Validated validated, bool accuracy_leads = true,
                           int64_t from_step = 0) {
    run.step = step;
    run.validation_owed = true;
    const bool best = TakeValidation(validated, accuracy_leads, from_step, run);
    EXPECT_EQ(run.validation_step, step);
    EXPECT_FALSE(run.validation_owed);
    EXPECT_EQ(best, run.best_step == step);
    return best;
  };
  EXPECT_FALSE(take(1, {0.9, nan}));
  EXPECT_EQ(run.best_step, -1);
  EXPECT_TRUE(take(2, {0.1, infinity}));
  EXPECT_TRUE(take(3, {0.1, 5}));
  EXPECT_FALSE(take(4, {0.1, 5}));
  EXPECT_TRUE(take(5, {0.2, 9}));
  EXPECT_FALSE(take(6, {0.9, nan}));
  EXPECT_FALSE(take(7, {nan, 1}));
  EXPECT_FALSE(take(8, {0.1, 1}));
  EXPECT_TRUE(take(9, {0.1, 1}, /*accuracy_leads=*/false));
  // Of before the step that the run must come to, it is the best only for want of another.
  EXPECT_FALSE(take(20, {0.05, nan}, true, /*from_step=*/20));
  EXPECT_TRUE(take(21, {0.05, 50}, true, /*from_step=*/20));
}

TEST(RunState, ReadsStatesOfBeforeThereWasALossScaleAndARecord) {
  std::string old = EncodeRunState({.step = 3, .loss_scale = {8, 1, 1, 1}},
                                   {.transport = "gloo", .code_version = "x", .spec_json = "{}"});
  for (const char* key : {"loss_scale", "code_version", "transport"}) {
    const size_t at = old.find(absl::StrCat("\"", key, "\""));
    ASSERT_NE(at, std::string::npos);
    old.replace(at + 1, 1, "?");
  }
  const auto decoded = DecodeRunState(old);
  ASSERT_OK(decoded);
  EXPECT_EQ(decoded->state.step, 3);
  EXPECT_EQ(decoded->state.loss_scale.scale, 0);
  EXPECT_EQ(decoded->identity.code_version, "");
  EXPECT_EQ(decoded->identity.transport, "");
}

TEST(RunState, NamesWhatChangesTheBitsOfAGangAndNothingThatTheSavedOneDoesNotSay) {
  const RunIdentity saved = {.world_size = 4,
                             .transport = "two_level 0-1,2-3",
                             .compression = "none",
                             .code_version = "x"};
  EXPECT_THAT(ChangesOfBits(saved, saved), IsEmpty());
  RunIdentity now = saved;
  now.transport = "two_level 0+2,1+3";
  EXPECT_THAT(ChangesOfBits(saved, now), ElementsAre("transport"));
  now.compression = "bf16";
  now.sync_batch_norm = true;
  EXPECT_THAT(ChangesOfBits(saved, now),
              ElementsAre("transport", "compression", "sync_batch_norm"));

  const RunIdentity older = {.world_size = 4, .code_version = "x"};
  EXPECT_THAT(ChangesOfBits(older, now), IsEmpty());
  now.precision = "bf16";
  now.world_size = 1;
  EXPECT_THAT(ChangesOfBits({.world_size = 4}, now), ElementsAre("world_size"));
  EXPECT_THAT(ChangesOfBits({.world_size = 1, .transport = "local", .code_version = "x"}, now),
              ElementsAre("precision"));
}

// The decoders of pictures, too: another version of one may round in another way.
TEST(RunState, NamesTheLibrariesThatChangedWithBothVersions) {
  RunIdentity saved = {.muster_version = "0.1.0", .code_version = "x"};
  saved.libraries = {{"torch", "2.11"}, {"libjpeg", "turbo 2.1.5"}};
  RunIdentity now = saved;
  now.libraries["libpng"] = "1.6.39";  // the saved one did not say
  EXPECT_THAT(ChangesOfBits(saved, now), IsEmpty());
  now.libraries["libjpeg"] = "turbo 3.0.1";
  now.muster_version = "0.2.0";
  EXPECT_THAT(ChangesOfBits(saved, now),
              ElementsAre("libjpeg turbo 2.1.5 -> turbo 3.0.1", "muster_version"));
}

TEST(RunState, RefusesWhatItDoesNotUnderstand) {
  EXPECT_THAT(DecodeRunState("[]"), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(DecodeRunState("{\"format_ver"), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(DecodeRunState(R"({"format_version": 1})"),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("`step`")));
  EXPECT_THAT(DecodeRunState(R"({"format_version": 99})"),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST(AutocastScope, PutsBackWhatItFound) {
  ASSERT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
  {
    AutocastScope scope(Precision::kBf16, at::kCPU);
    EXPECT_TRUE(at::autocast::is_autocast_enabled(at::kCPU));
    EXPECT_EQ(at::autocast::get_autocast_dtype(at::kCPU), at::kBFloat16);
  }
  EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
  AutocastScope fp32(Precision::kFp32, at::kCPU);
  EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
}

TEST(MemoryProbe, SeesThisProcess) {
  const MemoryUse use = MeasureMemory(at::kCPU);
  EXPECT_GT(use.now_bytes, 1 << 20);
  EXPECT_GE(use.peak_bytes, use.now_bytes);
}

}  // namespace
}  // namespace muster::worker
