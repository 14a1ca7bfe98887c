// Holds the arrows over every source file of the tree and every executable of this build.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdio.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "tests/arrows/arrow_rules.h"

namespace muster::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string Variable(const char* name) {
  const char* value = ::getenv(name);
  return value == nullptr ? "" : value;
}

std::string ReadAll(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The shared libraries that the loader would bring in for `executable`, dependencies of
// dependencies included.
std::vector<std::string> LoadedLibraries(const std::filesystem::path& executable) {
  const std::string command = absl::StrCat("ldd '", executable.string(), "' 2>&1");
  std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), ::pclose);
  std::string output;
  char buffer[4096];
  size_t n = 0;
  while (pipe != nullptr && (n = ::fread(buffer, 1, sizeof buffer, pipe.get())) > 0) {
    output.append(buffer, n);
  }
  std::vector<std::string> libraries;
  for (absl::string_view line : absl::StrSplit(output, '\n', absl::SkipWhitespace())) {
    const std::vector<std::string> words =
        absl::StrSplit(absl::StripAsciiWhitespace(line), ' ', absl::SkipEmpty());
    if (!words.empty()) libraries.push_back(words[0]);
  }
  return libraries;
}

TEST(Arrows, EverySourceFileKeepsThem) {
  const std::filesystem::path root = Variable("MUSTER_SOURCE_DIR");
  ASSERT_TRUE(std::filesystem::exists(root / "CMakeLists.txt")) << "MUSTER_SOURCE_DIR is not set";
  std::vector<std::string> complaints;
  int files = 0;
  for (const char* folder : {"common", "controller", "worker", "cli"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder)) {
      const std::string extension = entry.path().extension();
      if (extension != ".h" && extension != ".cc" && extension != ".cu") continue;
      ++files;
      const std::string path = std::filesystem::relative(entry.path(), root);
      for (std::string& complaint : CheckIncludes(path, ReadAll(entry.path()))) {
        complaints.push_back(std::move(complaint));
      }
    }
  }
  EXPECT_GT(files, 0);
  EXPECT_THAT(complaints, IsEmpty()) << absl::StrJoin(complaints, "\n");
}

// The headers of ours that a file brings in, by way of other headers too.
std::set<std::string> Reached(const std::filesystem::path& root, const std::string& file) {
  std::set<std::string> reached;
  std::vector<std::string> left{file};
  while (!left.empty()) {
    const std::string text = ReadAll(root / left.back());
    left.pop_back();
    for (absl::string_view line : absl::StrSplit(text, '\n')) {
      if (!absl::ConsumePrefix(&line, "#include \"")) continue;
      std::string header(line.substr(0, line.find('"')));
      if (std::filesystem::exists(root / header) && reached.insert(header).second) {
        left.push_back(std::move(header));
      }
    }
  }
  return reached;
}

// What answers people asks the engine: it has no database in its hands, by no way round.
TEST(Arrows, TheApiAndThePagesDoNotReachTheStore) {
  const std::filesystem::path root = Variable("MUSTER_SOURCE_DIR");
  std::vector<std::string> complaints;
  for (const char* folder : {"controller/api", "controller/web"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder)) {
      if (!entry.is_regular_file()) continue;
      const std::string file = std::filesystem::relative(entry.path(), root);
      for (const std::string& header : Reached(root, file)) {
        if (absl::StartsWith(header, "controller/store/")) {
          complaints.push_back(absl::StrCat(file, " reaches ", header));
        }
      }
    }
  }
  EXPECT_THAT(complaints, IsEmpty()) << absl::StrJoin(complaints, "\n");
}

// The subjects of each module: its files without their endings.
std::map<std::string, std::set<std::string>> Subjects(const std::filesystem::path& root) {
  std::map<std::string, std::set<std::string>> subjects;
  for (const char* folder : {"common", "controller", "worker", "cli"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder)) {
      const std::string extension = entry.path().extension();
      if (extension != ".h" && extension != ".cc" && extension != ".cu") continue;
      const std::string module = std::filesystem::relative(entry.path().parent_path(), root);
      subjects[module].insert(entry.path().stem());
    }
  }
  return subjects;
}

// People find their way by names. A thirteenth subject says that there are two modules.
TEST(Arrows, ARoomHoldsADozenSubjects) {
  for (const auto& [module, subjects] : Subjects(Variable("MUSTER_SOURCE_DIR"))) {
    EXPECT_LE(subjects.size(), 12u) << module;
  }
}

// But for `main`, the verbs of the command line, each in the file of its name, and the declarations
// of Gloo, whose names are Gloo's.
TEST(Arrows, NoTwoFilesShareAName) {
  std::map<std::string, std::string> modules{{"main", ""}};
  for (const auto& [module, subjects] : Subjects(Variable("MUSTER_SOURCE_DIR"))) {
    if (absl::StartsWith(module, "cli/commands/") ||
        absl::StartsWith(module, "worker/dist/stubs/")) {
      continue;
    }
    for (const std::string& subject : subjects) {
      if (subject == "main") continue;
      const auto [other, is_new] = modules.emplace(subject, module);
      EXPECT_TRUE(is_new) << subject << " is in " << other->second << " and in " << module;
    }
  }
}

// Somebody may set the wall clock: what waits, bounds or measures by it waits for years, or not at
// all. Who may ask for it is here, and why.
TEST(Arrows, NothingWaitsByTheWallClock) {
  const std::map<std::string, std::string> allowed = {
      {"common/base/clock.cc", "is the clock"},
      {"common/base/log.cc", "says when a line was written"},
      {"controller/rpc/rpc_server.cc", "gRPC's own deadline of a shutdown"},
      {"worker/agent/connection/enroll_client.cc", "gRPC's deadlines are of the wall clock"},
      {"worker/agent/folders/upload_fetcher.cc", "gRPC's own deadline of a call"},
      {"worker/data/index/index_folder.cc", "says how long ago a file was last used"},
      {"worker/train/artifacts/tensorboard_writer.cc", "says when a number was reported"},
      {"worker/trainer/rank/link_adapters.cc", "says when a number was reported"},
  };
  const std::filesystem::path root = Variable("MUSTER_SOURCE_DIR");
  std::vector<std::string> complaints;
  for (const char* folder : {"common", "controller", "worker", "cli"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder)) {
      const std::string extension = entry.path().extension();
      if (extension != ".h" && extension != ".cc") continue;
      const std::string path = std::filesystem::relative(entry.path(), root);
      const std::string text = ReadAll(entry.path());
      const bool asks = text.find("absl::Now()") != std::string::npos ||
                        text.find("system_clock::now()") != std::string::npos ||
                        text.find("(CLOCK_REALTIME") != std::string::npos;
      if (asks && !allowed.contains(path)) complaints.push_back(path);
    }
  }
  EXPECT_THAT(complaints, IsEmpty()) << "use common/base/deadline.h, or Clock::SinceBoot";
}

// Whoever only holds data needs none of them.
TEST(Arrows, TheDataToolLoadsNeitherTorchNorGrpcNorProtobuf) {
  const std::filesystem::path tool = Variable("MUSTER_BIN_DIR") + "/muster-data";
  ASSERT_TRUE(std::filesystem::exists(tool)) << tool << " is not built";
  const std::vector<std::string> libraries = LoadedLibraries(tool);
  EXPECT_FALSE(libraries.empty());
  for (const std::string& library : libraries) {
    for (const char* heavy : {"libtorch", "libc10", "libgrpc", "libprotobuf"})
      EXPECT_FALSE(absl::StrContains(library, heavy)) << library;
  }
}

TEST(Arrows, NoExecutableLoadsTorchAndGrpc) {
  const std::filesystem::path bin = Variable("MUSTER_BIN_DIR");
  for (const char* name : {"musterd", "muster-worker", "muster", "muster-data"}) {
    ASSERT_TRUE(std::filesystem::exists(bin / name)) << bin / name << " is not built";
  }
  std::vector<std::string> complaints;
  for (const std::filesystem::path& folder : {bin, bin.parent_path() / "tests"}) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (!entry.is_regular_file()) continue;
      const std::vector<std::string> libraries = LoadedLibraries(entry.path());
      EXPECT_FALSE(libraries.empty()) << entry.path();
      for (std::string& complaint : CheckLibraries(entry.path().string(), libraries)) {
        complaints.push_back(std::move(complaint));
      }
    }
  }
  EXPECT_THAT(complaints, IsEmpty()) << absl::StrJoin(complaints, "\n");
}

// ---- The rules themselves: each planted violation is caught, and what is allowed is not ----

struct Planted {
  const char* path;
  const char* line;
  const char* complaint;  // part of it; nullptr: allowed
};

TEST(ArrowRules, CatchPlantedViolations) {
  const Planted cases[] = {
      {"controller/policy/x.cc", "#include \"controller/store/job_store.h\"", "may not include"},
      {"controller/policy/x.cc", "#include \"controller/model/types/plan.h\"", nullptr},
      {"controller/model/x.h", "#include \"controller/engine/applier.h\"", "may not include"},
      {"controller/engine/x.cc", "#include \"controller/api/job_service.h\"", "may not include"},
      {"controller/api/x.cc", "#include \"controller/store/job_store.h\"", "may not include"},
      {"controller/api/x.cc", "#include \"common/fs/file_system.h\"", "may not include"},
      {"controller/server.cc", "#include \"controller/store/job_store.h\"", nullptr},
      {"controller/server.cc", "#include \"worker/agent/connection/session.h\"", "may not include"},
      {"controller/engine/x.cc", "#include <sqlite3.h>", "SQLite is only for controller/store/"},
      {"controller/store/x.cc", "#include <sqlite3.h>", nullptr},
      {"controller/engine/x.cc", "#include <grpcpp/grpcpp.h>", "gRPC is only for"},
      {"controller/engine/x.cc", "#include \"muster/v1/job_service.grpc.pb.h\"", "stub"},
      {"controller/model/x.h", "#include \"muster/v1/common.pb.h\"", "may not include"},
      {"controller/model/types/x.h", "#include \"muster/v1/common.pb.h\"", nullptr},
      {"controller/rules/x.cc", "#include \"controller/engine/applier.h\"", "may not include"},
      {"controller/engine/loops/x.cc", "#include \"controller/engine/applier.h\"",
       "may not include"},
      {"controller/rpc/x.cc", "#include <grpcpp/server.h>", nullptr},
      {"controller/rpc/x.cc", "#include \"controller/server.h\"", "may not include"},
      {"controller/rules/jobs/x.cc", "#include \"controller/rules/workers/worker_name_rules.h\"",
       "may not include"},
      {"controller/policy/placement/x.cc", "#include \"controller/policy/queue/job_queue.h\"",
       "may not include"},
      {"controller/policy/queue/x.cc", "#include \"controller/policy/scheduler.h\"",
       "may not include"},
      {"worker/agent/x.cc", "#include <ATen/core/Tensor.h>", "torch is only for"},
      {"worker/agent/x.cc", "  #  include   \"worker/trainer/main.h\"", "may not include"},
      {"worker/agent/gang/x.cc", "#include \"worker/link/launch.h\"", nullptr},
      {"worker/agent/connection/x.cc", "#include \"worker/link/launch.h\"", "may not include"},
      {"worker/agent/process/x.cc", "#include \"worker/agent/gang/rank.h\"", "may not include"},
      {"worker/train/step/x.cc", "#include \"worker/train/loop.h\"", "may not include"},
      {"worker/train/x.cc", "#include <torch/csrc/distributed/c10d/Store.hpp>", "c10d"},
      {"worker/dist/x.cc", "#include <torch/csrc/distributed/c10d/Store.hpp>", nullptr},
      {"worker/train/x.cc", "#include <torch/torch.h>", "umbrella"},
      {"worker/train/x.cc", "#include \"muster/v1/job_spec.pb.h\"", "may not include"},
      {"worker/trainer/x.cc", "#include \"trainer_spec/job_spec.h\"", nullptr},
      {"worker/models/layers/x.cc", "#include \"worker/dist/collectives.h\"", nullptr},
      {"worker/models/x.cc", "#include \"worker/dist/gloo.h\"", "may not include"},
      {"worker/models/x.cc", "#include \"worker/optim/adamw.h\"", "may not include"},
      {"cli/commands/show/ls.cc", "#include \"controller/model/job_state.h\"", "may not include"},
      {"cli/commands/show/ls.cc", "#include \"cli/output/table.h\"", nullptr},
      {"cli/commands/show/ls.cc", "#include \"cli/calls/change.h\"", "may not include"},
      {"cli/commands/show/ls.cc", "#include <grpcpp/channel.h>", "gRPC is only for"},
      {"cli/session/x.cc", "#include \"cli/calls/change.h\"", "may not include"},
      {"common/base/x.cc", "#include \"common/fs/file_system.h\"", "may not include"},
      {"common/spec/x.cc", "#include \"common/rpc/channel.h\"", "may not include"},
      {"common/spec/x.cc", "#include \"spec_types.h\"", "repository's root"},
      {"common/spec/x.cc", "#include \"common/spec/../rpc/channel.h\"", "climbs out"},
      {"common/spec/x.cc", "// #include \"common/rpc/channel.h\"", nullptr},
      {"common/newroom/x.cc", "", "not in the table"},
      {"tests/common/x.cc", "#include \"controller/engine/applier.h\"", nullptr},
  };
  for (const Planted& planted : cases) {
    SCOPED_TRACE(absl::StrCat(planted.path, ": ", planted.line));
    const std::vector<std::string> complaints =
        CheckIncludes(planted.path, absl::StrCat("// A file.\n", planted.line, "\n"));
    if (planted.complaint == nullptr) {
      EXPECT_THAT(complaints, IsEmpty());
    } else {
      EXPECT_THAT(complaints, ElementsAre(HasSubstr(planted.complaint)));
    }
  }
}

TEST(ArrowRules, NameTheLine) {
  EXPECT_THAT(CheckIncludes("cli/main.cc", "\n\n#include \"worker/link/launch.h\"\n"),
              ElementsAre(HasSubstr("cli/main.cc:3: ")));
}

TEST(ArrowRules, CatchAnExecutableWithBoth) {
  EXPECT_THAT(CheckLibraries("x", {"/v/lib/libtorch_cpu.so", "libgrpc++.so.1.51"}),
              ElementsAre(HasSubstr("both")));
  EXPECT_THAT(CheckLibraries("x", {"libc10.so", "/usr/lib/libprotobuf.so.32"}),
              ElementsAre(HasSubstr("both")));
  EXPECT_THAT(CheckLibraries("x", {"libtorch.so", "libc10.so", "libc.so.6"}), IsEmpty());
  EXPECT_THAT(CheckLibraries("x", {"libgrpc++.so.1.51", "libprotobuf.so.32"}), IsEmpty());
}

}  // namespace
}  // namespace muster::testing
