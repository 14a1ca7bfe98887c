#include "controller/api/calls/data_key.h"

#include <gtest/gtest.h>

namespace muster::controller {
namespace {

v1::Train Pictures(const std::string& path = "/data/imagenet") {
  v1::Train train;
  train.mutable_data()->mutable_images()->set_path(path);
  return train;
}

TEST(DataKeyTest, DataOfNoFilesHaveNone) {
  v1::Train train;
  EXPECT_EQ(DataKeyOf(train), "");
  train.mutable_data()->mutable_digits();
  EXPECT_EQ(DataKeyOf(train), "");
  train.mutable_data()->mutable_synthetic();
  EXPECT_EQ(DataKeyOf(train), "");
}

TEST(DataKeyTest, WhatIsLookedAtMakesAnotherKey) {
  const std::string key = DataKeyOf(Pictures());
  EXPECT_EQ(key.size(), 64u);
  EXPECT_NE(DataKeyOf(Pictures("/data/other")), key);
  v1::Train train = Pictures();
  train.mutable_data()->mutable_images()->set_size(32);
  EXPECT_NE(DataKeyOf(train), key);
  train = Pictures();
  train.mutable_data()->set_subset(100);
  EXPECT_NE(DataKeyOf(train), key);
  train = Pictures();
  train.set_validate_samples(100);
  EXPECT_NE(DataKeyOf(train), key);
}

TEST(DataKeyTest, HowATaskReadsAndLearnsThemDoesNot) {
  const std::string key = DataKeyOf(Pictures());
  v1::Train train = Pictures();
  train.set_seed(7);
  train.set_batch_size(64);
  train.mutable_optimizer()->set_lr(0.1);
  train.mutable_data()->set_threads(4);
  train.mutable_data()->set_memory_limit("1GiB");
  train.mutable_data()->set_shuffle_window(0);
  EXPECT_EQ(DataKeyOf(train), key);
}

TEST(DataKeyTest, WhetherTheyAreShuffledInWindowsMakesAnotherKeyAndTheWindowsSizeDoesNot) {
  v1::Train train = Pictures();
  train.mutable_data()->set_shuffle_window(1000);
  const std::string key = DataKeyOf(train);
  EXPECT_NE(key, DataKeyOf(Pictures())) << "the order in storage is a part of the fingerprint";
  train.mutable_data()->set_shuffle_window(2000);
  EXPECT_EQ(DataKeyOf(train), key);
}

TEST(DataKeyTest, AMixtureHasOneIfAllOfItIsLookedAt) {
  v1::Train train;
  v1::Mixture& mixture = *train.mutable_data()->mutable_mixture();
  mixture.add_sources()->mutable_images()->set_path("/a");
  mixture.add_sources()->mutable_images()->set_path("/b");
  const std::string key = DataKeyOf(train);
  EXPECT_NE(key, "");
  mixture.mutable_sources(0)->set_weight(3);
  mixture.mutable_sources(0)->set_name("first");
  mixture.add_phases();
  EXPECT_EQ(DataKeyOf(train), key);
  mixture.mutable_sources(1)->mutable_digits();
  EXPECT_EQ(DataKeyOf(train), "");
}

}  // namespace
}  // namespace muster::controller
