#include "common/spec/tree/spec_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/units.h"
#include "common/spec/spec_writer.h"
#include "muster/v1/job_spec.pb.h"
#include "tests/support/status_matchers.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

TEST(SpecTextTest, EnumValuesLoseTheirPrefix) {
  EXPECT_THAT(EnumValueTexts(*v1::Precision_descriptor()),
              ElementsAre("fp32", "bf16", "tf32", "fp16"));
  EXPECT_THAT(EnumValueTexts(*v1::Optimizer_Name_descriptor()),
              ElementsAre("sgd", "adamw", "adam", "lars", "lamb", "lion"));
  EXPECT_EQ(FindEnumValue(*v1::Stem_descriptor(), "imagenet")->number(), v1::STEM_IMAGENET);
  EXPECT_EQ(FindEnumValue(*v1::Stem_descriptor(), "IMAGENET"), nullptr);
  EXPECT_EQ(FindEnumValue(*v1::Stem_descriptor(), ""), nullptr);
  EXPECT_EQ(FindEnumValue(*v1::Stem_descriptor(), "unspecified"), nullptr);
}

TEST(SpecTextTest, DurationsReadBackAsTheyWereWritten) {
  for (const int64_t ms :
       {0l, 1l, 250l, 999l, 1000l, 1001l, 1500l, 60000l, 61001l, 5400000l, 604800123l}) {
    const auto proto = ToProto(absl::Milliseconds(ms));
    ASSERT_OK_AND_ASSIGN(const absl::Duration read, ParseDuration(DurationText(proto)));
    EXPECT_EQ(ToProto(read).seconds(), proto.seconds()) << DurationText(proto);
    EXPECT_EQ(ToProto(read).nanos(), proto.nanos()) << DurationText(proto);
  }
  EXPECT_EQ(DurationText(ToProto(absl::Minutes(90))), "1h30m");
}

TEST(SpecWriterTest, JsonHasOnlyWhatIsSetInOrderOfTheFields) {
  v1::JobSpec spec;
  spec.mutable_train()->set_precision(v1::PRECISION_BF16);
  spec.mutable_train()->set_seed(0);
  spec.mutable_train()->mutable_model()->mutable_mlp();
  (*spec.mutable_tags())["b"] = "2";
  (*spec.mutable_tags())["a"] = "1";
  spec.set_name("x");
  EXPECT_EQ(
      SpecToJson(spec),
      R"({"name":"x","tags":{"a":"1","b":"2"},"train":{"model":{"mlp":{}},"precision":"bf16","seed":0}})");
}

TEST(SpecWriterTest, YamlIsInBlocksAndQuotesWhatWouldBeReadOtherwise) {
  v1::JobSpec spec;
  spec.set_name("true");
  (*spec.mutable_tags())["1"] = "a: b";
  (*spec.mutable_tags())["on"] = "";
  spec.mutable_checkpoint()->set_url("/a/b");
  spec.mutable_train()->mutable_model()->mutable_mlp()->add_hidden(8);
  spec.mutable_train()->mutable_data()->mutable_digits();
  *spec.mutable_restart()->mutable_backoff() = ToProto(absl::Seconds(5));
  EXPECT_EQ(SpecToYaml(spec), R"(name: "true"
tags:
  "1": "a: b"
  "on": ""
checkpoint:
  url: /a/b
restart:
  backoff: "5s"
train:
  model:
    mlp:
      hidden: [8]
  data:
    digits: {}
)");
}

}  // namespace
}  // namespace muster
