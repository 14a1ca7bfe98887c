// What training makes smaller, and what evaluation counts: the loss of a model's output.
//
// Used by the training step and the evaluation; one for each kind of task. The loss of a batch is a
// mean over samples, so that the mean over ranks, weighted by their samples, is the mean over the
// global batch. Keeps nothing from one call to the next. Throws what torch throws.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "worker/data/loader.h"
#include "worker/models/base/model.h"

namespace muster::worker {

// An output's loss, and how many of its samples are right: both 0-dim.
struct LossAndCorrect {
  at::Tensor loss;
  at::Tensor correct;
};

class Objective {
 public:
  virtual ~Objective() = default;

  // Whether the best checkpoint is the one with the highest accuracy, and the loss only decides
  // between equals; else the one with the lowest loss.
  virtual bool accuracy_leads() const = 0;

  // Whether there is a right and a wrong: Correct is defined, and an accuracy says something.
  virtual bool has_accuracy() const { return true; }

  // The mean over the batch's samples: 0-dim, differentiable. With what only training wants, such
  // as label smoothing.
  virtual at::Tensor TrainingLoss(const ModelOutput& output, const Batch& batch) const = 0;

  // The sum over the batch's samples: 0-dim. Without what only training wants.
  virtual at::Tensor EvaluationLoss(const ModelOutput& output, const Batch& batch) const = 0;

  // How many of the batch's samples are right: 0-dim; a sample of many predictions counts as the
  // share of them that are right. Undefined without has_accuracy().
  virtual at::Tensor Correct(const ModelOutput& output, const Batch& batch) const = 0;

  // The class that each sample is taken for, int64 [B]. Undefined when samples have no class.
  virtual at::Tensor Predicted(const ModelOutput& output) const;

  // How many of the batch's samples have their class among the five most likely ones: 0-dim.
  // Undefined when that says nothing: no classes, or five at most.
  virtual at::Tensor CorrectInTopFive(const ModelOutput& output, const Batch& batch) const;

  // TrainingLoss, and Correct if it is asked for (else undefined); EvaluationLoss and Correct.
  // Where an output has its head apart both are made in one go.
  virtual LossAndCorrect TrainingLossAndCorrect(const ModelOutput& output, const Batch& batch,
                                                bool with_correct) const;
  virtual LossAndCorrect EvaluationLossAndCorrect(const ModelOutput& output,
                                                  const Batch& batch) const;

  // Whether it takes outputs with their head apart (Samples::head_apart).
  virtual bool takes_head_apart() const { return false; }

  // Of tensors that it keeps for itself.
  virtual int64_t held_bytes() const { return 0; }

  // What people also like to see of a split, by name, made of its mean loss.
  virtual std::map<std::string, double> Derived(double /*loss*/) const { return {}; }
};

// The classifiers' losses, of outputs [B, C]. Targets are classes, int64 [B], or what a sample has
// of each class, float [B, C] (mixup; or, for the squared error, whatever the outputs shall be).
// Smoothing s, from 0 to below 1, makes a target t (1 - s) t + s / C (Szegedy et al. 2016). A
// sample with soft targets is right when its main class is found.

// Of logits: log-softmax against the targets.
std::unique_ptr<Objective> MakeCrossEntropy(double label_smoothing);
// Of logits: a yes or no for each class, the mean over classes, as timm's BinaryCrossEntropy.
std::unique_ptr<Objective> MakeBinaryCrossEntropy(double label_smoothing);
// The mean over classes of the squared distance.
std::unique_ptr<Objective> MakeMeanSquaredError();
// The same of numbers that are no classes, float [B, C]: nothing is right or wrong.
std::unique_ptr<Objective> MakeRegression();

// What follows each token: of logits [B, T, V], or of hidden states and a table whose logits it
// makes a part at a time (chunked_cross_entropy.h), and tokens [B, T]. A sample's loss is the mean
// over its T tokens; derived from it is `perplexity`, its exponential.
std::unique_ptr<Objective> MakeLanguageModel(double label_smoothing);

}  // namespace muster::worker
