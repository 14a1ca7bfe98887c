#include "tests/arrows/arrow_rules.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace muster::testing {
namespace {

// A module is a folder with its own rules; the longest matching prefix wins. `may` lists what it
// includes besides itself and common/base: a folder ends in '/', anything else is one header.
struct Module {
  absl::string_view prefix;
  std::vector<absl::string_view> may;
};

// Messages are data that many modules hold; the services' stubs (.grpc.pb.h) belong to those that
// talk.
constexpr absl::string_view kProto = "muster/v1/";

const std::vector<Module>& Modules() {
  static const std::vector<Module>* modules = new std::vector<Module>{
      {"common/base/", {}},
      {"common/os/", {}},
      {"common/protocol/", {}},
      {"common/daemon/", {"common/tls/"}},
      {"common/tls/", {"common/fs/", "common/os/loop_thread.h"}},
      {"common/fs/", {}},
      {"common/object_store/", {"common/fs/", "common/os/sha256.h"}},
      {"common/object_store/cache/", {"common/fs/", "common/object_store/", "common/os/"}},
      {"common/spec/tree/", {kProto}},
      {"common/spec/read/", {kProto, "common/spec/tree/"}},
      {"common/spec/validate/",
       {kProto, "common/os/path_text.h", "common/protocol/name_rule.h", "common/spec/tree/"}},
      {"common/spec/", {kProto, "common/spec/"}},
      {"common/rpc/", {kProto, "common/os/secrets.h", "common/tls/"}},
      {"common/metrics/", {"common/fs/", "common/os/", "common/tls/tls_files.h"}},
      {"common/ckpt/", {"common/fs/", "common/os/sha256.h"}},
      {"common/upload/", {kProto, "common/os/sha256.h"}},
      {"controller/model/tables/", {"controller/model/types/"}},
      {"controller/model/types/", {kProto}},
      {"controller/model/", {"controller/model/"}},
      {"controller/policy/health/", {"common/protocol/", "controller/model/"}},
      {"controller/policy/checkpoints/", {"controller/model/", "controller/policy/health/"}},
      {"controller/policy/archive/", {"controller/model/"}},
      {"controller/policy/limits/",
       {"controller/model/", "controller/policy/checkpoints/", "controller/policy/health/"}},
      {"controller/policy/placement/",
       {"controller/model/", "controller/policy/checkpoints/", "controller/policy/health/",
        "controller/policy/limits/"}},
      {"controller/policy/queue/",
       {"controller/model/", "controller/policy/health/", "controller/policy/limits/",
        "controller/policy/placement/"}},
      {"controller/policy/stages/",
       {"controller/model/", "controller/policy/checkpoints/", "controller/policy/health/",
        "controller/policy/limits/", "controller/policy/placement/", "controller/policy/queue/"}},
      {"controller/policy/",
       {"controller/model/", "controller/policy/health/", "controller/policy/limits/",
        "controller/policy/placement/", "controller/policy/queue/", "controller/policy/stages/"}},
      {"controller/policy/explain/",
       {"controller/model/", "controller/policy/health/", "controller/policy/limits/",
        "controller/policy/placement/", "controller/policy/queue/",
        "controller/policy/scheduler.h"}},
      {"controller/policy/autoscale/",
       {"controller/model/", "controller/policy/explain/what_if.h", "controller/policy/health/",
        "controller/policy/queue/", "controller/policy/scheduler.h"}},
      {"controller/autoscale/",
       {"controller/engine/engine.h", "common/os/loop_thread.h", "controller/model/",
        "controller/policy/autoscale/", "common/fs/", "common/metrics/", "common/object_store/",
        "common/protocol/name_rule.h", "common/spec/"}},
      {"controller/rules/",
       {"controller/model/", "controller/policy/health/", "controller/policy/limits/"}},
      {"controller/rules/projects/",
       {"controller/model/", "controller/policy/limits/", "controller/rules/rules.h"}},
      {"controller/rules/jobs/",
       {"common/protocol/", "controller/model/", "controller/policy/archive/",
        "controller/policy/checkpoints/", "controller/policy/health/", "controller/policy/limits/",
        "controller/policy/placement/", "controller/policy/queue/", "controller/rules/rules.h",
        "controller/rules/projects/"}},
      {"controller/rules/workers/",
       {"controller/model/", "controller/policy/health/", "controller/rules/rules.h",
        "controller/rules/jobs/"}},
      {"controller/rules/checkpoints/",
       {"controller/model/", "controller/policy/checkpoints/", "controller/policy/health/",
        "controller/rules/rules.h", "controller/rules/jobs/", "controller/rules/workers/"}},
      {"controller/store/", {"controller/model/", "controller/store/backup/sqlite_copy.h"}},
      {"controller/store/backup/",
       {"controller/model/", "controller/store/", "controller/store/history/",
        "controller/store/metrics/"}},
      {"controller/backup/",
       {"common/daemon/", "common/fs/", "common/os/sha256.h",
        "controller/store/backup/restored_state.h"}},
      {"controller/store/history/", {"controller/model/", "controller/store/"}},
      {"controller/store/metrics/", {"common/protocol/", "controller/model/", "controller/store/"}},
      {"controller/metrics/", {"controller/model/", "controller/store/", "common/metrics/"}},
      {"controller/engine/",
       {"common/os/loop_thread.h", "controller/engine/loops/", "controller/rules/rules.h",
        "controller/rules/workers/restore_rules.h", "controller/policy/", "controller/store/",
        "controller/model/"}},
      {"controller/engine/loops/",
       {"controller/engine/engine.h", "controller/policy/", "controller/store/history/",
        "controller/model/"}},
      {"controller/uploads/", {"common/fs/", "common/os/sha256.h", "common/upload/"}},
      {"controller/access/",
       {"common/os/secrets.h", "common/os/sha256.h", "common/protocol/name_rule.h",
        "controller/store/sqlite.h"}},
      {"controller/enroll/",
       {"common/fs/", "common/os/secrets.h", "common/protocol/", "common/tls/",
        "common/os/sha256.h", "controller/store/sqlite.h"}},
      {"controller/api/convert/",
       {kProto, "controller/access/access_types.h", "controller/model/", "common/protocol/",
        "common/spec/"}},
      {"controller/api/calls/",
       {kProto, "controller/access/", "controller/engine/engine.h", "controller/model/",
        "common/spec/", "common/rpc/", "common/metrics/", "common/os/sha256.h"}},
      {"controller/api/streams/",
       {kProto, "controller/access/access_types.h", "controller/api/calls/",
        "controller/api/convert/", "controller/engine/engine.h", "controller/engine/worker_link.h",
        "controller/metrics/", "controller/model/", "common/os/secrets.h", "common/rpc/"}},
      {"controller/api/",
       {kProto, "controller/access/", "controller/api/", "controller/engine/engine.h",
        "controller/enroll/enroller.h", "controller/rules/projects/project_accounts.h",
        "controller/metrics/", "controller/backup/backup_maker.h", "controller/uploads/",
        "common/protocol/name_rule.h", "common/spec/", "common/rpc/", "common/os/sha256.h"}},
      {"controller/web/",
       {kProto, "controller/engine/engine.h", "controller/metrics/", "controller/model/",
        "common/os/loopback.h", "common/spec/", "common/rpc/", "common/metrics/"}},
      {"controller/web/gateway/",
       {kProto, "common/metrics/http_server.h", "common/os/loopback.h", "common/rpc/"}},
      {"controller/rpc/", {"common/os/", "common/rpc/", "common/tls/"}},
      {"controller/setup/",
       {"common/fs/", "common/os/host_name.h", "common/protocol/name_rule.h",
        "common/protocol/worker_server_name.h", "common/tls/", "controller/controller_token.h"}},
      {"controller/", {kProto, "controller/", "common/"}},
      {"worker/link/", {}},
      {"worker/init/", {}},
      {"worker/agent/base/", {kProto, "common/fs/"}},
      {"worker/agent/identity/", {"common/fs/", "common/os/"}},
      {"worker/agent/device/", {kProto, "common/os/loopback.h"}},
      {"worker/agent/process/", {"worker/link/"}},
      {"worker/agent/telemetry/", {kProto, "worker/link/", "common/fs/", "worker/agent/base/"}},
      {"worker/agent/connection/",
       {kProto, "common/rpc/", "common/metrics/", "common/protocol/", "common/tls/",
        "worker/agent/base/", "worker/agent/identity/", "worker/agent/telemetry/"}},
      {"worker/agent/join/",
       {"common/fs/", "common/os/host_port.h", "common/os/loop_thread.h", "common/protocol/",
        "common/rpc/token_file.h", "common/tls/", "worker/agent/agent_config.h",
        "worker/agent/connection/enroll_client.h"}},
      {"worker/agent/folders/",
       {kProto, "common/fs/", "common/os/sha256.h", "common/rpc/", "common/upload/",
        "worker/agent/base/", "worker/agent/telemetry/"}},
      {"worker/agent/container/",
       {"common/fs/", "common/spec/", "worker/agent/base/", "worker/agent/process/",
        "worker/agent/telemetry/"}},
      {"worker/agent/command/",
       {kProto, "worker/link/", "common/fs/", "common/ckpt/", "common/os/secrets.h", "common/spec/",
        "worker/agent/base/", "worker/agent/process/"}},
      {"worker/agent/data/",
       {kProto, "common/fs/", "worker/agent/base/", "worker/agent/container/",
        "worker/agent/process/"}},
      {"worker/agent/checkpoint/",
       {kProto, "common/fs/", "common/ckpt/", "worker/agent/base/",
        "worker/agent/command/command_rules.h"}},
      {"worker/agent/gang/",
       {kProto, "worker/link/", "common/fs/", "common/metrics/", "common/protocol/",
        "worker/agent/base/", "worker/agent/checkpoint/", "worker/agent/command/",
        "worker/agent/container/", "worker/agent/device/", "worker/agent/folders/",
        "worker/agent/process/", "worker/agent/telemetry/"}},
      {"worker/agent/exec/",
       {kProto, "common/rpc/", "worker/agent/base/", "worker/agent/command/command_rules.h",
        "worker/agent/gang/rank_exec_context.h", "worker/agent/gang/supervisor.h",
        "worker/agent/process/"}},
      {"worker/agent/preemption/",
       {"common/metrics/", "common/object_store/http_client.h",
        "common/object_store/http_headers.h", "worker/agent/base/"}},
      {"worker/agent/",
       {kProto, "worker/agent/", "common/protocol/", "common/rpc/", "common/metrics/", "common/fs/",
        "common/daemon/", "common/os/", "common/tls/"}},
      {"worker/kernels/", {}},
      {"worker/models/base/", {}},
      {"worker/models/layers/", {"worker/dist/collectives.h", "worker/kernels/"}},
      {"worker/models/foreign/", {"worker/models/base/"}},
      {"worker/models/", {"worker/models/base/", "worker/models/layers/"}},
      {"worker/optim/",
       {"common/fs/", "common/ckpt/", "worker/dist/collectives.h", "worker/kernels/"}},
      {"worker/data/base/", {"common/fs/", "common/ckpt/"}},
      {"worker/data/index/",
       {"common/fs/", "common/ckpt/", "common/object_store/", "common/os/",
        "worker/data/base/sample_source.h", "worker/data/formats/", "worker/data/parquet/"}},
      {"worker/data/formats/",
       {"common/fs/", "common/os/path_text.h", "worker/data/formats/parse/"}},
      {"worker/data/formats/parse/",
       {"common/fs/", "worker/data/formats/sample_names.h", "worker/data/formats/sample_sink.h"}},
      {"worker/data/order/", {"worker/data/base/epoch_place.h"}},
      {"worker/data/augment/", {"worker/data/base/"}},
      {"worker/data/images/",
       {"common/fs/", "common/object_store/", "common/ckpt/", "worker/data/base/",
        "worker/data/augment/", "worker/data/csv/", "worker/data/formats/", "worker/data/index/",
        "worker/data/pictures/"}},
      {"worker/data/csv/", {"common/fs/", "common/ckpt/"}},
      {"worker/data/parquet/", {"common/fs/"}},
      {"worker/data/text/", {"common/fs/", "common/ckpt/", "worker/data/base/"}},
      {"worker/data/pictures/", {"worker/kernels/instruction_sets.h"}},
      {"worker/data/", {"worker/data/"}},
      {"worker/checkpoint/", {"common/fs/", "common/ckpt/", "worker/dist/collectives.h"}},
      {"worker/dist/base/", {"common/os/"}},
      {"worker/dist/shared_memory/", {"worker/dist/base/", "worker/kernels/"}},
      {"worker/dist/strategy/",
       {"worker/dist/gang.h", "worker/dist/process_group.h", "worker/kernels/"}},
      {"worker/dist/",
       {"worker/dist/base/", "worker/dist/shared_memory/", "worker/dist/strategy/",
        "worker/kernels/"}},
      {"worker/train/run/", {"worker/optim/", "worker/data/base/stage_seconds.h"}},
      {"worker/train/objective/", {"worker/models/", "worker/data/"}},
      {"worker/train/step/",
       {"worker/models/", "worker/optim/", "worker/data/", "worker/dist/", "worker/train/run/",
        "worker/train/objective/", "worker/kernels/"}},
      {"worker/train/recipe/",
       {"common/fs/", "common/ckpt/", "worker/models/", "worker/optim/", "worker/checkpoint/",
        "worker/dist/", "worker/train/run/", "worker/train/objective/", "worker/train/step/"}},
      {"worker/train/memory/",
       {"worker/models/", "worker/optim/", "worker/data/", "worker/dist/", "worker/train/run/",
        "worker/train/objective/", "worker/train/step/", "worker/train/recipe/"}},
      {"worker/train/artifacts/",
       {"common/fs/", "worker/models/", "worker/data/", "worker/train/run/",
        "worker/train/objective/", "worker/train/step/"}},
      {"worker/train/",
       {"common/fs/", "common/ckpt/", "worker/models/", "worker/optim/", "worker/data/",
        "worker/checkpoint/", "worker/dist/", "worker/train/"}},
      // The composition root of a rank builds every leaf and implements their interfaces over the
      // link.
      {"worker/trainer/data/", {"trainer_spec/", "worker/data/", "worker/train/run/"}},
      {"worker/trainer/launcher/", {"worker/link/"}},
      {"worker/trainer/rank/",
       {"common/object_store/cache/any_file_system.h", "worker/trainer/data/", "worker/train/",
        "worker/link/", "trainer_spec/", "common/fs/", "common/ckpt/", "worker/models/",
        "worker/optim/", "worker/data/", "worker/checkpoint/", "worker/dist/"}},
      {"worker/trainer/tools/",
       {"worker/trainer/rank/", "worker/train/", "trainer_spec/", "common/fs/", "common/ckpt/",
        "worker/models/", "worker/optim/", "worker/data/", "worker/checkpoint/", "worker/dist/",
        "worker/trainer/data/"}},
      {"worker/trainer/",
       {"worker/trainer/", "worker/train/run/", "worker/link/", "trainer_spec/", "common/fs/"}},
      {"worker/data_tool/base/",
       {"common/fs/", "common/object_store/cache/any_file_system.h", "worker/data/"}},
      {"worker/data_tool/show/",
       {"common/fs/", "trainer_spec/", "worker/data/", "worker/data_tool/base/",
        "worker/trainer/data/"}},
      {"worker/data_tool/check/",
       {"common/ckpt/block_hasher.h", "common/fs/", "common/object_store/cache/any_file_system.h",
        "trainer_spec/", "worker/data/", "worker/data_tool/base/", "worker/trainer/data/"}},
      {"worker/data_tool/pack/",
       {"common/fs/", "common/object_store/remote_path.h",
        "common/object_store/cache/any_file_system.h", "common/os/tar_header.h", "worker/data/",
        "worker/data_tool/base/"}},
      {"worker/data_tool/", {"common/fs/", "worker/data/", "worker/data_tool/"}},
      {"worker/data_tool/commands/",
       {"common/fs/", "common/object_store/remote_path.h",
        "common/object_store/cache/any_file_system.h", "trainer_spec/", "worker/data/",
        "worker/data_tool/base/", "worker/data_tool/check/", "worker/data_tool/pack/",
        "worker/data_tool/show/", "worker/trainer/data/"}},
      {"cli/output/", {kProto, "common/os/tar_header.h"}},
      {"cli/output/views/", {kProto, "cli/output/"}},
      {"cli/session/",
       {kProto, "cli/output/document.h", "cli/output/table.h", "cli/output/text.h", "common/fs/",
        "common/os/loopback.h", "common/os/unique_name.h", "common/protocol/name_rule.h",
        "common/rpc/", "common/spec/tree/spec_fault.h", "common/tls/tls_files.h"}},
      {"cli/local/", {"cli/output/proto_json.h", "cli/session/", "common/fs/"}},
      {"cli/calls/", {kProto, "cli/output/views/", "cli/session/", "common/os/secrets.h"}},
      {"cli/submission/",
       {kProto, "cli/calls/", "cli/output/views/", "cli/session/", "common/protocol/name_rule.h",
        "common/spec/tree/", "common/upload/"}},
      {"cli/commands/access/",
       {kProto, "cli/calls/", "cli/commands/commands.h", "cli/grammar/", "cli/output/",
        "cli/session/", "common/rpc/token_file.h", "common/tls/tls_files.h"}},
      // What the verbs share; their modules include it, and of each other what is named here.
      {"cli/commands/", {"cli/output/list_view.h", "cli/output/views/", "cli/session/"}},
      {"cli/commands/show/",
       {"cli/commands/commands.h", "cli/commands/list_flags.h", "cli/grammar/", "cli/output/",
        "cli/session/", "common/fs/", "common/spec/"}},
      {"cli/commands/watch/",
       {kProto, "cli/calls/", "cli/commands/commands.h", "cli/commands/foreground.h",
        "cli/commands/list_flags.h", "cli/grammar/", "cli/output/", "cli/session/"}},
      {"cli/commands/change/",
       {"cli/calls/", "cli/commands/commands.h", "cli/commands/job_verb.h", "cli/session/",
        "cli/submission/", "common/spec/tree/"}},
      {"cli/commands/cluster/",
       {"cli/calls/", "cli/commands/commands.h", "cli/commands/list_flags.h", "cli/grammar/",
        "cli/local/", "cli/output/", "cli/session/", "common/rpc/token_file.h"}},
      {"cli/commands/trainer/",
       {"cli/commands/commands.h", "cli/local/daemon_process.h", "cli/output/", "cli/session/",
        "cli/submission/", "common/spec/"}},
      {"cli/commands/checkpoints/",
       {"cli/calls/", "cli/commands/commands.h", "cli/commands/list_flags.h",
        "cli/commands/foreground.h", "cli/commands/trainer/ask_trainer.h", "cli/grammar/",
        "cli/output/", "cli/session/"}},
      {"cli/commands/submit/",
       {kProto, "cli/calls/", "cli/commands/commands.h", "cli/commands/foreground.h",
        "cli/commands/trainer/sibling_program.h", "cli/output/", "cli/session/", "cli/submission/",
        "common/spec/"}},
      {"cli/",
       {"cli/commands/access/access_verbs.h", "cli/commands/cluster/completion.h",
        "cli/commands/cluster/join_token_verb.h", "cli/commands/commands.h",
        "cli/commands/foreground.h", "cli/commands/trainer/model.h", "cli/grammar/", "cli/session/",
        "common/fs/"}},
      // The words and flags themselves, whatever the verbs do.
      {"cli/grammar/", {kProto, "cli/session/", "common/spec/tree/"}},
  };
  return *modules;
}

// Libraries that only some modules may see, by the beginning of the header's name.
struct Library {
  std::vector<absl::string_view> headers;
  std::vector<absl::string_view> modules;
  absl::string_view name;
};

const std::vector<Library>& Libraries() {
  static const std::vector<Library>* libraries = new std::vector<Library>{
      {{"sqlite3.h"}, {"controller/store/"}, "SQLite"},
      {{"torch/csrc/distributed/", "nccl.h"},
       {"worker/dist/", "worker/dist/base/", "worker/dist/shared_memory/", "worker/dist/strategy/"},
       "c10d and NCCL"},
      {{"torch/torch.h", "torch/script.h"},
       {},
       "torch's umbrella header (half a minute to compile)"},
      {{"torch/", "ATen/", "c10/"},
       {"worker/trainer/",
        "worker/trainer/rank/",
        "worker/trainer/tools/",
        "worker/train/",
        "worker/train/objective/",
        "worker/train/step/",
        "worker/kernels/",
        "worker/train/recipe/",
        "worker/train/memory/",
        "worker/train/artifacts/",
        "worker/models/",
        "worker/models/base/",
        "worker/models/layers/",
        "worker/models/foreign/",
        "worker/optim/",
        "worker/data/",
        "worker/data/base/",
        "worker/data/images/",
        "worker/data/text/",
        "worker/checkpoint/",
        "worker/dist/",
        "worker/dist/base/",
        "worker/dist/shared_memory/",
        "worker/dist/strategy/"},
       "torch"},
      {{"grpc/", "grpcpp/", "grpc++/"},
       {"common/rpc/", "controller/api/", "controller/api/calls/", "controller/api/streams/",
        "controller/rpc/", "controller/web/gateway/", "worker/agent/connection/",
        "worker/agent/exec/", "worker/agent/folders/", "cli/", "cli/session/"},
       "gRPC"},
  };
  return *libraries;
}

const Module* ModuleOf(absl::string_view path) {
  const Module* best = nullptr;
  for (const Module& module : Modules()) {
    if (absl::StartsWith(path, module.prefix) &&
        (best == nullptr || module.prefix.size() > best->prefix.size())) {
      best = &module;
    }
  }
  return best;
}

bool IsProgramFolder(absl::string_view path) {
  return absl::StartsWith(path, "common/") || absl::StartsWith(path, "controller/") ||
         absl::StartsWith(path, "worker/") || absl::StartsWith(path, "cli/");
}

// Ours, or made from ours.
bool IsOurs(absl::string_view header) {
  return IsProgramFolder(header) || absl::StartsWith(header, kProto) ||
         absl::StartsWith(header, "trainer_spec/") || absl::StartsWith(header, "tests/") ||
         absl::StartsWith(header, "benchmarks/");
}

bool Covers(absl::string_view entry, absl::string_view header) {
  return absl::EndsWith(entry, "/") ? absl::StartsWith(header, entry) : header == entry;
}

// The header of an #include line, else nothing. `quoted` tells "x" from <x>.
absl::string_view IncludedHeader(absl::string_view line, bool& quoted) {
  line = absl::StripLeadingAsciiWhitespace(line);
  if (!absl::ConsumePrefix(&line, "#")) return {};
  line = absl::StripLeadingAsciiWhitespace(line);
  if (!absl::ConsumePrefix(&line, "include")) return {};
  line = absl::StripLeadingAsciiWhitespace(line);
  if (line.empty() || (line[0] != '"' && line[0] != '<')) return {};
  quoted = line[0] == '"';
  line.remove_prefix(1);
  return line.substr(0, line.find(quoted ? '"' : '>'));
}

// What is wrong with `header` in a file of `module`; empty: nothing.
std::string Complaint(const Module& module, absl::string_view header, bool quoted) {
  if (quoted && header.find('/') == absl::string_view::npos) {
    return absl::StrCat("\"", header, "\" is not spelled from the repository's root");
  }
  if (absl::StrContains(header, "../")) return absl::StrCat("\"", header, "\" climbs out");
  // A library's entry of its own: the first that matches the header decides.
  for (const Library& library : Libraries()) {
    const bool matches =
        std::any_of(library.headers.begin(), library.headers.end(),
                    [&](absl::string_view prefix) { return absl::StartsWith(header, prefix); });
    if (!matches) continue;
    if (std::find(library.modules.begin(), library.modules.end(), module.prefix) !=
        library.modules.end()) {
      return "";
    }
    return absl::StrCat("<", header, ">: ", library.name, " is only for ",
                        library.modules.empty() ? "nobody" : absl::StrJoin(library.modules, ", "));
  }
  if (absl::EndsWith(header, ".grpc.pb.h")) {
    static constexpr absl::string_view kTalkers[] = {"common/rpc/",
                                                     "controller/api/",
                                                     "controller/web/gateway/",
                                                     "worker/agent/connection/",
                                                     "worker/agent/exec/",
                                                     "worker/agent/folders/",
                                                     "cli/session/"};
    if (std::find(std::begin(kTalkers), std::end(kTalkers), module.prefix) == std::end(kTalkers)) {
      return absl::StrCat("\"", header, "\": a service's stub is only for those that talk gRPC");
    }
    return "";
  }
  if (!IsOurs(header) || ModuleOf(header) == &module || absl::StartsWith(header, "common/base/")) {
    return "";
  }
  for (absl::string_view entry : module.may) {
    if (Covers(entry, header)) return "";
  }
  return absl::StrCat(module.prefix, " may not include \"", header, "\"");
}

// The library's name without its folder.
absl::string_view BaseName(absl::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == absl::string_view::npos ? path : path.substr(slash + 1);
}

}  // namespace

std::vector<std::string> CheckIncludes(absl::string_view path, absl::string_view text) {
  std::vector<std::string> complaints;
  if (!IsProgramFolder(path)) return complaints;
  const Module* module = ModuleOf(path);
  if (module == nullptr) {
    complaints.push_back(absl::StrCat(path, ": this folder is not in the table of arrows"));
    return complaints;
  }
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    bool quoted = false;
    const absl::string_view header = IncludedHeader(line, quoted);
    if (header.empty()) continue;
    const std::string complaint = Complaint(*module, header, quoted);
    if (!complaint.empty()) {
      complaints.push_back(absl::StrCat(path, ":", number, ": ", complaint));
    }
  }
  return complaints;
}

std::vector<std::string> CheckLibraries(absl::string_view executable,
                                        const std::vector<std::string>& libraries) {
  absl::string_view torch, rpc;
  for (const std::string& library : libraries) {
    const absl::string_view name = BaseName(library);
    if (absl::StartsWith(name, "libtorch") || absl::StartsWith(name, "libc10")) torch = name;
    if (absl::StartsWith(name, "libgrpc") || absl::StartsWith(name, "libprotobuf")) rpc = name;
  }
  if (torch.empty() || rpc.empty()) return {};
  return {absl::StrCat(executable, " loads both ", torch, " and ", rpc)};
}

}  // namespace muster::testing
