#include "common/ckpt/manifest.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "common/base/utf8.h"
#include "tests/support/status_matchers.h"

namespace muster {
namespace {

using ::absl::StatusCode;
using ::muster::testing::StatusIs;
using ::testing::HasSubstr;
using Json = nlohmann::json;

Manifest Example() {
  Manifest manifest;
  manifest.job_id = 42;
  manifest.job_name = "digits";
  manifest.attempt = 2;
  manifest.generation = 3;
  manifest.step = 1200;
  manifest.epoch = 3.5;
  manifest.best = true;
  manifest.metrics = {{"validation_accuracy", 0.975}};
  manifest.files = {{"model.safetensors", 5, {1, 2, 3}, {{4, 5, 6}}},
                    {"empty", 0, {7}, {}},
                    {"big", 2 * kHashBlockBytes + 1, {8}, {{9}, {10}, {11}}}};
  return manifest;
}

Json ExampleJson() { return Json::parse(EncodeManifest(Example())); }

absl::Status Decode(const Json& json) { return DecodeManifest(json.dump()).status(); }

TEST(ManifestTest, EveryFieldSurvives) {
  ASSERT_OK_AND_ASSIGN(const Manifest manifest, DecodeManifest(EncodeManifest(Example())));
  EXPECT_EQ(manifest.job_id, 42u);
  EXPECT_EQ(manifest.job_name, "digits");
  EXPECT_EQ(manifest.attempt, 2u);
  EXPECT_EQ(manifest.generation, 3u);
  EXPECT_EQ(manifest.step, 1200);
  EXPECT_EQ(manifest.epoch, 3.5);
  EXPECT_TRUE(manifest.best);
  EXPECT_EQ(manifest.metrics, Example().metrics);
  ASSERT_EQ(manifest.files.size(), 3u);
  EXPECT_EQ(manifest.files[0].name, "model.safetensors");
  EXPECT_EQ(manifest.files[0].size_bytes, 5u);
  EXPECT_EQ(manifest.files[0].hash, Example().files[0].hash);
  EXPECT_EQ(manifest.files[2].blocks, Example().files[2].blocks);
  EXPECT_EQ(manifest.TotalBytes(), 2 * kHashBlockBytes + 6);
  EXPECT_EQ(manifest.Find("big"), &manifest.files[2]);
  EXPECT_EQ(manifest.Find("none"), nullptr);
}

TEST(ManifestTest, MetricsThatAreNoNumbersAreLeftOut) {
  Manifest manifest = Example();
  manifest.metrics["loss"] = std::numeric_limits<double>::quiet_NaN();
  ASSERT_OK_AND_ASSIGN(const Manifest decoded, DecodeManifest(EncodeManifest(manifest)));
  EXPECT_EQ(decoded.metrics, Example().metrics);
}

TEST(ManifestTest, EachMissingKeyIsNamed) {
  const Json example = ExampleJson();
  for (const auto& [key, value] : example.items()) {
    Json json = ExampleJson();
    json.erase(key);
    EXPECT_THAT(Decode(json), StatusIs(StatusCode::kDataLoss, HasSubstr(key)));
  }
  for (const char* key : {"name", "size_bytes", "xxh3_128", "blocks"}) {
    Json json = ExampleJson();
    json["files"][1].erase(key);
    EXPECT_THAT(Decode(json), StatusIs(StatusCode::kDataLoss, HasSubstr("files[1]")));
  }
}

TEST(ManifestTest, EachWrongTypeIsNamed) {
  const Json example = ExampleJson();
  for (const auto& [key, value] : example.items()) {
    for (const Json& wrong :
         {Json(nullptr), Json(Json::array({Json::array()})), Json(-1.5), Json("x")}) {
      if (wrong.type() == value.type() || (wrong.is_number() && key == "epoch")) continue;
      Json json = ExampleJson();
      json[key] = wrong;
      EXPECT_THAT(Decode(json), StatusIs(StatusCode::kDataLoss)) << key << " " << wrong;
    }
  }
}

TEST(ManifestTest, NumbersOutOfRangeAreRefused) {
  for (const auto& [key, value] : std::map<std::string, Json>{{"attempt", 4294967296},
                                                              {"generation", -1},
                                                              {"step", 9223372036854775808ull},
                                                              {"step", -1},
                                                              {"job_id", 1.0}}) {
    Json json = ExampleJson();
    json[key] = value;
    EXPECT_THAT(Decode(json), StatusIs(StatusCode::kDataLoss, HasSubstr(key))) << value;
  }
}

TEST(ManifestTest, NoFileNameLeavesTheFolder) {
  for (const std::string name :
       {"", ".", "..", "../x", "/etc/passwd", "a/b", "a\\b", "a\nb", "MANIFEST.json"}) {
    Json json = ExampleJson();
    json["files"][0]["name"] = name;
    EXPECT_THAT(Decode(json), StatusIs(StatusCode::kDataLoss, HasSubstr("plain file name")))
        << name;
  }
  Json json = ExampleJson();
  json["files"][0]["name"] = std::string("a\0b", 3);
  EXPECT_THAT(Decode(json), StatusIs(StatusCode::kDataLoss, HasSubstr("plain file name")));
}

TEST(ManifestTest, WhoNamesAFileIsToldWhatAReaderWouldRefuse) {
  for (const std::string name :
       {"", ".", "..", "a/b", "a\\b", "a\nb", "\x7f", "latin-\xe9", "MANIFEST.json"}) {
    const absl::Status refused = CheckFileName(name);
    EXPECT_THAT(refused, StatusIs(StatusCode::kInvalidArgument)) << name;
    EXPECT_TRUE(IsUtf8(refused.message())) << refused;
  }
  EXPECT_THAT(CheckFileName("a\\b"),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("\"a\\\\b\"")));
  EXPECT_THAT(CheckFileName("latin-\xe9"),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("\"latin-\\xe9\"")));
  EXPECT_THAT(CheckFileName(std::string(256, 'a')), StatusIs(StatusCode::kInvalidArgument));
  for (const std::string& name : {std::string("größe 1.pt"), std::string(255, 'a')}) {
    EXPECT_OK(CheckFileName(name));
    Manifest manifest = Example();
    manifest.files[0].name = name;
    ASSERT_OK_AND_ASSIGN(const Manifest decoded, DecodeManifest(EncodeManifest(manifest)));
    EXPECT_EQ(decoded.files[0].name, name);
  }
}

TEST(ManifestTest, AFileStandsOnce) {
  Json json = ExampleJson();
  json["files"][1]["name"] = "big";
  EXPECT_THAT(Decode(json), StatusIs(StatusCode::kDataLoss, HasSubstr("big stands twice")));
}

TEST(ManifestTest, BlocksMustFitTheSize) {
  Json json = ExampleJson();
  json["files"][0]["size_bytes"] = UINT64_MAX;
  EXPECT_THAT(Decode(json), StatusIs(StatusCode::kDataLoss, HasSubstr("block hashes")));
  json = ExampleJson();
  json["files"][1]["size_bytes"] = 1;
  EXPECT_THAT(Decode(json), StatusIs(StatusCode::kDataLoss, HasSubstr("empty has 0 block")));
}

TEST(ManifestTest, TooManyFilesAreRefused) {
  Json json = ExampleJson();
  json["files"] = Json(std::vector<int>(kMaxManifestFiles + 1));
  EXPECT_THAT(Decode(json), StatusIs(StatusCode::kDataLoss, HasSubstr("65537 files")));
}

TEST(ManifestTest, WhatIsNoJsonObjectIsRefused) {
  for (const char* text : {"", "{", "[]", "null", "{}}", "\xff", "{\"format_version\": 1"}) {
    EXPECT_THAT(DecodeManifest(text), StatusIs(StatusCode::kDataLoss)) << text;
  }
  EXPECT_THAT(DecodeManifest(std::string(1 << 20, '[')), StatusIs(StatusCode::kDataLoss));
}

TEST(ManifestTest, AnotherFormatVersionIsNoCorruption) {
  Json json = ExampleJson();
  json["format_version"] = 2;
  EXPECT_THAT(Decode(json), StatusIs(StatusCode::kFailedPrecondition, HasSubstr("version 2")));
}

TEST(ManifestTest, AnyCutIsRefusedAndNoneCrashes) {
  const std::string text = EncodeManifest(Example());
  for (size_t size = 0; size + 1 < text.size(); ++size) {
    EXPECT_THAT(DecodeManifest(text.substr(0, size)), StatusIs(StatusCode::kDataLoss)) << size;
  }
}

}  // namespace
}  // namespace muster
