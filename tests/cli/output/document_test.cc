#include "cli/output/document.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <cmath>
#include <limits>

#include "muster/v1/job_service.pb.h"
#include "tests/support/status_matchers.h"

namespace muster::cli {
namespace {

using muster::testing::StatusIs;
using ::testing::HasSubstr;

TEST(Format, KnowsItsNamesAndTellsThem) {
  for (const char* name : {"table", "wide", "json", "jsonl", "yaml", "csv", "name"})
    EXPECT_OK(ParseFormat(name));
  EXPECT_THAT(ParseFormat("toml"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("jsonl")));
}

TEST(ProtoJson, EveryFieldStandsInItUnderItsOwnName) {
  v1::JobSummary job;
  job.set_id(18446744073709551615u);
  job.set_state(v1::RUNNING);
  job.set_loss(0.5);
  job.set_lr(std::nan(""));
  job.add_workers("worker-1");
  const Json json = ToJson(job);
  EXPECT_EQ(json["id"].dump(), "18446744073709551615") << "a number, not text";
  EXPECT_EQ(json["state"], "RUNNING");
  EXPECT_EQ(json["reason"], nullptr) << "unspecified";
  EXPECT_EQ(json["loss"], 0.5);
  EXPECT_EQ(json["test_accuracy"], nullptr) << "absent";
  EXPECT_EQ(json["lr"].dump(), "null");
  EXPECT_EQ(json["workers"].dump(), "[\"worker-1\"]");
  EXPECT_EQ(json.size(), static_cast<size_t>(v1::JobSummary::descriptor()->field_count()));
}

TEST(ProtoJson, MapsAreInTheOrderOfTheirKeys) {
  v1::WorkerInfo worker;
  (*worker.mutable_labels())["zone"] = "b";
  (*worker.mutable_labels())["arch"] = "x";
  worker.add_slots()->set_kind(v1::GPU);
  const Json json = ToJson(worker);
  EXPECT_EQ(json["labels"].dump(), R"({"arch":"x","zone":"b"})");
  EXPECT_EQ(json["slots"][0]["kind"], "GPU");
}

TEST(Document, JsonReplacesWhatIsNoUtf8) {
  EXPECT_EQ(JsonLine({{"a", "\xff"}}), "{\"a\":\"\xEF\xBF\xBD\"}\n");
}

TEST(Document, YamlReadsBackAsTheSameValue) {
  const Json json = Json::parse(
      R"({"name":"digits","n":3,"f":0.5,"yes":"no","empty":"","list":[1,[2,3],{"a":1,"b":[]}],
      "nothing":null,"map":{},"text":"a: b # c\n","number":"12","dash":"-x","nested":{"k":{"l":"v"}}})");
  const std::string text = YamlText(json);
  const YAML::Node node = YAML::Load(text);
  EXPECT_EQ(node["name"].as<std::string>(), "digits");
  EXPECT_EQ(node["list"][1][1].as<int>(), 3);
  EXPECT_EQ(node["list"][2]["a"].as<int>(), 1);
  EXPECT_TRUE(node["list"][2]["b"].IsSequence());
  EXPECT_TRUE(node["nothing"].IsNull());
  EXPECT_TRUE(node["map"].IsMap());
  EXPECT_EQ(node["text"].as<std::string>(), "a: b # c\n");
  EXPECT_EQ(node["nested"]["k"]["l"].as<std::string>(), "v");
  EXPECT_THAT(text, HasSubstr("\"yes\": \"no\"\n"));
  EXPECT_THAT(text, HasSubstr("number: \"12\"\n"));
  EXPECT_THAT(text, HasSubstr("dash: \"-x\"\n"));
}

TEST(Document, YamlOfAListOfObjectsIsABlock) {
  EXPECT_EQ(YamlText(Json::parse(R"([{"a":1,"b":{"c":2}},{"a":2}])")),
            "- a: 1\n"
            "  b:\n"
            "    c: 2\n"
            "- a: 2\n");
}

TEST(Document, CsvQuotesWhatNeedsIt) {
  EXPECT_EQ(CsvText({Json::parse(R"({"id":1,"name":"a,\"b\"","list":[1,2],"none":null})")}),
            "id,name,list,none\n"
            "1,\"a,\"\"b\"\"\",\"[1,2]\",\n");
  EXPECT_EQ(CsvText({}), "");
}

TEST(Document, WhatIsNotFiniteStandsInCsvAsItIs) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(CsvText({{{"a", nan}, {"b", inf}, {"c", -inf}, {"d", 0.5}}}),
            "a,b,c,d\nnan,inf,-inf,0.5\n");
}

TEST(Document, OfWhatHasNoNameNothingIsNamed) {
  EXPECT_EQ(RenderOne(Format::kName, {{"warnings", Json::array()}}, "name"), "");
}

TEST(Document, ListsInEachFormat) {
  const std::vector<Json> items = {{{"id", 1}, {"name", "a"}}, {{"id", 2}, {"name", "b"}}};
  EXPECT_EQ(RenderList(Format::kJsonl, items, "id"),
            "{\"id\":1,\"name\":\"a\"}\n{\"id\":2,\"name\":\"b\"}\n");
  EXPECT_EQ(RenderList(Format::kName, items, "name"), "a\nb\n");
  EXPECT_EQ(RenderList(Format::kName, items, "id"), "1\n2\n");
  EXPECT_EQ(Json::parse(RenderList(Format::kJson, items, "id")), Json(items));
  EXPECT_EQ(RenderList(Format::kJson, {}, "id"), "[]\n");
  EXPECT_EQ(RenderOne(Format::kYaml, items[0], "id"), "id: 1\nname: a\n");
  EXPECT_EQ(RenderOne(Format::kCsv, items[0], "id"), "id,name\n1,a\n");
}

}  // namespace
}  // namespace muster::cli
