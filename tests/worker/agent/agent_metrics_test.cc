// What an agent's metrics page says of the GPUs.
#include "worker/agent/agent_metrics.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <memory>
#include <string>

#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace muster::worker {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kFirst[] = "{device=\"cuda:0\",kind=\"gpu\",slot=\"4\"}";
constexpr char kSecond[] = "{device=\"cuda:1\",kind=\"gpu\",slot=\"5\"}";

class AgentMetricsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(driver_, nullptr) << ::dlerror();
    ASSERT_NE(nvml_, nullptr);
    auto spool = Spool::Open(PosixFileSystem(), {.directory = dir_ / "spool"});
    ASSERT_OK(spool);
    spool_ = *std::move(spool);
    v1::Hello hello;
    for (uint32_t i = 0; i < 2; ++i) {
      v1::Slot& slot = *hello.add_slots();
      slot.set_index(i + 4);
      slot.set_kind(v1::GPU);
      slot.set_device("cuda:" + std::to_string(i));
      slot.set_uuid("GPU-" + std::to_string(i));
      slot.set_memory_bytes(80);
    }
    metrics_ = std::make_unique<AgentMetrics>(families_, clock_, nvml_.get(), hello);
  }

  // Of the fake driver.
  void Call(const char* function) {
    auto* call = reinterpret_cast<void (*)()>(::dlsym(driver_.get(), function));
    ASSERT_NE(call, nullptr) << ::dlerror();
    call();
  }
  // After as many refreshes as it takes to read the GPUs anew.
  std::string Page() {
    for (int i = 0; i < 10; ++i) metrics_->Refresh(*spool_, {4});
    return prometheus::TextSerializer().Serialize(families_.Collect());
  }

  muster::testing::TempDir dir_;
  const std::unique_ptr<void, int (*)(void*)> driver_{::dlopen(FAKE_NVML, RTLD_NOW), ::dlclose};
  const std::unique_ptr<Nvml> nvml_ = Nvml::Load(FAKE_NVML);
  SimulatedClock clock_;
  MetricFamilies families_{metric::kWorkerDroppedTotal};
  std::unique_ptr<Spool> spool_;
  std::unique_ptr<AgentMetrics> metrics_;
};

TEST_F(AgentMetricsTest, AGpuThatIsLostKeepsNoReading) {
  const std::string before = Page();
  for (const char* reading : {"memory_used_bytes", "utilization_ratio", "power_watts",
                              "temperature_celsius", "memory_size_bytes", "held"}) {
    EXPECT_THAT(before, HasSubstr(std::string("muster_device_") + reading + kFirst));
  }
  Call("FakeNvmlLoseFirst");
  const std::string after = Page();
  for (const char* reading :
       {"memory_used_bytes", "utilization_ratio", "power_watts", "temperature_celsius"}) {
    EXPECT_THAT(after, Not(HasSubstr(std::string("muster_device_") + reading + kFirst)));
  }
  EXPECT_THAT(after, AllOf(HasSubstr(std::string("muster_device_held") + kFirst + " 1\n"),
                           HasSubstr(std::string("muster_device_memory_size_bytes") + kFirst),
                           HasSubstr(std::string("muster_device_memory_used_bytes") + kSecond)));
  ASSERT_EQ(metrics_->use().gpus_size(), 1);
  EXPECT_EQ(metrics_->use().gpus(0).slot(), 5u);
}

TEST_F(AgentMetricsTest, AValueThatTheDriverTellsNoMoreGoesAlone) {
  EXPECT_THAT(Page(), HasSubstr("muster_device_temperature_celsius{"));
  Call("FakeNvmlHideTemperature");
  EXPECT_THAT(Page(), AllOf(Not(HasSubstr("muster_device_temperature_celsius{")),
                            HasSubstr(std::string("muster_device_power_watts") + kFirst),
                            HasSubstr(std::string("muster_device_utilization_ratio") + kFirst)));
}

}  // namespace
}  // namespace muster::worker
