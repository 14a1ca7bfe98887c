// `muster compare`, against a service without a controller.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "cli/output/proto_json.h"
#include "tests/cli/cli_run.h"
#include "tests/cli/fake_job_service.h"

namespace muster::cli::testing {
namespace {

using ::testing::HasSubstr;

class CompareTest : public ::testing::Test {
 protected:
  CompareTest() {
    service_.Start();
    run_.env()["MUSTER_ADDR"] = service_.address();
    run_.env()["MUSTER_TOKEN"] = FakeJobService::kToken;
    Put(7, "digits", 0.5);
    Put(8, "faster", 0.25);
  }

  // Its loss has three points, which the service gives on two pages, and ends at `lr`.
  void Put(uint64_t id, const std::string& name, double lr) {
    v1::GetJobResponse job = MakeJob(id, name, v1::SUCCEEDED);
    job.mutable_spec()->mutable_train()->mutable_optimizer()->set_lr(lr);
    service_.PutJob(job);
    int64_t step = 0;
    for (const double loss : {2.0, 1.0, lr}) {
      v1::MetricPoint point;
      point.set_name("loss");
      point.set_step(++step);
      point.set_value(loss);
      service_.PutMetric(id, point);
    }
    v1::Ledger ledger;
    ledger.mutable_held()->set_seconds(3600);
    ledger.mutable_productive()->set_seconds(id == 7 ? 3240 : 1800);
    service_.PutLedger(id, ledger);
  }

  FakeJobService service_;
  CliRun run_;
};

TEST_F(CompareTest, TwoJobsStandBesideEachOtherWithSpecsCurvesAndGoodput) {
  const CliResult result = run_({"compare", "digits", "8"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("JOB       7 digits   8 faster\n"));
  EXPECT_THAT(result.out, HasSubstr("\ntrain.optimizer.lr  0.5       0.25\n"));
  EXPECT_THAT(result.out, HasSubstr("\nloss    0.5000  0.2500 "));
  EXPECT_THAT(result.out, HasSubstr("\nproductive  90.0%             50.0%\n"));
}

TEST_F(CompareTest, JobsAndSpecsAsJson) {
  const CliResult result = run_({"compare", "7", "8", "-o", "json"});
  EXPECT_EQ(result.code, 0) << result.err;
  const Json json = Json::parse(result.out, nullptr, /*allow_exceptions=*/false);
  ASSERT_TRUE(json.is_object()) << result.out;
  EXPECT_EQ(json["jobs"][0]["id"], 7);
  EXPECT_EQ(json["jobs"][1]["name"], "faster");
  EXPECT_EQ(json["spec"][0]["path"], "name") << json.dump(1);
}

TEST_F(CompareTest, AJobThatIsNotThereEndsItWithoutHalfAPage) {
  const CliResult result = run_({"compare", "7", "nobody"});
  EXPECT_EQ(result.code, 3);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr("nobody"));
  EXPECT_EQ(run_({"compare", "7"}).code, 2);
}

}  // namespace
}  // namespace muster::cli::testing
