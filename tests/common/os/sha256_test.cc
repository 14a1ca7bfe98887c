#include "common/os/sha256.h"

#include <gtest/gtest.h>

#include <string>

namespace muster {
namespace {

// The examples of FIPS 180-2.
constexpr char kOfNothing[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
constexpr char kOfAbc[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

TEST(Sha256, GivesThePublishedHashes) {
  EXPECT_EQ(Sha256Hex(""), kOfNothing);
  EXPECT_EQ(Sha256Hex("abc"), kOfAbc);
}

TEST(Sha256, PiecesGiveWhatTheWholeGives) {
  Sha256 hash;
  hash.Update("a");
  hash.Update("");
  hash.Update("bc");
  EXPECT_EQ(hash.FinishHex(), kOfAbc);
}

TEST(Sha256, OnlyLowerCaseHexOfItsLengthIsOne) {
  EXPECT_TRUE(IsSha256Hex(kOfAbc));
  EXPECT_FALSE(IsSha256Hex(""));
  EXPECT_FALSE(IsSha256Hex(std::string(kOfAbc).substr(1)));
  EXPECT_FALSE(IsSha256Hex(std::string(63, 'a') + "A"));
  EXPECT_FALSE(IsSha256Hex(std::string(63, 'a') + "/"));
}

}  // namespace
}  // namespace muster
