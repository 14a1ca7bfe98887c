#include "common/os/tar_header.h"

#include <cstdlib>
#include <fstream>
#include <string>

#include "gtest/gtest.h"
#include "tests/support/temp_dir.h"

namespace muster {
namespace {

TEST(TarHeader, TheSystemsTarReadsNameSizeModeAndTime) {
  const testing::TempDir folder;
  const std::string path = folder / "archive.tar";
  const std::string text(700, 'x');
  {
    std::ofstream file(path, std::ios::binary);
    file << UstarHeader({.name = "a/b.txt", .mode = 0600, .size = text.size(), .time_s = 86400})
         << text << std::string(TarPadding(text.size()), '\0')
         << std::string(2 * kTarBlockBytes, '\0');
  }
  const std::string listed = path + ".txt";
  const std::string command = "TZ=UTC tar -tvf " + path + " > " + listed + " 2>&1";
  ASSERT_EQ(std::system(command.c_str()), 0);
  std::ifstream answer(listed);
  std::string line;
  std::getline(answer, line);
  EXPECT_EQ(line.substr(0, 10), "-rw-------");
  EXPECT_NE(line.find(" 700 1970-01-02 00:00 a/b.txt"), std::string::npos) << line;
}

TEST(TarHeader, MembersFillWholeBlocks) {
  EXPECT_EQ(TarPadding(0), 0u);
  EXPECT_EQ(TarPadding(1), 511u);
  EXPECT_EQ(TarPadding(512), 0u);
  EXPECT_EQ(TarPadding(513), 511u);
}

}  // namespace
}  // namespace muster
