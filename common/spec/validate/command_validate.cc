#include "common/spec/validate/command_validate.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/spec/validate/image_reference.h"
#include "common/spec/validate/spec_checks.h"

namespace muster {
namespace {

constexpr int kMostArguments = 1024;
constexpr size_t kMostArgumentBytes = 32 << 10;
constexpr size_t kMostVariables = 256;
constexpr size_t kMostVariableBytes = 16 << 10;

// What a command's rank is told by these, a job must not contradict.
constexpr absl::string_view kReservedVariables[] = {"CUDA_VISIBLE_DEVICES",
                                                    "GROUP_RANK",
                                                    "GROUP_WORLD_SIZE",
                                                    "LOCAL_RANK",
                                                    "LOCAL_WORLD_SIZE",
                                                    "MASTER_ADDR",
                                                    "MASTER_PORT",
                                                    "RANK",
                                                    "ROLE_NAME",
                                                    "ROLE_RANK",
                                                    "ROLE_WORLD_SIZE",
                                                    "TORCHELASTIC_MAX_RESTARTS",
                                                    "TORCHELASTIC_RESTART_COUNT",
                                                    "TORCHELASTIC_RUN_ID",
                                                    "WORLD_SIZE"};

bool IsVariableName(absl::string_view text) {
  if (text.empty() || text.size() > SpecChecks::kMostValueBytes) return false;
  if (absl::ascii_isdigit(static_cast<unsigned char>(text.front()))) return false;
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return absl::ascii_isalnum(c) || c == '_'; });
}

bool IsReservedVariable(absl::string_view name) {
  return absl::StartsWith(name, "MUSTER_") ||
         std::find(std::begin(kReservedVariables), std::end(kReservedVariables), name) !=
             std::end(kReservedVariables);
}

class CommandValidator : public SpecChecks {
 public:
  using SpecChecks::SpecChecks;

  void Check(const v1::Command& command) {
    const std::string argv = "command.argv";
    if (command.argv().empty()) Fault(argv, "is required: the program and its arguments");
    if (command.argv_size() > kMostArguments) {
      Fault(argv, absl::StrCat("must have at most ", kMostArguments, " entries; got ",
                               command.argv_size()));
    }
    for (int i = 0; i < command.argv_size(); ++i) {
      CTextOf(absl::StrCat(argv, "[", i, "]"), command.argv(i), kMostArgumentBytes);
    }
    if (!command.argv().empty() && command.argv(0).empty()) {
      Fault(argv + "[0]", "must name a program");
    }
    CheckEnvironment(command.env());
    if (command.has_image()) CheckImage(command.image());
    if (command.has_upload()) {
      CheckUpload(command);
    } else if (command.has_image()) {
      if (command.has_workdir()) Path("command.workdir", command.workdir());
    } else if (!command.has_workdir()) {
      Fault("command.workdir", "is required: the folder to run in, as workers see it");
    } else {
      Path("command.workdir", command.workdir());
    }
  }

 private:
  // What execve takes: anything but a zero byte.
  void CTextOf(absl::string_view path, const std::string& value, size_t most) {
    if (value.find('\0') != std::string::npos) Fault(path, "must not hold a zero byte");
    if (value.size() > most) {
      Fault(path, absl::StrCat("must have at most ", most, " bytes; got ", value.size()));
    }
  }

  void CheckEnvironment(const Strings& env) {
    if (env.size() > kMostVariables) {
      Fault("command.env",
            absl::StrCat("must have at most ", kMostVariables, " entries; got ", env.size()));
    }
    for (const auto& [name, value] : env) {
      const std::string at = absl::StrCat("command.env.", ShownValue(name));
      if (!IsVariableName(name)) {
        Fault(at, absl::StrCat("the name must be 1 to ", kMostValueBytes,
                               " letters, digits and '_', and not start with a digit"));
      } else if (IsReservedVariable(name)) {
        Fault(at, "is set by Muster itself");
      }
      CTextOf(at, value, kMostVariableBytes);
    }
  }

  void CheckImage(const std::string& image) {
    if (IsImageFile(image)) {
      Path("command.image", image);
      if (!absl::EndsWith(image, ".sif")) Fault("command.image", "a file must end in .sif");
    } else if (!IsImageReference(image)) {
      Fault("command.image",
            absl::StrCat("must be such as docker.io/library/python:3.12, at most ", kMostImageBytes,
                         " bytes, or the absolute path of a .sif file; got '", ShownValue(image),
                         "'"));
    }
  }

  void CheckUpload(const v1::Command& command) {
    const std::string& hash = command.upload();
    const bool hex =
        hash.size() == 64 && hash.find_first_not_of("0123456789abcdef") == std::string::npos;
    if (!hex) {
      Fault("command.upload", absl::StrCat("must be a SHA-256 in 64 lower-case hex digits; got '",
                                           ShownValue(hash), "'"));
    }
    const std::string& workdir = command.workdir();
    bool inside = !workdir.empty() && workdir.front() != '/' && !HasControlBytes(workdir);
    for (const absl::string_view part : absl::StrSplit(workdir, '/')) {
      inside = inside && part != "..";
    }
    if (!inside || workdir.size() > kMostPathBytes) {
      Fault("command.workdir",
            absl::StrCat("must be a relative path in the uploaded folder, without '..'; got '",
                         ShownValue(workdir), "'"));
    }
  }
};

}  // namespace

void ValidateCommand(const v1::Command& command, std::vector<SpecFault>& faults) {
  CommandValidator(faults).Check(command);
}

}  // namespace muster
