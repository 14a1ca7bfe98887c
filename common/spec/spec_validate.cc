#include "common/spec/spec_validate.h"

#include <google/protobuf/map.h>
#include <google/protobuf/message.h>
#include <google/protobuf/unknown_field_set.h>

#include <algorithm>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/spec/scheduling_text.h"
#include "common/spec/spec_text.h"

namespace muster {
namespace {

constexpr uint64_t kMostSteps = 1'000'000'000'000;
constexpr uint64_t kMostEpochs = 1'000'000;
constexpr uint32_t kMostRanks = 4096;
constexpr size_t kMostPairs = 32;
constexpr size_t kMostNameBytes = 63;
constexpr size_t kMostValueBytes = 128;
constexpr size_t kMostPathBytes = 4096;
constexpr uint64_t kMostSampleValues = 1ull << 26;
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

using Strings = google::protobuf::Map<std::string, std::string>;

bool IsAlnum(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)); }

// [a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?
bool IsName(absl::string_view text) {
  if (text.empty() || text.size() > kMostNameBytes || text.front() == '-' || text.back() == '-') {
    return false;
  }
  for (const char c : text) {
    if (c != '-' && (!IsAlnum(c) || absl::ascii_isupper(static_cast<unsigned char>(c))))
      return false;
  }
  return true;
}

bool IsLabelKey(absl::string_view text) {
  if (text.empty() || text.size() > kMostNameBytes || !IsAlnum(text.front())) return false;
  for (const char c : text) {
    if (!IsAlnum(c) && c != '-' && c != '_' && c != '.' && c != '/') return false;
  }
  return true;
}

bool IsVariableName(absl::string_view text) {
  if (text.empty() || text.size() > kMostValueBytes) return false;
  if (absl::ascii_isdigit(static_cast<unsigned char>(text.front()))) return false;
  return std::all_of(text.begin(), text.end(), [](char c) { return IsAlnum(c) || c == '_'; });
}

bool IsReservedVariable(absl::string_view name) {
  return absl::StartsWith(name, "MUSTER_") ||
         std::find(std::begin(kReservedVariables), std::end(kReservedVariables), name) !=
             std::end(kReservedVariables);
}

bool HasControlBytes(absl::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
}

class Validator {
 public:
  std::vector<SpecFault> Take() { return std::move(faults_); }

  void Check(const v1::JobSpec& spec) {
    CheckMessage("", spec);
    if (!spec.has_name()) {
      Fault("name", "is required");
    } else {
      Name("name", spec.name());
    }
    Name("project", spec.project());
    Pairs("tags", spec.tags());
    Whole("ranks.min", spec.ranks().min(), 1, kMostRanks);
    Whole("ranks.max", spec.ranks().max(), 1, kMostRanks);
    if (spec.ranks().max() < spec.ranks().min()) {
      Fault("ranks.max", absl::StrCat("must be at least ranks.min, which is ", spec.ranks().min(),
                                      "; got ", spec.ranks().max()));
    }
    Check(spec.per_rank());
    Check(spec.placement());
    Check(spec.scheduling());
    Check(spec.checkpoint());
    Check(spec.restart());
    if (spec.has_command()) {
      if (spec.has_train()) Fault("command", "give only one of train and command");
      Check(spec.command());
      return;
    }
    if (!spec.has_train()) {
      Fault("train", "is required, or command instead of it");
      return;
    }
    Check(spec.train());
    if (spec.train().has_batch_size() && spec.train().batch_size() < spec.ranks().max()) {
      Fault("train.batch_size",
            absl::StrCat("must be at least ranks.max, which is ", spec.ranks().max(),
                         ", so that each rank has a sample; got ", spec.train().batch_size()));
    }
  }

 private:
  // What only a spec that came as a message can hold: fields that we do not know, and enum values
  // that are none.
  void CheckMessage(const std::string& path, const google::protobuf::Message& message) {
    const google::protobuf::Reflection& r = *message.GetReflection();
    const auto& unknown = r.GetUnknownFields(message);
    if (!unknown.empty()) {
      Fault(path, absl::StrCat("has the field number ", unknown.field(0).number(),
                               ", which this version does not know: the sender is newer"));
    }
    std::vector<const google::protobuf::FieldDescriptor*> fields;
    r.ListFields(message, &fields);
    for (const auto* field : fields) {
      if (field->is_repeated()) continue;  // the spec has no lists of messages or enums
      const std::string at = path.empty() ? field->name() : absl::StrCat(path, ".", field->name());
      if (field->message_type() != nullptr) {
        CheckMessage(at, r.GetMessage(message, field));
      } else if (field->enum_type() != nullptr) {
        const int value = r.GetEnumValue(message, field);
        const auto* known = field->enum_type()->FindValueByNumber(value);
        if (known == nullptr || value == 0) {
          Fault(at, absl::StrCat("must be one of ",
                                 absl::StrJoin(EnumValueTexts(*field->enum_type()), ", "),
                                 "; got the number ", value));
        }
      }
    }
  }

  void Fault(absl::string_view path, std::string message) {
    faults_.push_back({std::string(path.data(), path.size()), 0, std::move(message)});
  }

  void Whole(absl::string_view path, uint64_t value, uint64_t least, uint64_t most) {
    if (value >= least && value <= most) return;
    Fault(path, absl::StrCat("must be from ", least, " to ", most, "; got ", value));
  }

  void Range(absl::string_view path, double value, double least, double most) {
    if (value >= least && value <= most) return;
    Fault(path, absl::StrCat("must be from ", least, " to ", most, "; got ", value));
  }

  // least <= value < below
  void Below(absl::string_view path, double value, double least, double below) {
    if (value >= least && value < below) return;
    Fault(path, absl::StrCat("must be from ", least, " to below ", below, "; got ", value));
  }

  // above < value <= most
  void Above(absl::string_view path, double value, double above, double most) {
    if (value > above && value <= most) return;
    Fault(path, absl::StrCat("must be above ", above, " and at most ", most, "; got ", value));
  }

  void Time(absl::string_view path, const google::protobuf::Duration& value, absl::Duration least,
            absl::Duration most) {
    const absl::Duration given = FromProto(value);
    if (given >= least && given <= most) return;
    Fault(path, absl::StrCat("must be from ", DurationText(ToProto(least)), " to ",
                             DurationText(ToProto(most)), "; got ", DurationText(value)));
  }

  void Name(absl::string_view path, const std::string& value) {
    if (IsName(value)) return;
    Fault(path, absl::StrCat("must be 1 to ", kMostNameBytes,
                             " of a-z, 0-9 and '-', with no '-' at either end; got '",
                             ShownValue(value), "'"));
  }

  void Status(absl::string_view path, const absl::Status& status) {
    if (!status.ok()) Fault(path, std::string(status.message()));
  }

  void Count(absl::string_view path, int given, int most) {
    if (given > most)
      Fault(path, absl::StrCat("must have at most ", most, " entries; got ", given));
  }

  void Text(absl::string_view path, const std::string& value) {
    if (value.empty()) Fault(path, "must not be empty");
    if (HasControlBytes(value)) Fault(path, "must not hold control characters");
    if (value.size() > kMostValueBytes) {
      Fault(path,
            absl::StrCat("must have at most ", kMostValueBytes, " bytes; got ", value.size()));
    }
  }

  void Pairs(absl::string_view path, const Strings& pairs) {
    if (pairs.size() > kMostPairs) {
      Fault(path, absl::StrCat("must have at most ", kMostPairs, " entries; got ", pairs.size()));
    }
    for (const auto& [key, value] : pairs) {
      const std::string at = absl::StrCat(path, ".", ShownValue(key));
      if (!IsLabelKey(key)) {
        Fault(at, absl::StrCat("the name must be 1 to ", kMostNameBytes,
                               " letters, digits, '-', '_', "
                               "'.' and '/', and start with a letter or digit"));
      }
      if (HasControlBytes(value)) Fault(at, "must not hold control characters");
      if (value.size() > kMostValueBytes) {
        Fault(at,
              absl::StrCat("must have at most ", kMostValueBytes, " bytes; got ", value.size()));
      }
    }
  }

  void Path(absl::string_view path, const std::string& value) {
    if (value.size() > kMostPathBytes) {
      Fault(path, absl::StrCat("must have at most ", kMostPathBytes, " bytes; got ", value.size()));
    } else if (HasControlBytes(value)) {
      Fault(path, "must not hold control characters");
    } else if (!absl::StartsWith(value, "/")) {
      Fault(path, absl::StrCat("must be an absolute path, as workers see it; got '",
                               ShownValue(value), "'"));
    }
  }

  void Check(const v1::PerRank& per_rank) {
    Whole("per_rank.gpus", per_rank.gpus(), 0, 64);
    if (per_rank.has_gpu_type()) {
      Text("per_rank.gpu_type", per_rank.gpu_type());
      if (per_rank.gpus() == 0) Fault("per_rank.gpu_type", "needs per_rank.gpus of at least 1");
    }
    Whole("per_rank.cpus", per_rank.cpus(), 0, 4096);
    if (per_rank.has_memory()) Status("per_rank.memory", ParseMemory(per_rank.memory()).status());
  }

  void Check(const v1::Placement& placement) {
    if (placement.has_pool()) Name("placement.pool", placement.pool());
    if (placement.has_pool() && !placement.pools().empty()) {
      Fault("placement.pools", "give only one of pool and pools");
    }
    Count("placement.pools", placement.pools_size(), 8);
    for (int i = 0; i < placement.pools_size(); ++i) {
      const std::string at = absl::StrCat("placement.pools[", i, "]");
      const auto pool = ParsePoolChoice(placement.pools(i));
      Status(at, pool.status());
      if (pool.ok()) Name(at, pool->name);
    }
    Pairs("placement.selector", placement.selector());
    Count("placement.exclude", placement.exclude_size(), 64);
    for (int i = 0; i < placement.exclude_size(); ++i) {
      Text(absl::StrCat("placement.exclude[", i, "]"), placement.exclude(i));
    }
  }

  void Check(const v1::Scheduling& scheduling) {
    const absl::Duration year = absl::Hours(24 * 365);
    if (scheduling.priority() < -999 || scheduling.priority() > 999) {
      Fault("scheduling.priority",
            absl::StrCat("must be from -999 to 999; got ", scheduling.priority()));
    }
    if (scheduling.has_max_run_time()) {
      Time("scheduling.max_run_time", scheduling.max_run_time(), absl::Seconds(1), year);
    }
    if (scheduling.has_expected_run_time()) {
      Time("scheduling.expected_run_time", scheduling.expected_run_time(), absl::Seconds(1), year);
    }
    if (scheduling.has_deadline()) {
      Status("scheduling.deadline", ParseWallTime(scheduling.deadline()).status());
    }
    if (scheduling.has_begin()) {
      Status("scheduling.begin", ParseWallTime(scheduling.begin()).status());
    }
    Count("scheduling.after", scheduling.after_size(), 32);
    for (int i = 0; i < scheduling.after_size(); ++i) {
      Status(absl::StrCat("scheduling.after[", i, "]"),
             ParseDependency(scheduling.after(i)).status());
    }
    if (scheduling.has_array()) {
      Status("scheduling.array", ParseArray(scheduling.array()).status());
    }
  }

  void Check(const v1::RestartBudgets& budgets) {
    const google::protobuf::Reflection& r = *budgets.GetReflection();
    std::vector<const google::protobuf::FieldDescriptor*> fields;
    r.ListFields(budgets, &fields);
    for (const auto* field : fields) {
      Whole(absl::StrCat("restart.budgets.", field->name()), r.GetUInt32(budgets, field), 0, 1000);
    }
  }

  void Check(const v1::Checkpoint& checkpoint) {
    if (checkpoint.has_url()) {
      std::string folder = checkpoint.url();
      if (absl::StartsWith(folder, "file://")) folder = folder.substr(7);
      if (absl::StrContains(folder, "://")) {
        Fault("checkpoint.url", absl::StrCat("must be an absolute path or a file:// URL; got '",
                                             ShownValue(checkpoint.url()), "'"));
      } else {
        Path("checkpoint.url", folder);
      }
    }
    Whole("checkpoint.every_steps", checkpoint.every_steps(), 0, kMostSteps);
    Whole("checkpoint.every_epochs", checkpoint.every_epochs(), 0, kMostEpochs);
    Whole("checkpoint.keep_last", checkpoint.keep_last(), 2, 1000);
  }

  void Check(const v1::Restart& restart) {
    const absl::Duration day = absl::Hours(24);
    Whole("restart.max_restarts", restart.max_restarts(), 0, 1000);
    Check(restart.budgets());
    Time("restart.backoff", restart.backoff(), absl::ZeroDuration(), day);
    Time("restart.max_backoff", restart.max_backoff(), absl::ZeroDuration(), day);
    if (FromProto(restart.max_backoff()) < FromProto(restart.backoff())) {
      Fault("restart.max_backoff", absl::StrCat("must be at least restart.backoff, which is ",
                                                DurationText(restart.backoff()), "; got ",
                                                DurationText(restart.max_backoff())));
    }
    Time("restart.controller_lost_timeout", restart.controller_lost_timeout(), absl::Seconds(1),
         30 * day);
    if (FromProto(restart.progress_timeout()) != absl::ZeroDuration()) {
      Time("restart.progress_timeout", restart.progress_timeout(), absl::Seconds(1), 30 * day);
    }
  }

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
    if (command.has_upload()) {
      CheckUpload(command);
    } else if (!command.has_workdir()) {
      Fault("command.workdir", "is required: the folder to run in, as workers see it");
    } else {
      Path("command.workdir", command.workdir());
    }
  }

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

  void Check(const v1::Train& train) {
    switch (train.model().kind_case()) {
      case v1::Model::KIND_NOT_SET:
        Fault("train.model", "is required: one of mlp, resnet18");
        break;
      case v1::Model::kMlp:
        Check(train.model().mlp());
        break;
      case v1::Model::kResnet18:
        Whole("train.model.resnet18.width", train.model().resnet18().width(), 1, 1024);
        break;
    }
    switch (train.data().source_case()) {
      case v1::Data::SOURCE_NOT_SET:
        Fault("train.data", "is required: one of synthetic, digits");
        break;
      case v1::Data::kSynthetic:
        Check(train.data().synthetic(), train.model().has_resnet18());
        break;
      case v1::Data::kDigits:
        Check(train.data().digits());
        break;
    }
    if (!train.has_batch_size()) {
      Fault("train.batch_size", "is required");
    } else {
      Whole("train.batch_size", train.batch_size(), 1, 1 << 24);
    }
    CheckLength(train);
    Check(train.optimizer());
    Check(train.schedule(), train);
    Range("train.clip_norm", train.clip_norm(), 0, 1e6);
    Below("train.label_smoothing", train.label_smoothing(), 0, 1);
    Whole("train.validate_every_epochs", train.validate_every_epochs(), 0, kMostEpochs);
    Whole("train.validate_every_steps", train.validate_every_steps(), 0, kMostSteps);
    Whole("train.threads_per_rank", train.threads_per_rank(), 1, 1024);
    Whole("train.report_every_steps", train.report_every_steps(), 1, 1'000'000);
  }

  void CheckLength(const v1::Train& train) {
    if (train.has_epochs() == train.has_steps()) {
      Fault("train.epochs", train.has_steps() ? "give only one of epochs and steps"
                                              : "is required, or train.steps instead of it");
    }
    if (train.has_epochs()) Above("train.epochs", train.epochs(), 0, kMostEpochs);
    if (train.has_steps()) Whole("train.steps", train.steps(), 1, kMostSteps);
  }

  void Check(const v1::Mlp& mlp) {
    if (mlp.hidden_size() > 64) {
      Fault("train.model.mlp.hidden",
            absl::StrCat("must have at most 64 layers; got ", mlp.hidden_size()));
    }
    for (int i = 0; i < mlp.hidden_size(); ++i) {
      Whole(absl::StrCat("train.model.mlp.hidden[", i, "]"), mlp.hidden(i), 1, 65536);
    }
  }

  void Check(const v1::Synthetic& synthetic, bool pictures_only) {
    // A tenth each for validation and test must be at least one sample.
    Whole("train.data.synthetic.samples", synthetic.samples(), 10, 1'000'000'000);
    Whole("train.data.synthetic.classes", synthetic.classes(), 2, 100'000);
    const std::string path = "train.data.synthetic.shape";
    if (synthetic.shape_size() != 1 && synthetic.shape_size() != 3) {
      Fault(path, absl::StrCat("must be [features] or [channels, height, width]; got ",
                               synthetic.shape_size(), " numbers"));
    } else if (pictures_only && synthetic.shape_size() != 3) {
      Fault(path, "must be [channels, height, width] for resnet18; got 1 number");
    }
    uint64_t values = 1;
    for (int i = 0; i < synthetic.shape_size(); ++i) {
      const size_t before = faults_.size();
      Whole(absl::StrCat(path, "[", i, "]"), synthetic.shape(i), 1, 1 << 20);
      if (faults_.size() != before) return;
      values = std::min(values * synthetic.shape(i), kMostSampleValues + 1);
    }
    if (values > kMostSampleValues) {
      Fault(path, absl::StrCat("must multiply to at most ", kMostSampleValues, " values a sample"));
    }
  }

  void Check(const v1::Digits& digits) {
    if (!digits.has_path()) {
      Fault("train.data.digits.path", "is required: the folder that holds digits.csv");
    } else {
      Path("train.data.digits.path", digits.path());
    }
    const uint32_t size = digits.image_size();
    if (size != 8 && size != 16 && size != 24 && size != 32) {
      Fault("train.data.digits.image_size", absl::StrCat("must be 8, 16, 24 or 32; got ", size));
    }
  }

  void Check(const v1::Optimizer& optimizer) {
    const std::string path = "train.optimizer.";
    Above(path + "lr", optimizer.lr(), 0, 1000);
    Range(path + "weight_decay", optimizer.weight_decay(), 0, 100);
    const bool sgd = optimizer.name() == v1::Optimizer::NAME_SGD;
    const auto only = [&](bool given, bool fits, const char* field, const char* name) {
      if (given && !fits) Fault(path + field, absl::StrCat("is only for the optimizer ", name));
      return given && fits;
    };
    if (only(optimizer.has_momentum(), sgd, "momentum", "sgd")) {
      Below(path + "momentum", optimizer.momentum(), 0, 1);
    }
    if (only(optimizer.has_nesterov(), sgd, "nesterov", "sgd") && optimizer.nesterov() &&
        optimizer.momentum() == 0) {
      Fault(path + "nesterov", "needs a momentum above 0");
    }
    if (only(optimizer.has_beta1(), !sgd, "beta1", "adamw"))
      Below(path + "beta1", optimizer.beta1(), 0, 1);
    if (only(optimizer.has_beta2(), !sgd, "beta2", "adamw"))
      Below(path + "beta2", optimizer.beta2(), 0, 1);
    if (only(optimizer.has_eps(), !sgd, "eps", "adamw")) Above(path + "eps", optimizer.eps(), 0, 1);
  }

  void Check(const v1::Schedule& schedule, const v1::Train& train) {
    Whole("train.schedule.warmup_steps", schedule.warmup_steps(), 0, kMostSteps);
    if (train.has_steps() && schedule.warmup_steps() > train.steps()) {
      Fault("train.schedule.warmup_steps",
            absl::StrCat("must be at most train.steps, which is ", train.steps(), "; got ",
                         schedule.warmup_steps()));
    }
    Range("train.schedule.final_fraction", schedule.final_fraction(), 0, 1);
  }

  std::vector<SpecFault> faults_;
};

}  // namespace

std::vector<SpecFault> ValidateSpec(const v1::JobSpec& spec) {
  Validator validator;
  validator.Check(spec);
  return validator.Take();
}

}  // namespace muster
