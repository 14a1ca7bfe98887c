#include "controller/autoscale/autoscale_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace muster::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kWhole[] = R"(
every: 2s
kubernetes: {url: "https://10.0.0.1:6443", token-file: /t, ca-file: /c}
pools:
  gpu:
    min: 1
    max: 8
    worker: {slots: 8, kind: gpu, gpu-type: H100, cpus: 96, memory: 1TiB, commands: true, labels: {zone: a}}
    idle-after: 20m
    cooldown: 2m
    patience: 30s
    start-within: 5m
    statefulset: ml/gpu
  spot:
    max: 3
    worker: {slots: 2}
    scale-command: [/opt/scale, --group, spot]
    scale-timeout: 30s
)";

TEST(AutoscaleFileTest, EveryKeyIsRead) {
  const auto settings = ParseAutoscale(kWhole, "f");
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_EQ(settings->every, absl::Seconds(2));
  EXPECT_EQ(settings->kubernetes.url, "https://10.0.0.1:6443");
  EXPECT_EQ(settings->kubernetes.token_file, "/t");
  EXPECT_EQ(settings->kubernetes.ca_file, "/c");
  ASSERT_EQ(settings->pools.size(), 2u);
  const ScaledPool& gpu = settings->pools[0];
  EXPECT_EQ(gpu.scaling.pool, "gpu");
  EXPECT_EQ(gpu.scaling.facts.pool, "gpu");
  EXPECT_EQ(gpu.scaling.min, 1u);
  EXPECT_EQ(gpu.scaling.max, 8u);
  EXPECT_TRUE(gpu.scaling.by_number);
  EXPECT_EQ(gpu.scaling.idle_after, absl::Minutes(20));
  EXPECT_EQ(gpu.scaling.cooldown, absl::Minutes(2));
  EXPECT_EQ(gpu.scaling.patience, absl::Seconds(30));
  EXPECT_EQ(gpu.scaling.start_within, absl::Minutes(5));
  ASSERT_EQ(gpu.scaling.facts.slots.size(), 8u);
  EXPECT_EQ(gpu.scaling.facts.slots[7].kind, SlotKind::kGpu);
  EXPECT_EQ(gpu.scaling.facts.slots[7].index, 7u);
  EXPECT_EQ(gpu.scaling.facts.slots[7].device, "H100");
  EXPECT_EQ(gpu.scaling.facts.cpus, 96u);
  EXPECT_EQ(gpu.scaling.facts.memory_bytes, 1ull << 40);
  EXPECT_TRUE(gpu.scaling.facts.allows_commands);
  EXPECT_EQ(gpu.scaling.facts.labels.at("zone"), "a");
  EXPECT_EQ(gpu.target.name_space, "ml");
  EXPECT_EQ(gpu.target.name, "gpu");
  const ScaledPool& spot = settings->pools[1];
  EXPECT_FALSE(spot.scaling.by_number);
  EXPECT_THAT(spot.command, ElementsAre("/opt/scale", "--group", "spot"));
  EXPECT_EQ(spot.command_timeout, absl::Seconds(30));
  EXPECT_EQ(spot.scaling.facts.slots[1].kind, SlotKind::kCpu);
}

TEST(AutoscaleFileTest, NoPoolsAreNoFault) {
  const auto settings = ParseAutoscale("pools:\n", "f");
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_TRUE(settings->pools.empty());
}

std::string FaultOf(const std::string& text) {
  const auto settings = ParseAutoscale(text, "--autoscale f");
  EXPECT_EQ(settings.status().code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(settings.status().message());
}

std::string Pool(const std::string& lines) { return "pools:\n  gpu: {" + lines + "}\n"; }

TEST(AutoscaleFileTest, EachFaultIsNamedWithItsKey) {
  constexpr char kRest[] = ", max: 2, worker: {slots: 1}, scale-command: [/x]";
  EXPECT_THAT(FaultOf("pols: {}"), HasSubstr("pols: is no key; there are every"));
  EXPECT_THAT(FaultOf("- a"), HasSubstr("must be a mapping"));
  EXPECT_THAT(FaultOf("every: 5"), HasSubstr("every: must be a duration"));
  EXPECT_THAT(FaultOf("kubernetes: {url: \"http://x\"}"), HasSubstr("must be https://"));
  EXPECT_THAT(FaultOf("pools: {Gpu: {}}"), HasSubstr("is no pool's name"));
  EXPECT_THAT(FaultOf(Pool("min: 3" + std::string(kRest))), HasSubstr("pools.gpu.min: is more"));
  EXPECT_THAT(FaultOf(Pool("min: -1" + std::string(kRest))), HasSubstr("must be a number"));
  EXPECT_THAT(FaultOf(Pool("worker: {slots: 1}, scale-command: [/x]")), HasSubstr("gpu.max"));
  EXPECT_THAT(FaultOf(Pool("max: 1, scale-command: [/x]")), HasSubstr("worker: is missing"));
  EXPECT_THAT(FaultOf(Pool("max: 2001, worker: {slots: 1}, scale-command: [/x]")),
              HasSubstr("max: is more than 2000 workers"));
  EXPECT_THAT(FaultOf(Pool("max: 1, worker: {slots: 0}, scale-command: [/x]")),
              HasSubstr("worker.slots: must be at least 1"));
  EXPECT_THAT(FaultOf(Pool("max: 1, worker: {slots: 1}")), HasSubstr("needs one of statefulset"));
  EXPECT_THAT(FaultOf(Pool("max: 1, worker: {slots: 1}, statefulset: a/b, scale-command: [/x]")),
              HasSubstr("needs one of statefulset"));
  EXPECT_THAT(FaultOf(Pool("max: 1, worker: {slots: 1}, statefulset: b")),
              HasSubstr("must be NAMESPACE/NAME"));
  EXPECT_THAT(FaultOf(Pool("max: 1, worker: {slots: 1}, scale-command: [scale]")),
              HasSubstr("absolute path"));
  EXPECT_THAT(FaultOf(Pool("max: 1, worker: {slots: 1, kind: tpu}, scale-command: [/x]")),
              HasSubstr("must be cpu or gpu"));
  EXPECT_THAT(FaultOf("pools: ["), HasSubstr("--autoscale f"));
}

}  // namespace
}  // namespace muster::controller
