// gang_batch_norm IN OUT: the trainer's batch norm over a gang, on numbers that a Python test has
// written, so that it can compare them (sync_batch_norm_against_pytorch.py).
//
// IN: safetensors with "x" and "dy" [samples, channels, ...], "weight" and "bias" [channels], F32,
// and "shares", I64: the samples of each rank, in order.
// OUT: safetensors of F32: "y" and "dx" of all samples; "dweight", "dbias", "running_mean" and
// "running_var", each [ranks, channels].
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/fs/file_system.h"
#include "tests/peer/write_tensors.h"
#include "tests/worker/dist/gang.h"
#include "worker/checkpoint/restore.h"
#include "worker/models/layers/batch_norm.h"

namespace muster::worker {
namespace {

using Tensors = std::map<std::string, at::Tensor>;

// One training pass of one rank over its samples.
Tensors RunRank(const Tensors& given, int64_t first, int64_t count, Collectives& gang) {
  const auto leaf = [](const at::Tensor& values) { return values.clone().requires_grad_(); };
  const at::Tensor x = leaf(given.at("x").narrow(0, first, count));
  const BatchNormTensors layer = {leaf(given.at("weight")), leaf(given.at("bias")),
                                  at::zeros({x.size(1)}), at::ones({x.size(1)})};
  const at::Tensor y = BatchNorm(x, layer, /*training=*/true, {&gang});
  y.backward(given.at("dy").narrow(0, first, count));
  return {{"y", y.detach()},
          {"dx", x.grad()},
          {"dweight", layer.weight.grad()},
          {"dbias", layer.bias.grad()},
          {"running_mean", layer.running_mean},
          {"running_var", layer.running_var}};
}

absl::Status Run(const std::string& in, const std::string& out) {
  MUSTER_ASSIGN_OR_RETURN(const NamedTensors read, ReadTensors(PosixFileSystem(), in));
  Tensors given;
  for (const NamedTensor& entry : read) given[entry.name] = entry.tensor;
  const at::Tensor shares = given.at("shares");
  const int world = static_cast<int>(shares.numel());
  std::vector<Tensors> ranks(world);
  const auto errors = muster::testing::RunGang(world, [&](std::unique_ptr<Collectives> gang) {
    const int rank = gang->rank();
    const int64_t* counts = shares.const_data_ptr<int64_t>();
    int64_t first = 0;
    for (int before = 0; before < rank; ++before) first += counts[before];
    ranks[rank] = RunRank(given, first, counts[rank], *gang);
  });
  if (!absl::StrJoin(errors, "").empty()) return absl::InternalError(absl::StrJoin(errors, "; "));

  NamedTensors results;
  for (const auto& [name, tensor] : ranks[0]) {
    std::vector<at::Tensor> parts;
    for (const Tensors& rank : ranks) parts.push_back(rank.at(name));
    const bool samples = name == "y" || name == "dx";
    results.push_back({name, samples ? at::cat(parts) : at::stack(parts)});
  }
  return muster::testing::WriteTensors(results, out);
}

}  // namespace
}  // namespace muster::worker

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: gang_batch_norm IN OUT\n", stderr);
    return 2;
  }
  const absl::Status status = muster::worker::Run(argv[1], argv[2]);
  if (status.ok()) return 0;
  std::fprintf(stderr, "gang_batch_norm: %s\n", status.ToString().c_str());
  return 1;
}
