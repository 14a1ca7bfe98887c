#include "common/spec/packed_spec.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include "common/spec/spec_writer.h"
#include "common/spec/validate/spec_defaults.h"
#include "tests/common/spec/fill_spec.h"

namespace muster {
namespace {

using google::protobuf::util::MessageDifferencer;

TEST(PackedSpecTest, EverySpecComesBack) {
  for (int variant = 0; variant < 8; ++variant) {
    v1::JobSpec spec;
    int counter = 0;
    testing::FillEverything(spec, variant, counter);
    const std::string packed = PackSpec(spec);
    EXPECT_TRUE(MessageDifferencer::Equals(UnpackSpec(packed), spec)) << variant;
    EXPECT_EQ(PackedSpecToJson(packed), SpecToJson(spec));
  }
  EXPECT_EQ(PackedSpecToJson(PackSpec(v1::JobSpec())), "{}");
}

TEST(PackedSpecTest, EqualSpecsHaveEqualBytes) {
  const std::vector<std::string> names = {"d", "a", "c", "b", "f", "e"};
  v1::JobSpec one, other;
  for (const std::string& name : names) (*one.mutable_tags())[name] = name;
  for (auto name = names.rbegin(); name != names.rend(); ++name)
    (*other.mutable_tags())[*name] = *name;
  EXPECT_EQ(PackSpec(one), PackSpec(other));
  (*other.mutable_tags())["a"] = "another";
  EXPECT_NE(PackSpec(one), PackSpec(other));
}

TEST(PackedSpecTest, JsonOfOlderVersionsIsReadToo) {
  const std::string json = R"({"name":"x","ranks":{"min":2,"max":2}})";
  EXPECT_EQ(UnpackSpec(json).ranks().min(), 2u);
  EXPECT_EQ(PackedSpecToJson(json), json);
}

TEST(PackedSpecTest, TakesAThirdOfTheJson) {
  v1::JobSpec spec;
  spec.set_name("digits");
  spec.mutable_train()->mutable_model()->mutable_mlp()->add_hidden(8);
  FillDefaults(spec);
  EXPECT_LT(PackSpec(spec).size() * 3, SpecToJson(spec).size());
}

TEST(PackedSpecTest, WhatIsNoSpecIsReadAsFarAsItGoes) {
  std::string packed = PackSpec(UnpackSpec(R"({"name":"x","ranks":{"min":2,"max":2}})"));
  packed.resize(packed.size() - 1);
  EXPECT_EQ(UnpackSpec(packed).name(), "x");
  EXPECT_EQ(PackedSpecToJson("\xff\xff"), "{}");
}

}  // namespace
}  // namespace muster
