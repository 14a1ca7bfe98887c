#include "common/spec/validate/spec_validate.h"

#include <google/protobuf/message.h>
#include <google/protobuf/unknown_field_set.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/spec/tree/scheduling_text.h"
#include "common/spec/tree/spec_text.h"
#include "common/spec/validate/command_validate.h"
#include "common/spec/validate/resume_from.h"
#include "common/spec/validate/spec_checks.h"
#include "common/spec/validate/train_validate.h"

namespace muster {
namespace {

constexpr uint32_t kMostRanks = 16384;
// Each rank of a training gang asks for the address of each other one before the first step.
constexpr uint32_t kMostTrainRanks = 4096;

class Validator : public SpecChecks {
 public:
  using SpecChecks::SpecChecks;

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
      const auto at = [&path, field] {
        return path.empty() ? field->name() : absl::StrCat(path, ".", field->name());
      };
      if (field->is_map()) continue;  // of names to strings
      if (field->is_repeated()) {
        // The spec has no lists of enums.
        if (field->message_type() == nullptr) continue;
        for (int i = 0; i < r.FieldSize(message, field); ++i) {
          CheckMessage(absl::StrCat(at(), "[", i, "]"), r.GetRepeatedMessage(message, field, i));
        }
        continue;
      }
      if (field->message_type() != nullptr) {
        CheckMessage(at(), r.GetMessage(message, field));
      } else if (field->enum_type() != nullptr) {
        const int value = r.GetEnumValue(message, field);
        const auto* known = field->enum_type()->FindValueByNumber(value);
        if (known == nullptr || value == 0) {
          Fault(at(), absl::StrCat("must be one of ",
                                   absl::StrJoin(EnumValueTexts(*field->enum_type()), ", "),
                                   "; got the number ", value));
        }
      }
    }
  }

  void Check(const v1::JobSpec& spec) {
    if (!spec.has_name()) {
      Fault("name", "is required");
    } else {
      Name("name", spec.name());
    }
    Name("project", spec.project());
    Pairs("tags", spec.tags());
    const uint32_t most_ranks = spec.has_command() ? kMostRanks : kMostTrainRanks;
    Whole("ranks.min", spec.ranks().min(), 1, most_ranks);
    Whole("ranks.max", spec.ranks().max(), 1, most_ranks);
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
      ValidateCommand(spec.command(), faults());
      return;
    }
    if (!spec.has_train()) {
      Fault("train", "is required, or command instead of it");
      return;
    }
    ValidateTrain(spec.train(), faults());
    if (spec.train().has_batch_size() && spec.train().batch_size() < spec.ranks().max()) {
      Fault("train.batch_size",
            absl::StrCat("must be at least ranks.max, which is ", spec.ranks().max(),
                         ", so that each rank has a sample; got ", spec.train().batch_size()));
    } else if (spec.train().has_batch_size() && spec.ranks().max() > 0 &&
               spec.train().batch_size() / spec.ranks().max() < spec.train().accumulate()) {
      Fault("train.accumulate", absl::StrCat("must be at most the samples of one rank, which are ",
                                             spec.train().batch_size() / spec.ranks().max(),
                                             "; got ", spec.train().accumulate()));
    }
  }

 private:
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
    const std::pair<const char*, uint32_t> all[] = {
        {"worker_lost", budgets.worker_lost()},
        {"hang", budgets.hang()},
        {"out_of_memory", budgets.out_of_memory()},
        {"non_finite", budgets.non_finite()},
        {"data_error", budgets.data_error()},
        {"checkpoint_failed", budgets.checkpoint_failed()},
        {"corruption", budgets.corruption()},
        {"application", budgets.application()},
        {"start_failed", budgets.start_failed()},
        {"rank_killed", budgets.rank_killed()}};
    for (const auto& [name, budget] : all) {
      Whole(absl::StrCat("restart.budgets.", name), budget, 0, 1000);
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
    if (FromProto(checkpoint.every()) != absl::ZeroDuration()) {
      Time("checkpoint.every", checkpoint.every(), absl::Seconds(1), absl::Hours(24 * 30));
    }
    if (checkpoint.has_resume_from()) {
      Status("checkpoint.resume_from", ParseResumeFrom(checkpoint.resume_from()).status());
    }
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
};

}  // namespace

std::vector<SpecFault> ValidateSpec(const v1::JobSpec& spec) {
  std::vector<SpecFault> faults;
  Validator validator(faults);
  validator.CheckMessage("", spec);
  validator.Check(spec);
  return faults;
}

}  // namespace muster
