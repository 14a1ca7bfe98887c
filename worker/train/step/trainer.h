// What a training run is made of: the one list of parts that the loop, its steps, evaluations,
// checkpoints and the memory estimate are given.
//
// It refers to parts that whoever makes it owns (RankParts in worker/trainer/rank), and which must
// outlive it and all that it was given to. Plain data, cheap to copy.
#pragma once

#include <c10/core/Device.h>

#include "worker/data/loader.h"
#include "worker/dist/collectives.h"
#include "worker/dist/strategy/strategy.h"
#include "worker/models/base/model.h"
#include "worker/optim/optimizer.h"
#include "worker/train/objective/objective.h"
#include "worker/train/run/recipe.h"

namespace muster::worker {

class Ema;
class Pruner;
class Transfer;

struct Trainer {
  Recipe recipe;
  const Loader& loader;
  Model& model;
  const Objective& objective;
  Collectives& gang;
  c10::Device device;
  Strategy* strategy = nullptr;  // of the gang; none, as the optimizer: for evaluations alone
  Optimizer* optimizer = nullptr;
  // Of worker/train/recipe; each may be none.
  Ema* ema = nullptr;                  // averages the weights
  Pruner* pruner = nullptr;            // sets weights to zero
  const Transfer* transfer = nullptr;  // what a fresh run begins with
};

}  // namespace muster::worker
