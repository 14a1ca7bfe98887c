#include "worker/train/memory/memory_estimate.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/base/check.h"
#include "tests/support/status_matchers.h"
#include "worker/data/base/dataset.h"
#include "worker/models/mlp.h"
#include "worker/models/resnet.h"
#include "worker/train/memory/allocation_trace.h"
#include "worker/train/memory/malloc_rehearsal.h"
#include "worker/train/memory/memory_probe.h"
#include "worker/train/memory/run_in_fork.h"
#include "worker/train/objective/objective.h"
#include "worker/train/reporter.h"
#include "worker/train/step/step.h"

namespace muster::worker {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(AllocationTrace, HoldsWhatTensorsTakeAndGiveBack) {
  at::Tensor older = at::empty({1000});
  at::Tensor kept;
  const AllocationTrace trace = TraceAllocations([&] {
    kept = at::empty({256});
    at::Tensor gone = at::empty({1024});
    older.reset();  // is not counted
    gone.reset();
    gone = at::empty({512});
  });
  EXPECT_EQ(trace.KeptBytes(), 1024);
  EXPECT_EQ(trace.PeakBytes(), 1024 + 4096);
  EXPECT_EQ(trace.PeakBytesBesideKept(), 4096);
  EXPECT_EQ(trace.events.size(), 5u);
}

TEST(AllocationTrace, ScalesEachEventByItself) {
  // Weights of 100 that do not grow, activations of 10 a sample.
  const auto of = [](int64_t samples) {
    return AllocationTrace{
        {{100}, {10 * samples}, {-10 * samples, false, 1}, {7, true}, {-100, false, 0}}};
  };
  const auto scaled = Extrapolate(of(2), 2, of(4), 4, 64);
  ASSERT_TRUE(scaled.has_value());
  EXPECT_EQ(scaled->PeakBytes(), 740);
  EXPECT_EQ(scaled->KeptBytes(), 7);
  EXPECT_FALSE(Extrapolate(of(2), 2, AllocationTrace{{{100}}}, 4, 64).has_value());
}

TEST(AllocationTrace, KeepsTheFirstOfRoundsThatRepeat) {
  // 40 stays throughout; what is taken and given back once a sample counts once.
  const auto of = [](int64_t samples) {
    AllocationTrace trace{{{40}, {10 * samples}}};
    for (int64_t i = 0; i < samples; ++i) {
      const size_t first = trace.events.size();
      for (const AllocationTrace::Event& event : std::vector<AllocationTrace::Event>{
               {7}, {5}, {-7, false, first}, {-5, false, first + 1}})
        trace.events.push_back(event);
    }
    trace.events.push_back({-10 * samples, false, 1});
    trace.events.push_back({3, true});
    trace.events.push_back({-40, false, 0});
    return trace;
  };
  const AllocationTrace once = WithoutRepeats(of(4));
  ASSERT_EQ(once.events.size(), 9u);
  EXPECT_EQ(once.PeakBytes(), of(4).PeakBytes());
  EXPECT_EQ(once.events[6].taken, 1u);
  EXPECT_EQ(once.events[8].taken, 0u);
  // So that traces of unequal length are of one kind.
  const auto scaled = Extrapolate(of(2), 2, of(4), 4, 64);
  ASSERT_TRUE(scaled.has_value());
  EXPECT_EQ(scaled->PeakBytes(), 40 + 640 + 12);
  EXPECT_EQ(scaled->events[6].bytes, -640);
}

TEST(AllocationTrace, ScalesAroundScratchMemoryOfOneSideAlone) {
  constexpr size_t kKept = 20;  // so many that what they lie between is no scratch
  AllocationTrace few{{{20}, {9}, {-9, false, 1}}}, more{{{40}}};
  for (AllocationTrace* trace : {&few, &more})
    trace->events.insert(trace->events.end(), kKept, {1, true});
  more.events.push_back({30});
  more.events.push_back({-30, false, more.events.size() - 1});
  for (AllocationTrace* trace : {&few, &more})
    trace->events.push_back({-trace->events[0].bytes, false, 0});
  const auto scaled = Extrapolate(few, 2, more, 4, 8);
  ASSERT_TRUE(scaled.has_value());
  EXPECT_EQ(scaled->events.size(), more.events.size());
  EXPECT_EQ(scaled->PeakBytes(), 80 + 20 + 30);
  EXPECT_EQ(scaled->KeptBytes(), 20);
}

TEST(AllocationTrace, ScalesNothingFasterThanTheSamples) {
  const auto of = [](int64_t bytes) { return AllocationTrace{{{bytes}, {-bytes, false, 0}}}; };
  EXPECT_EQ(Extrapolate(of(10), 4, of(1000), 8, 80)->PeakBytes(), 10000);
}

TEST(AllocationTrace, KeepsRepeatsThatHoldWhatTheyTook) {
  const AllocationTrace trace{{{8}, {8}, {8}, {-8, false, 2}, {-8, false, 1}, {-8, false, 0}}};
  EXPECT_EQ(WithoutRepeats(trace).events.size(), 6u);
  EXPECT_EQ(WithoutRepeats(trace).PeakBytes(), 24);
}

TEST(StepBytes, AreWhatAStepOfEachOptimizerTakes) {
  const at::Tensor large = at::rand({512, 512}), small = at::rand({256, 512});
  // Two sets, one after the other.
  const std::vector<OptimizedParameter> parameters = {
      {.name = "large", .tensor = large}, {.name = "small", .tensor = small, .adapt = false}};
  const std::vector<at::Tensor> gradients = {at::rand({512, 512}), at::rand({256, 512})};
  std::map<std::string, std::unique_ptr<Optimizer>> optimizers;
  optimizers["sgd"] = MakeSgd({}, parameters);
  optimizers["adamw"] = MakeAdamW({}, parameters);
  optimizers["lars"] = MakeLars({}, parameters);
  optimizers["lamb"] = MakeLamb({}, parameters);
  optimizers["lion"] = MakeLion({}, parameters);
  for (const auto& [name, optimizer] : optimizers) {
    for (const bool may_skip : {false, true}) {
      const at::Tensor found_inf = may_skip ? at::zeros({}) : at::Tensor();
      const int64_t peak =
          TraceAllocations([&] { optimizer->Step(gradients, 0.1, found_inf); }).PeakBytes();
      const std::vector<int64_t> sizes = optimizer->StepBytes(may_skip);
      const int64_t told = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
      EXPECT_GE(peak, told) << name << " " << may_skip;
      EXPECT_LE(peak, told + (64 << 10)) << name << " " << may_skip;
    }
  }
}

constexpr int64_t kMiB = 1 << 20;

// Plays in a new process, whose malloc no other test has used, and expects it to have grown so far.
void ExpectGrowth(int64_t least, int64_t below, const std::function<void(MallocRehearsal&)>& play) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto body = [&] {
    MallocRehearsal rehearsal;
    play(rehearsal);
    const int64_t growth = rehearsal.GrowthBytes().value_or(-1);
    std::fprintf(stderr, "grown by %ld bytes\n", growth);
    ::_exit(least <= growth && growth < below ? 0 : 1);
  };
  EXPECT_EXIT(body(), ::testing::ExitedWithCode(0), "grown by");
}

TEST(MallocRehearsalDeathTest, CountsWhatWouldBeTouchedAndTouchesNothing) {
  ExpectGrowth(512 * kMiB, 560 * kMiB, [](MallocRehearsal& rehearsal) {
    const int64_t before = MeasureMemory(at::kCPU).now_bytes;
    for (int i = 0; i < 8; ++i) rehearsal.Take(64 * kMiB);
    MUSTER_CHECK(MeasureMemory(at::kCPU).now_bytes < before + 32 * kMiB, "it touched them");
  });
}

TEST(MallocRehearsalDeathTest, CountsMemoryThatIsTakenAgainOnce) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "AddressSanitizer's malloc keeps what is given back for a while";
#endif
  // Nine times 48 MiB; malloc may find a second place for them.
  ExpectGrowth(48 * kMiB, 3 * 48 * kMiB, [](MallocRehearsal& rehearsal) {
    const AllocationTrace pass{{{48 * kMiB}, {4 * kMiB, true}, {-48 * kMiB, false, 0}}};
    for (int step = 0; step < 8; ++step) rehearsal.Play(pass, /*keep=*/false);
    MUSTER_CHECK(rehearsal.Play(pass, /*keep=*/true).size() == 1, "one is kept");
  });
}

TEST(MallocRehearsalDeathTest, EndsWhereMallocHasNoMore) {
  ExpectGrowth(-1, 0, [](MallocRehearsal& rehearsal) { rehearsal.Take(int64_t{1} << 60); });
}

TEST(RunInFork, TellsWhatTheCopyFoundAndLeavesThisProcessAsItWas) {
  int64_t number = 1;
  EXPECT_EQ(RunInFork([&number] { return number = 5; }, absl::Seconds(60)), 5);
  EXPECT_EQ(number, 1);
}

TEST(RunInFork, IsSilentWhenTheCopyDiesThrowsOrTakesTooLong) {
  EXPECT_EQ(RunInFork([]() -> int64_t { ::_exit(0); }, absl::Seconds(60)), std::nullopt);
  EXPECT_EQ(RunInFork([]() -> int64_t { throw std::bad_alloc(); }, absl::Seconds(60)),
            std::nullopt);
  const auto forever = []() -> int64_t {
    for (;;) ::pause();
  };
  EXPECT_EQ(RunInFork(forever, absl::Milliseconds(20)), std::nullopt);
}

struct Case {
  const char* name;
  bool resnet;
  int64_t batch;
  Precision precision = Precision::kFp32;
  int64_t accumulate = 1;
  bool checkpoint_blocks = false;
};

struct Workbench {
  explicit Workbench(const Case& c) {
    const std::vector<int64_t> shape = {3, 16, 16};
    dataset = *MakeSynthetic({256, shape, 10, 1});
    loader.emplace(*dataset, Sampler(256, static_cast<uint64_t>(c.batch), 1));
    const ModelContext context = {
        .input_shape = shape, .classes = 10, .seed = 1, .checkpoint_blocks = c.checkpoint_blocks};
    model = c.resnet ? *MakeResNet({.width = 16}, context) : MakeMlp({{256, 256}}, context);
    std::vector<OptimizedParameter> parameters;
    for (const ModelTensor& entry : model->parameters())
      parameters.push_back({entry.name, entry.tensor});
    optimizer = MakeAdamW({}, parameters);
    strategy = gang->MakeStrategy(model->TrainedParameters(),
                                  {.control_size = Agreement::kControlNumbers});
    recipe.schedule = {ScheduleName::kConstant, 0.001, 0, 0, 100};
    recipe.precision = c.precision;
    recipe.accumulate = c.accumulate;
  }
  Trainer trainer() {
    return {recipe, *loader, *model, *objective, *gang, at::kCPU, strategy.get(), optimizer.get()};
  }

  // What one real step holds at its peak, beside what was there before.
  int64_t StepPeak() {
    TrainStep step(trainer());
    StepTimer timer(at::kCPU);
    const Batch batch = *loader->TrainBatch(0, 0, 1);
    EXPECT_OK(step.Run(0, batch, {}, true, timer).status());  // whatever is taken once only
    return TraceAllocations([&] { EXPECT_OK(step.Run(1, batch, {}, true, timer).status()); })
        .PeakBytes();
  }

  Recipe recipe;
  std::unique_ptr<Gang> gang = Gang::OfOne();
  std::unique_ptr<Objective> objective = MakeCrossEntropy(0);
  std::unique_ptr<Dataset> dataset;
  std::optional<Loader> loader;
  std::unique_ptr<Model> model;
  std::unique_ptr<Strategy> strategy;
  std::unique_ptr<Optimizer> optimizer;
};

class MemoryOfAStep : public ::testing::TestWithParam<Case> {};

// The peak is that of all tensors, scratch memory of kernels included, as the allocator counts it.
TEST_P(MemoryOfAStep, IsEstimatedWithin15PercentFromAFewSamples) {
  Workbench setup(GetParam());
  MemoryEstimate memory = CountMemory(setup.trainer());
  ASSERT_OK(MeasureActivations(setup.trainer(), memory));
  const int64_t estimate = memory.gradients + memory.activations;
  const int64_t peak = setup.StepPeak();
  RecordProperty("estimate_bytes", std::to_string(estimate));
  RecordProperty("peak_bytes", std::to_string(peak));
  std::printf("%s: estimate %.2f MB, peak %.2f MB\n", GetParam().name,
              static_cast<double>(estimate) / 1e6, static_cast<double>(peak) / 1e6);
  EXPECT_NEAR(static_cast<double>(estimate) / static_cast<double>(peak), 1, 0.15);
}

INSTANTIATE_TEST_SUITE_P(
    Models, MemoryOfAStep,
    ::testing::Values(Case{"mlp", false, 128}, Case{"mlp_small_batch", false, 6},
                      Case{"mlp_bf16", false, 128, Precision::kBf16}, Case{"resnet18", true, 64},
                      Case{"resnet18_bf16", true, 64, Precision::kBf16},
                      Case{"resnet18_accumulated", true, 128, Precision::kFp32, 4},
                      Case{"resnet18_recomputed", true, 64, Precision::kFp32, 1, true}),
    [](const auto& info) { return info.param.name; });

TEST(MemoryEstimate, LeavesTheModelAsItWas) {
  Workbench setup({"resnet18", true, 16});
  std::vector<at::Tensor> before;
  for (const ModelTensor& entry : setup.model->state())
    before.push_back(entry.tensor.detach().clone());
  MemoryEstimate memory;
  ASSERT_OK(MeasureActivations(setup.trainer(), memory));
  for (size_t i = 0; i < before.size(); ++i) {
    const ModelTensor& entry = setup.model->state()[i];
    EXPECT_TRUE(entry.tensor.detach().equal(before[i])) << entry.name;
    EXPECT_FALSE(entry.tensor.grad().defined()) << entry.name;
  }
}

TEST(MemoryEstimate, CountsAnEvaluationsBatchThatIsLargerThanTheTrainings) {
  Workbench setup({"resnet18", true, 4});
  const auto activations = [&setup](int64_t evaluated) {
    setup.recipe.evaluation_batch_size = evaluated;
    MemoryEstimate memory;
    EXPECT_OK(MeasureActivations(setup.trainer(), memory));
    return memory.activations;
  };
  const int64_t trained = activations(4), evaluated = activations(256);
  // What one layer of 16 channels gives for 256 pictures, and what it is given.
  EXPECT_GE(evaluated, int64_t{2} * 256 * 16 * 16 * 16 * 4);
  EXPECT_LT(2 * trained, evaluated);
}

TEST(MemoryEstimate, CountsTheBatchesOfAnEvaluationBesideThoseOfTraining) {
  Workbench setup({"mlp", false, 16});
  const int64_t sample = setup.loader->sample_bytes();
  const auto data = [&setup](int64_t evaluated, const AheadPlan& ahead) {
    setup.recipe.evaluation_batch_size = evaluated;
    setup.loader->SetAhead(ahead);
    return CountMemory(setup.trainer()).data;
  };
  const int64_t dataset = setup.dataset->bytes();
  EXPECT_EQ(data(16, {}), dataset + 2 * 16 * sample);
  EXPECT_EQ(data(40, {}), dataset + (16 + 40) * sample);
  EXPECT_EQ(data(40, {.batches = 2, .threads = 4}), dataset + 3 * (16 + 40) * sample);

  const Sampler sampler(256, 16, 1);
  setup.loader.emplace(*setup.dataset, sampler, nullptr, LoaderOptions{.thread_bytes = 1000});
  EXPECT_EQ(data(16, {.batches = 1, .threads = 4}), dataset + 4 * 16 * sample + 8 * 1000);
}

TEST(MemoryEstimate, CheckpointedBlocksNeedLess) {
  Workbench kept({"kept", true, 64}), again({"again", true, 64, Precision::kFp32, 1, true});
  const int64_t with = kept.StepPeak(), without = again.StepPeak();
  std::printf("resnet18 width 16, batch 64: peak %.2f MB, with checkpoint_blocks %.2f MB\n",
              static_cast<double>(with) / 1e6, static_cast<double>(without) / 1e6);
  EXPECT_LT(static_cast<double>(without), 0.75 * static_cast<double>(with));
}

class Nobody final : public RunHost {
 public:
  void KeepAlive() override {}
  void MemoryEstimated(const std::string&) override {}
  RequestedStop requested_stop() override { return {}; }
  void Progress(const std::string&, int64_t, int64_t, double) override {}
  void Metrics(int64_t, const std::map<std::string, double>&) override {}
  void CorruptCheckpoint(const std::string&, int64_t, const std::string&) override {}
  void UnreadCheckpoint(const std::string&, int64_t, const std::string&) override {}
};

TEST(MemoryEstimate, IsLoggedInPartsThatAddUpToTheTotal) {
  const MemoryEstimate estimate = {1, 20, 300, 4000, 50000, 600000, 7000000, 80000000, 900000000};
  Nobody nobody;
  Workbench setup({"mlp", false, 16});
  const Trainer trainer = setup.trainer();
  Reporter reporter(trainer, nobody);
  ::testing::internal::CaptureStderr();
  reporter.MemoryEstimated(estimate);
  const std::string line = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(line, HasSubstr("total_bytes=987654321 "));
  int64_t sum = 0;
  for (const absl::string_view word : absl::StrSplit(line, absl::ByAnyChar(" \n"))) {
    const std::vector<absl::string_view> pair = absl::StrSplit(word, '=');
    int64_t bytes = 0;
    if (absl::EndsWith(pair[0], "_bytes") && absl::SimpleAtoi(pair[1], &bytes)) sum += bytes;
  }
  EXPECT_EQ(sum, 2 * estimate.total());
}

TEST(MemoryEstimate, CountsTheBucketsOfThePlannedGang) {
  Workbench setup({"mlp", false, 16});
  const int64_t alone = CountMemory(setup.trainer()).gradients;
  const auto gradients = [&setup](Transport transport, Compression compression) {
    const CollectivesOptions planned = {
        .world_size = 2, .transport = transport, .compression = compression};
    return CountMemory(setup.trainer(), planned).gradients;
  };
  EXPECT_EQ(gradients(Transport::kGloo, Compression::kNone), 2 * alone);
  EXPECT_EQ(gradients(Transport::kGloo, Compression::kBf16), alone + alone / 2);
  EXPECT_EQ(gradients(Transport::kAuto, Compression::kNone), alone);
  EXPECT_EQ(gradients(Transport::kAuto, Compression::kFp16), alone + alone / 2);
}

TEST(MemoryEstimate, NamesItsPartsLargestFirstAndWhatToChange) {
  MemoryEstimate estimate;
  estimate.weights = 3 << 20;
  estimate.activations = 5 << 20;
  EXPECT_THAT(MemoryText(estimate), StartsWith("activations 5.0 MiB, weights 3.0 MiB"));
  Recipe recipe;
  EXPECT_THAT(MemoryAdvice(recipe), HasSubstr("train.precision bf16"));
  recipe.precision = Precision::kBf16;
  recipe.checkpoint_blocks = true;
  EXPECT_EQ(MemoryAdvice(recipe),
            "a smaller train.batch_size, train.accumulate above 1, or more ranks");
}

}  // namespace
}  // namespace muster::worker
