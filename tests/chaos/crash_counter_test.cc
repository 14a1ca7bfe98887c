// The counter of the crash sweeps sees each of the calls that it names, and dies before it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "tests/chaos/crash_page.h"
#include "tests/support/subprocess.h"
#include "tests/support/temp_dir.h"

namespace muster::testing {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(20);

class CrashCounterTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const int fd = ::open((dir_ / "page").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    ASSERT_EQ(::ftruncate(fd, sizeof(CrashPage)), 0);
    void* mapped = ::mmap(nullptr, sizeof(CrashPage), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ::close(fd);
    ASSERT_NE(mapped, MAP_FAILED);
    page_ = static_cast<CrashPage*>(mapped);
    page_->kill_kind = kAnyCall;
    page_->armed = 1;
    std::filesystem::create_directories(dir_ / "work/dir");
    std::ofstream(dir_ / "work/old") << "old";
  }
  void TearDown() override { ::munmap(page_, sizeof(CrashPage)); }

  // In the folder "work"; its exit code.
  int MakeCall(const std::string& program = "crash_calls") {
    const ProcessResult result = RunProcess({"/bin/sh", "-c", "cd \"$0\" && exec \"$1\" \"$2\"",
                                             dir_ / "work", CRASH_CALLS, GetParam()},
                                            {{"LD_PRELOAD", CRASH_COUNTER},
                                             {kCrashPageVariable, dir_ / "page"},
                                             {kCrashProgramVariable, program}},
                                            kPatience);
    EXPECT_EQ(result.err, "");
    return result.exit_code;
  }
  std::set<std::string> Names() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(dir_.path() + "/work"))
      names.insert(entry.path().filename());
    return names;
  }
  uint64_t Counted() const {
    for (size_t kind = 0; kind < kCrashCallCount; ++kind) {
      if (std::string(kCrashCalls[kind]) == GetParam()) return page_->of_kind[kind];
    }
    return 0;
  }

  TempDir dir_;
  CrashPage* page_ = nullptr;
};

TEST_P(CrashCounterTest, CountsTheCall) {
  EXPECT_EQ(MakeCall(), 0);
  EXPECT_EQ(Counted(), 1u);
  EXPECT_EQ(page_->calls, 1u);
  EXPECT_EQ(page_->killed, 0u);
}

TEST_P(CrashCounterTest, DiesBeforeTheCall) {
  page_->kill_at = 1;
  EXPECT_EQ(MakeCall(), 128 + SIGKILL);
  EXPECT_EQ(page_->killed, 1u);
  EXPECT_STREQ(kCrashCalls[page_->killed_kind], GetParam());
  EXPECT_EQ(Names(), (std::set<std::string>{"dir", "old"})) << "the call was made";
}

TEST_P(CrashCounterTest, AnotherProgramDoesNotCount) {
  EXPECT_EQ(MakeCall("musterd"), 0);
  EXPECT_EQ(page_->calls, 0u);
}

INSTANTIATE_TEST_SUITE_P(EachCall, CrashCounterTest, ::testing::ValuesIn(kCrashCalls),
                         [](const auto& call) { return std::string(call.param); });

}  // namespace
}  // namespace muster::testing
