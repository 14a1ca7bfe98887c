#include "common/upload/ignore_rules.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

TEST(IgnoreRules, PatternsAreOfNamesOrOfPaths) {
  const IgnoreRules rules("# what we do not need\n*.ckpt\n/data\nout/*.log\r\nruns/\n\n");
  EXPECT_TRUE(rules.Ignores("a.ckpt", false));
  EXPECT_TRUE(rules.Ignores("deep/down/a.ckpt", false));
  EXPECT_FALSE(rules.Ignores("a.ckpt.py", false));
  EXPECT_TRUE(rules.Ignores("data", true));
  EXPECT_TRUE(rules.Ignores("out/x.log", false));
  EXPECT_FALSE(rules.Ignores("out/deep/x.log", false)) << "a star stops at a slash";
  EXPECT_FALSE(rules.Ignores("x.log", false));
  EXPECT_TRUE(rules.Ignores("runs", true));
  EXPECT_FALSE(rules.Ignores("runs", false)) << "folders only";
}

TEST(IgnoreRules, WhatNobodyWantsIsAlwaysLeftOut) {
  const IgnoreRules rules("");
  EXPECT_TRUE(rules.Ignores(".git", true));
  EXPECT_TRUE(rules.Ignores("a/__pycache__", true));
  EXPECT_FALSE(rules.Ignores(".gitignore", false));
}

}  // namespace
}  // namespace muster
