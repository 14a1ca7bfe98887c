// The job that the integration tests train: a small ResNet on the real digits, two ranks on CPU
// slots.
#pragma once

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/support/cluster.h"

namespace muster::testing {

inline std::string DigitsFolder() { return SourceDir() + "/data/digits"; }

struct DigitsJob {
  std::string name = "digits";
  int steps = 200;
  int every_steps = 20;  // a checkpoint
  int width = 8;
  int image_size = 8;
  int ranks = 2;
  std::string checkpoint_url;  // empty: the controller's own root
  std::string more;            // further top-level lines of YAML
};

inline std::string ToYaml(const DigitsJob& job) {
  return absl::StrCat(
      "name: ", job.name, "\nranks: ", job.ranks,
      "\ntrain:\n  model: {resnet18: {width: ", job.width,
      "}}\n  data: {digits: {path: ", DigitsFolder(), ", image_size: ", job.image_size,
      "}}\n  batch_size: 64\n  steps: ", job.steps,
      "\n  optimizer: {name: adamw, lr: 0.003}\n  schedule: {name: cosine, warmup_steps: 20}\n"
      "  seed: 7\n  report_every_steps: 5\ncheckpoint:\n  every_steps: ",
      job.every_steps, "\n  every_epochs: 0\n",
      job.checkpoint_url.empty() ? "" : absl::StrCat("  url: ", job.checkpoint_url, "\n"),
      "restart: {backoff: 100ms}\n", job.more);
}

}  // namespace muster::testing
