// `muster __complete`, against a service without a controller, and the scripts that the shells run.
#include "cli/grammar/completion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "common/fs/file_system.h"
#include "tests/cli/cli_run.h"
#include "tests/cli/fake_job_service.h"
#include "tests/support/raw_peer.h"
#include "tests/support/status_matchers.h"

namespace muster::cli::testing {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

class CompletionTest : public ::testing::Test {
 protected:
  CompletionTest() {
    service_.Start();
    run_.env()["MUSTER_ADDR"] = service_.address();
    run_.env()["MUSTER_TOKEN"] = FakeJobService::kToken;
    service_.PutJob(MakeJob(7, "digits", v1::SUCCEEDED));
    service_.PutJob(MakeJob(8, "words", v1::RUNNING));
    v1::WorkerInfo worker;
    worker.set_name("worker-1");
    service_.PutWorker(worker);
  }

  // Without what stands behind the tabs.
  std::vector<std::string> Offered(std::vector<std::string> words) {
    words.insert(words.begin(), "__complete");
    const CliResult result = run_(words);
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(result.err, "");
    std::vector<std::string> values;
    for (const absl::string_view line : absl::StrSplit(result.out, '\n', absl::SkipEmpty())) {
      values.emplace_back(line.substr(0, line.find('\t')));
    }
    return values;
  }

  FakeJobService service_;
  CliRun run_;
};

TEST_F(CompletionTest, VerbsAndThoseBelowThem) {
  EXPECT_THAT(Offered({"su"}), UnorderedElementsAre("submit", "suspend"));
  EXPECT_THAT(Offered({""}), Contains("nodes"));
  EXPECT_THAT(Offered({""}), Not(Contains("__complete")));
  EXPECT_THAT(Offered({"nodes", "d"}), ElementsAre("drain"));
  EXPECT_THAT(Offered({"-o", "json", "nodes", "u"}), ElementsAre("undrain"));
}

TEST_F(CompletionTest, FlagsOfTheVerbAndThoseOfAll) {
  EXPECT_THAT(Offered({"ls", "--st"}), ElementsAre("--state"));
  EXPECT_THAT(Offered({"nodes", "drain", "--"}), Contains("--let-finish"));
  EXPECT_THAT(Offered({"nodes", "drain", "--out"}), ElementsAre("--output"));
}

TEST_F(CompletionTest, IdsAndNamesOfJobs) {
  EXPECT_THAT(Offered({"show", ""}), ElementsAre("8", "words", "7", "digits"));
  EXPECT_THAT(Offered({"show", "dig"}), ElementsAre("digits"));
  EXPECT_THAT(Offered({"cancel", ""}), ElementsAre("8", "words")) << "those that have not ended";
  EXPECT_THAT(Offered({"cancel", "8", "w"}), ElementsAre("words")) << "takes several";
  EXPECT_THAT(Offered({"show", "7", ""}), IsEmpty()) << "takes one";
  EXPECT_THAT(Offered({"submit", "--after", "w"}), ElementsAre("words"));
  EXPECT_THAT(Offered({"ckpt", "ls", "d"}), ElementsAre("digits"));
}

TEST_F(CompletionTest, WorkersAndChoices) {
  EXPECT_THAT(Offered({"nodes", "drain", ""}), ElementsAre("worker-1"));
  EXPECT_THAT(Offered({"submit", "--exclude", "wor"}), ElementsAre("worker-1"));
  EXPECT_THAT(Offered({"ls", "-o", "j"}), ElementsAre("json", "jsonl"));
  EXPECT_THAT(Offered({"ls", "--output=j"}), ElementsAre("--output=json", "--output=jsonl"));
  EXPECT_THAT(Offered({"ls", "--state", "f"}), ElementsAre("failed"));
  EXPECT_THAT(Offered({"run", "--prefix", "a"}), ElementsAre("auto", "always"));
  EXPECT_THAT(Offered({"completion", ""}), UnorderedElementsAre("bash", "zsh", "fish"));
}

TEST_F(CompletionTest, FilesAreTheShellsOwn) {
  EXPECT_THAT(Offered({"submit", ""}), ElementsAre(":files"));
  EXPECT_THAT(Offered({"submit", "-f", "jo"}), ElementsAre(":files"));
  EXPECT_THAT(Offered({"run", "--", "py"}), ElementsAre(":files"));
}

TEST_F(CompletionTest, AControllerThatIsNotThereGivesNothing) {
  service_.Stop();
  EXPECT_THAT(Offered({"show", ""}), IsEmpty());
}

TEST_F(CompletionTest, AControllerThatDoesNotAnswerIsNotWaitedFor) {
  muster::testing::RawPeer silent(
      [](muster::testing::RawPeer::Connection& connection) { connection.AwaitHangUp(); });
  run_.env()["MUSTER_ADDR"] = silent.address();
  const absl::Duration began = SteadyNow();
  EXPECT_THAT(Offered({"show", ""}), IsEmpty());
  EXPECT_LT(SteadyNow() - began, absl::Seconds(5)) << "not the ten seconds of other calls";
}

// What a command prints.
std::string Output(const std::string& command) {
  std::string text;
  FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return "no pipe";
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) text += static_cast<char>(c);
  ::pclose(pipe);
  return text;
}

// The script of each shell, in that shell (scripts/setup --tests installs them), beside a program
// in muster's place that tells what it was asked and offers some words.
class CompletionScriptTest : public CompletionTest {
 protected:
  void Offer(const std::string& lines) {
    ASSERT_OK(WriteFileAtomically(
        PosixFileSystem(), run_.dir() / "muster",
        absl::StrCat("#!/bin/sh\nfor word in \"$@\"; do printf '[%s]' \"$word\" >> asked; done\n"
                     "printf ' ' >> asked\n[ \"$1\" != __complete ] || printf '",
                     lines, "'\n"),
        0755));
  }
  // Writes it as `script`; the shell finds nothing wrong with how it is written.
  void TakeScript(const std::string& shell) {
    ASSERT_OK(WriteFileAtomically(PosixFileSystem(), run_.dir() / "script",
                                  run_({"completion", shell}).out, 0644));
    EXPECT_EQ(In(shell + " -n script && echo parsed"), "parsed\n");
  }
  // What the command prints, run in the folder of the script, with no settings of anybody's.
  std::string In(const std::string& command) {
    const std::string folder = run_.dir().path();
    return Output(absl::StrCat("cd ", folder, "; rm -f asked; timeout 60 env -i HOME=", folder,
                               " TERM=dumb PATH=", folder, ":/usr/bin:/bin ", command));
  }
  // What an interactive zsh shows that has these keys typed, with the script.
  std::string TypeInZsh(const std::string& keys) {
    EXPECT_OK(WriteFileAtomically(
        PosixFileSystem(), run_.dir() / "session",
        absl::StrCat("zmodload zsh/zpty\n"
                     "zpty shell zsh -f -i\n"
                     "zpty -w shell 'autoload -Uz compinit; compinit -D -u; source ./script'\n"
                     "zpty -w -n shell $'",
                     keys,
                     "'\n"
                     "zpty -w shell exit\n"
                     "while zpty -r shell line; do print -r -- \"$line\"; done\n"),
        0644));
    return In("zsh -f session");
  }
  std::string Asked() { return Output(absl::StrCat("cat ", run_.dir() / "asked")); }
};

TEST_F(CompletionScriptTest, BashAsksWithTheWordsSoFar) {
  ASSERT_NO_FATAL_FAILURE(Offer("json\\thelp\\n--output=jsonl\\n8\\n"));
  ASSERT_NO_FATAL_FAILURE(TakeScript("bash"));
  const auto complete = [&](const std::string& line) {
    return In(absl::StrCat("bash -c 'source ./script; COMP_LINE=\"", line,
                           "\"; COMP_POINT=", line.size(), "; _muster; echo \"${COMPREPLY[@]}\"'"));
  };
  EXPECT_EQ(complete("./muster show "), "json --output=jsonl 8\n");
  EXPECT_EQ(Asked(), "[__complete][show][] ");
  EXPECT_EQ(complete("./muster ls --output=j"), "json jsonl 8\n");
  EXPECT_EQ(Asked(), "[__complete][ls][--output=j] ");
}

// A person's keys on a terminal: the command that runs has the word that was completed.
TEST_F(CompletionScriptTest, ZshCompletesAWordAtItsTab) {
  ASSERT_NO_FATAL_FAILURE(Offer("digits\\tjob 7\\n"));
  ASSERT_NO_FATAL_FAILURE(TakeScript("zsh"));
  const std::string shown = TypeInZsh("muster show dig\\t\\n");
  EXPECT_EQ(Asked(), "[__complete][show][dig] [show][digits] ") << shown;
}

TEST_F(CompletionScriptTest, FishOffersTheWordsWithTheirHelp) {
  ASSERT_NO_FATAL_FAILURE(Offer("digits\\tjob 7\\n"));
  ASSERT_NO_FATAL_FAILURE(TakeScript("fish"));
  EXPECT_EQ(In("fish --no-config -c 'source ./script; complete -C \"muster show dig\"'"),
            "digits\tjob 7\n");
  EXPECT_EQ(Asked(), "[__complete][show][dig] ");
}

TEST_F(CompletionScriptTest, FilesAreFoundByZshAndFishThemselves) {
  ASSERT_NO_FATAL_FAILURE(Offer(":files\\n"));
  ASSERT_OK(WriteFileAtomically(PosixFileSystem(), run_.dir() / "job.yaml", "", 0644));
  ASSERT_NO_FATAL_FAILURE(TakeScript("fish"));
  EXPECT_THAT(In("fish --no-config -c 'source ./script; complete -C \"muster submit jo\"'"),
              ::testing::StartsWith("job.yaml"));
  ASSERT_NO_FATAL_FAILURE(TakeScript("zsh"));
  const std::string shown = TypeInZsh("muster submit jo\\t\\n");
  EXPECT_EQ(Asked(), "[__complete][submit][jo] [submit][job.yaml] ") << shown;
}

TEST_F(CompletionTest, EachShellHasItsScript) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    EXPECT_THAT(run_({"completion", shell}).out, ::testing::HasSubstr("__complete")) << shell;
  }
  EXPECT_EQ(run_({"completion", "tcsh"}).code, 2);
}

// The manual, as the programs take it that show it.
TEST_F(CompletionTest, ManualPagesAreWellFormed) {
  const std::string folder = run_.dir().path();
  ASSERT_EQ(run_({"__man", folder}).code, 0);
  for (const char* page : {"muster", "muster-submit", "muster-nodes", "muster-data", "muster-ckpt",
                           "muster-local", "muster-completion"}) {
    const std::string file = absl::StrCat(folder, "/", page, ".1");
    EXPECT_EQ(Output(absl::StrCat("groff -man -Tutf8 -ww -z ", file)), "") << file;
  }
  const std::string shown =
      Output(absl::StrCat("groff -man -Tascii ", folder, "/muster-nodes.1 | sed 's/.\x08//g'"));
  EXPECT_THAT(shown, ::testing::HasSubstr("--let-finish"));
  EXPECT_THAT(shown, ::testing::HasSubstr("nodes drain"));
}

}  // namespace
}  // namespace muster::cli::testing
