// Training goes on over a gang that was formed anew: with fewer ranks, under other numbers, by the
// same step, strategy, model and optimizer.
#include <ATen/core/Tensor.h>
#include <gmock/gmock.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/status_matchers.h"
#include "tests/worker/dist/gang.h"
#include "worker/data/base/dataset.h"
#include "worker/dist/gang.h"
#include "worker/models/resnet.h"
#include "worker/train/run/failure.h"
#include "worker/train/step/step.h"

namespace muster::worker {
namespace {

using muster::testing::RunGang;
using ::testing::Each;

using State = std::map<std::string, at::Tensor>;

Recipe LastingRecipe() {
  Recipe recipe;
  recipe.schedule = {ScheduleName::kConstant, 0.01, 0, 0, 100};
  recipe.total_steps = 100;
  recipe.clip_norm = 1;
  return recipe;
}

// A rank that trains a network whose batch norm is over the gang, too.
struct LastingRank {
  explicit LastingRank(Gang& gang)
      : model(*MakeResNet({.width = 4}, {.input_shape = {1, 8, 8}, .classes = 4, .seed = 3})),
        strategy(gang.MakeStrategy(model->TrainedParameters(),
                                   {.control_size = Agreement::kControlNumbers})),
        optimizer(MakeAdamW({}, Parameters())),
        trainer{LastingRecipe(), loader,         *model,         *objective, gang,
                at::kCPU,        strategy.get(), optimizer.get()},
        step(trainer) {
    model->SynchronizeBatchNorm(gang);
  }

  std::vector<OptimizedParameter> Parameters() const {
    std::vector<OptimizedParameter> parameters;
    for (const ModelTensor& entry : model->parameters())
      parameters.push_back({entry.name, entry.tensor});
    return parameters;
  }
  absl::Status Run(int64_t number) {
    const Batch batch = *loader.TrainBatch(static_cast<uint64_t>(number),
                                           static_cast<uint32_t>(trainer.gang.rank()),
                                           static_cast<uint32_t>(trainer.gang.world_size()));
    return step.Run(number, batch, {}, /*settle=*/true, timer).status();
  }
  // Weights, buffers, and the optimizer's state: the tensors themselves.
  State Tensors() const {
    State state;
    for (const ModelTensor& entry : model->state()) state[entry.name] = entry.tensor.detach();
    for (const OptimizerTensor& entry : optimizer->state())
      state["optimizer." + entry.name] = entry.tensor;
    return state;
  }
  State Copy() const {
    State copy = Tensors();
    for (auto& [name, tensor] : copy) tensor = tensor.clone();
    return copy;
  }

  std::unique_ptr<Dataset> dataset = *MakeSynthetic({103, {1, 8, 8}, 4, 1});
  Loader loader{*dataset, Sampler(103, 12, 1)};
  std::unique_ptr<Objective> objective = MakeCrossEntropy(0);
  std::unique_ptr<Model> model;
  std::unique_ptr<Strategy> strategy;
  std::unique_ptr<Optimizer> optimizer;
  Trainer trainer;
  TrainStep step;
  StepTimer timer{at::kCPU};
};

void ExpectEqualState(const State& one, const State& other) {
  ASSERT_EQ(one.size(), other.size());
  for (const auto& [name, tensor] : one) EXPECT_TRUE(tensor.equal(other.at(name))) << name;
}

// Steps 3 to 5 of two ranks that begin at `begin`: the state at their end.
std::vector<State> OfNewGang(const std::vector<State>& begin, Transport transport) {
  std::vector<State> end(2);
  const auto body = [&](std::unique_ptr<Gang> gang) {
    LastingRank rank(*gang);
    for (auto& [name, tensor] : rank.Tensors()) tensor.copy_(begin[gang->rank()].at(name));
    for (int64_t step = 3; step < 6; ++step) EXPECT_OK(rank.Run(step));
    end[gang->rank()] = rank.Copy();
  };
  EXPECT_THAT(RunGang(2, body, {.transport = transport}), Each(""));
  return end;
}

// Three ranks, of which the second leaves after step 2; in the end one is left alone.
TEST(Reform, TwoOfThreeRanksGoOnAsANewGangOfTwoWould) {
  for (const Transport transport : {Transport::kGloo, Transport::kSharedMemory}) {
    const auto store = std::make_shared<MemoryKeyValue>();
    std::vector<State> begin(2), end(2);
    const auto body = [&](std::unique_ptr<Gang> gang) {
      LastingRank rank(*gang);
      for (int64_t step = 0; step < 3; ++step) ASSERT_OK(rank.Run(step));
      if (gang->rank() == 1) return;
      const int place = gang->rank() / 2;
      const State before = rank.Copy();
      const absl::Status lost = rank.Run(3);
      EXPECT_EQ(FailureClassOf(lost), kPeerLost) << lost;
      for (const ModelTensor& entry : rank.model->parameters())
        EXPECT_TRUE(entry.tensor.equal(before.at(entry.name))) << entry.name;

      begin[place] = rank.Copy();
      CollectivesOptions options;
      options.rank = place;
      options.world_size = 2;
      options.timeout = absl::Minutes(1);
      options.prefix = "second/";
      options.transport = transport;
      ASSERT_OK(gang->Reform(store, options));
      for (int64_t step = 3; step < 6; ++step) ASSERT_OK(rank.Run(step));
      end[place] = rank.Copy();
      gang->Barrier();

      gang->End();
      EXPECT_EQ(FailureClassOf(rank.Run(6)), kPeerLost);
      if (place == 1) return;
      ASSERT_OK(gang->Reform(/*store=*/nullptr, {}));
      EXPECT_OK(rank.Run(6));
    };
    EXPECT_THAT(RunGang(3, body, {.transport = transport}), Each(""));
    ExpectEqualState(end[0], end[1]);
    const std::vector<State> again = OfNewGang(begin, transport);
    ExpectEqualState(end[0], again[0]);
    ExpectEqualState(end[1], again[1]);
    EXPECT_FALSE(end[0].at("fc.weight").equal(begin[0].at("fc.weight")));
  }
}

}  // namespace
}  // namespace muster::worker
