#include "cli/output/list_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/v1/job_service.pb.h"
#include "tests/support/status_matchers.h"

namespace muster::cli {
namespace {

using ::muster::testing::IsOk;
using ::muster::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const absl::Time kListNow = absl::FromUnixSeconds(1'700'000'000);

v1::JobSummary MakeListed(uint64_t id, const std::string& name, v1::JobState state,
                          absl::Duration age) {
  v1::JobSummary job;
  job.set_id(id);
  job.set_name(name);
  job.set_state(state);
  job.set_submitted_ms(absl::ToUnixMillis(kListNow - age));
  return job;
}

class ListViewTest : public ::testing::Test {
 protected:
  ListViewTest() {
    jobs_.push_back(MakeListed(3, "digits", v1::RUNNING, absl::Minutes(5)));
    jobs_.push_back(MakeListed(2, "words", v1::FAILED, absl::Hours(2)));
    jobs_.push_back(MakeListed(1, "digits-wide", v1::PENDING, absl::Hours(30)));
    jobs_[0].set_loss(0.5);
    jobs_[0].add_workers("worker-1");
    jobs_[0].add_workers("worker-2");
    jobs_[1].set_loss(0.25);
    jobs_[1].set_goodput(0.9);
    jobs_[2].set_held(true);
  }

  static absl::StatusOr<ListView> Make(const ListRequest& request) {
    return ListView::Create(request, {{"age", "submitted_ms", /*age=*/true}, {"prio", "priority"}},
                            ToJson(v1::JobSummary()), kListNow);
  }
  std::vector<uint64_t> Ids(const ListRequest& request) {
    const absl::StatusOr<ListView> view = Make(request);
    EXPECT_THAT(view, IsOk());
    std::vector<uint64_t> ids;
    if (!view.ok()) return ids;
    for (const v1::JobSummary& job : view->Arrange(jobs_)) ids.push_back(job.id());
    return ids;
  }
  std::vector<uint64_t> Filtered(const std::string& filter) {
    ListRequest request;
    request.filters = {filter};
    return Ids(request);
  }
  std::vector<uint64_t> Sorted(const std::string& key) {
    ListRequest request;
    request.sort = {key};
    return Ids(request);
  }

  std::vector<v1::JobSummary> jobs_;
};

TEST_F(ListViewTest, FiltersCompareTextsNumbersAgesAndLists) {
  EXPECT_THAT(Filtered("state=running"), ElementsAre(3));
  EXPECT_THAT(Filtered("state=RUNNING,failed"), ElementsAre(3, 2));
  EXPECT_THAT(Filtered("state!=running"), ElementsAre(2, 1));
  EXPECT_THAT(Filtered("name~DIGITS"), ElementsAre(3, 1));
  EXPECT_THAT(Filtered("name=digits"), ElementsAre(3)) << "all of it";
  EXPECT_THAT(Filtered("loss<0.5"), ElementsAre(2)) << "what has none is no less";
  EXPECT_THAT(Filtered("loss<=0.5"), ElementsAre(3, 2));
  EXPECT_THAT(Filtered("loss="), ElementsAre(1)) << "those that have none";
  EXPECT_THAT(Filtered("goodput>=90%"), ElementsAre(2));
  EXPECT_THAT(Filtered("age<1h"), ElementsAre(3));
  EXPECT_THAT(Filtered("age>=24h"), ElementsAre(1));
  EXPECT_THAT(Filtered("held=true"), ElementsAre(1));
  EXPECT_THAT(Filtered("workers=worker-2"), ElementsAre(3));
  EXPECT_THAT(Filtered("ID>=2"), ElementsAre(3, 2));
  EXPECT_THAT(Filtered("state=nothing"), IsEmpty());
}

TEST_F(ListViewTest, AllFiltersMustHold) {
  ListRequest request;
  request.filters = {"name~digits", "state=pending"};
  EXPECT_THAT(Ids(request), ElementsAre(1));
}

TEST_F(ListViewTest, AnEntryOfAMappingIsNamedBehindADot) {
  v1::WorkerInfo worker;
  (*worker.mutable_labels())["topology.zone"] = "a";
  ListRequest request;
  request.filters = {"labels.topology.zone=a"};
  ASSERT_OK_AND_ASSIGN(ListView view,
                       ListView::Create(request, {}, ToJson(v1::WorkerInfo()), kListNow));
  EXPECT_TRUE(view.Keeps(ToJson(worker)));
  EXPECT_FALSE(view.Keeps(ToJson(v1::WorkerInfo())));
}

TEST_F(ListViewTest, SortsByNumbersTextsAndAgesAndPutsWhatIsAbsentLast) {
  EXPECT_THAT(Sorted("id"), ElementsAre(1, 2, 3));
  EXPECT_THAT(Sorted("name"), ElementsAre(3, 1, 2));
  EXPECT_THAT(Sorted("loss"), ElementsAre(2, 3, 1));
  EXPECT_THAT(Sorted("-loss"), ElementsAre(3, 2, 1));
  EXPECT_THAT(Sorted("age"), ElementsAre(3, 2, 1));
  EXPECT_THAT(Sorted("-age"), ElementsAre(1, 2, 3));
  EXPECT_THAT(Sorted("prio"), ElementsAre(3, 2, 1)) << "equals stay as they were";
  ListRequest request;
  request.sort = {"held", "-id"};
  EXPECT_THAT(Ids(request), ElementsAre(3, 2, 1));
}

TEST_F(ListViewTest, ColumnsAreTitlesOrFields) {
  ListRequest request;
  request.columns = {"name", "ended", "workers", "ID"};
  ASSERT_OK_AND_ASSIGN(ListView view, Make(request));
  Table table({{"ID", true}, {"NAME"}, {"ENDED (UTC)"}});
  std::vector<Json> items;
  for (const v1::JobSummary& job : jobs_) {
    table.Add({absl::StrCat(job.id()), job.name(), "never"});
    items.push_back(ToJson(job));
  }
  ASSERT_OK_AND_ASSIGN(const Table picked, view.Columns(table, items));
  EXPECT_EQ(picked.Render(true),
            "NAME         ENDED (UTC)  WORKERS            ID\n"
            "digits       never        worker-1,worker-2   3\n"
            "words        never        -                   2\n"
            "digits-wide  never        -                   1\n");
}

TEST_F(ListViewTest, FieldsOfACsvAreThoseAskedFor) {
  ListRequest request;
  request.columns = {"name", "age"};
  ASSERT_OK_AND_ASSIGN(ListView view, Make(request));
  ASSERT_OK_AND_ASSIGN(const std::vector<Json> items, view.Fields({ToJson(jobs_[0])}));
  ASSERT_EQ(items.size(), 1u);
  EXPECT_EQ(items[0].dump(), R"({"name":"digits","submitted_ms":1699999700000})");
}

TEST_F(ListViewTest, WhatIsNoKeyOrNoFilterIsToldWhatThereIs) {
  const auto refused = [](const ListRequest& request) {
    return std::string(Make(request).status().message());
  };
  ListRequest request;
  request.sort = {"height"};
  EXPECT_THAT(Make(request), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(refused(request), HasSubstr("--sort height: there is no such; there are age, prio"));
  for (const char* filter : {"state", "=running", "state!running", "state~=x", "height=3"}) {
    request = {};
    request.filters = {filter};
    EXPECT_THAT(Make(request), StatusIs(absl::StatusCode::kInvalidArgument)) << filter;
  }
  request.filters = {"age<soon"};
  EXPECT_THAT(refused(request), HasSubstr("such as 30m"));
  request = {};
  request.columns = {"height"};
  ASSERT_OK_AND_ASSIGN(ListView view, Make(request));
  EXPECT_THAT(view.Columns(Table({{"ID"}, {"NAME"}}), {}).status().message(),
              HasSubstr("--columns height: there is no such column; there are id, name"));
}

}  // namespace
}  // namespace muster::cli
