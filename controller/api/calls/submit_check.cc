#include "controller/api/calls/submit_check.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "common/base/units.h"
#include "common/spec/packed_spec.h"
#include "common/spec/read/spec_reader.h"
#include "common/spec/tree/scheduling_text.h"
#include "common/spec/tree/spec_text.h"
#include "common/spec/validate/image_reference.h"
#include "common/spec/validate/resume_from.h"
#include "common/spec/validate/spec_defaults.h"
#include "common/spec/validate/spec_validate.h"
#include "controller/api/calls/data_key.h"
#include "controller/api/calls/service_call.h"

namespace muster::controller {
namespace {

constexpr size_t kMaxSpecBytes = 64 << 10;

bool IsPlain(absl::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7f; });
}

constexpr int32_t kPriorityStep = 1000;  // between two classes
constexpr int32_t kNormal = v1::PRIORITY_CLASS_NORMAL;

int32_t PriorityOf(const v1::Scheduling& scheduling) {
  const int32_t steps = static_cast<int32_t>(scheduling.priority_class()) -
                        static_cast<int32_t>(v1::PRIORITY_CLASS_NORMAL);
  return steps * kPriorityStep + scheduling.priority();
}

// A plug-in is somebody's code, and so is a TorchScript file: its operators write files, too.
bool IsCode(const v1::Model& model) { return model.has_plugin() || model.has_torchscript(); }

// The texts have been validated: what does not parse is not there.
JobNeeds NeedsOf(const v1::JobSpec& spec) {
  JobNeeds out;
  out.min_ranks = spec.ranks().min();
  out.max_ranks = spec.ranks().max();
  out.slot_kind = spec.per_rank().gpus() > 0 ? SlotKind::kGpu : SlotKind::kCpu;
  out.slots_per_rank = std::max(1u, spec.per_rank().gpus());
  out.gpu_type = spec.per_rank().gpu_type();
  out.cpus_per_rank = spec.per_rank().cpus();
  if (spec.per_rank().has_memory()) {
    out.memory_per_rank = ParseMemory(spec.per_rank().memory()).value_or(0);
  }
  for (const std::string& text : spec.placement().pools()) {
    const PoolChoice choice = ParsePoolChoice(text).value_or(PoolChoice());
    out.pools.push_back({.name = choice.name, .after = choice.after});
  }
  if (out.pools.empty()) out.pools.push_back({.name = spec.placement().pool(), .after = {}});
  for (const auto& [key, value] : spec.placement().selector()) out.selector.emplace(key, value);
  out.exclude = {spec.placement().exclude().begin(), spec.placement().exclude().end()};
  out.wait_for_capacity = spec.placement().wait_for_capacity();
  out.commands =
      spec.has_command() || IsCode(spec.train().model()) || IsCode(spec.train().distill().model());
  if (spec.command().has_image()) {
    out.image =
        IsImageFile(spec.command().image()) ? JobNeeds::Image::kFile : JobNeeds::Image::kReference;
  }
  if (spec.has_train()) out.data = DataKeyOf(spec.train());
  return out;
}

SchedulingSettings SchedulingOf(const v1::Scheduling& spec) {
  SchedulingSettings out;
  out.preemptible = spec.preemptible();
  if (spec.has_max_run_time()) out.max_run_time = muster::FromProto(spec.max_run_time());
  if (spec.has_expected_run_time()) {
    out.expected_run_time = muster::FromProto(spec.expected_run_time());
  }
  if (spec.has_deadline()) {
    out.deadline = ParseWallTime(spec.deadline()).value_or(absl::InfiniteFuture());
  }
  if (spec.has_begin()) out.begin = ParseWallTime(spec.begin()).value_or(absl::InfinitePast());
  for (const std::string& text : spec.after()) {
    const JobDependency other = ParseDependency(text).value_or(JobDependency());
    out.after.push_back({.job_id = other.job_id,
                         .on = static_cast<SchedulingSettings::On>(other.on),
                         .task = other.task});
  }
  out.hold = spec.hold();
  return out;
}

std::map<FailureClass, uint32_t> BudgetsOf(const v1::RestartBudgets& budgets) {
  std::map<FailureClass, uint32_t> out;
  const auto put = [&out](FailureClass kind, bool given, uint32_t count) {
    if (given) out[kind] = count;
  };
  put(FailureClass::kWorkerLost, budgets.has_worker_lost(), budgets.worker_lost());
  put(FailureClass::kHang, budgets.has_hang(), budgets.hang());
  put(FailureClass::kOutOfMemory, budgets.has_out_of_memory(), budgets.out_of_memory());
  put(FailureClass::kNonFinite, budgets.has_non_finite(), budgets.non_finite());
  put(FailureClass::kDataError, budgets.has_data_error(), budgets.data_error());
  put(FailureClass::kCheckpointFailed, budgets.has_checkpoint_failed(),
      budgets.checkpoint_failed());
  put(FailureClass::kCorruption, budgets.has_corruption(), budgets.corruption());
  put(FailureClass::kApplication, budgets.has_application(), budgets.application());
  put(FailureClass::kStartFailed, budgets.has_start_failed(), budgets.start_failed());
  put(FailureClass::kRankKilled, budgets.has_rank_killed(), budgets.rank_killed());
  return out;
}

JobSettings SettingsOf(const v1::JobSpec& spec) {
  JobSettings out;
  out.name = spec.name();
  out.project = spec.project();
  out.priority = PriorityOf(spec.scheduling());
  out.needs = NeedsOf(spec);
  out.scheduling = SchedulingOf(spec.scheduling());
  out.restart.budgets = BudgetsOf(spec.restart().budgets());
  out.restart.max_restarts = spec.restart().max_restarts();
  out.restart.backoff = muster::FromProto(spec.restart().backoff());
  out.restart.max_backoff = muster::FromProto(spec.restart().max_backoff());
  const absl::Duration progress_timeout = muster::FromProto(spec.restart().progress_timeout());
  if (progress_timeout != absl::ZeroDuration()) out.restart.progress_timeout = progress_timeout;
  out.keep_last = spec.checkpoint().keep_last();
  absl::string_view root = spec.checkpoint().url();
  absl::ConsumePrefix(&root, "file://");
  while (root.size() > 1 && absl::ConsumeSuffix(&root, "/")) {
  }
  out.checkpoint_root = std::string(root);
  out.tags.insert(spec.tags().begin(), spec.tags().end());
  out.upload = spec.command().upload();
  out.spec = PackSpec(spec);
  return out;
}

}  // namespace

absl::Status CheckWord(absl::string_view field, absl::string_view word, size_t most) {
  if (word.size() <= most && IsPlain(word)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": at most ", most, " printable ASCII characters without spaces"));
}

namespace {

absl::Status CheckFrame(const v1::SubmitRequest& request) {
  MUSTER_RETURN_IF_ERROR(CheckProtocolVersion(request.protocol_version(), "the client"));
  MUSTER_RETURN_IF_ERROR(CheckWord("idempotency_key", request.idempotency_key(), kMaxKeyBytes));
  MUSTER_RETURN_IF_ERROR(CheckWord("owner", request.owner(), kMaxUserBytes));
  if (request.spec().ByteSizeLong() > kMaxSpecBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("spec: larger than ", kMaxSpecBytes / 1024, " KiB"));
  }
  return absl::OkStatus();
}

ResumeRequest::Which WhichOf(ResumeFrom::Which which) {
  switch (which) {
    case ResumeFrom::Which::kNewestFew:
      return ResumeRequest::Which::kNewestFew;
    case ResumeFrom::Which::kStep:
      return ResumeRequest::Which::kStep;
    case ResumeFrom::Which::kBest:
      return ResumeRequest::Which::kBest;
    case ResumeFrom::Which::kNewest:
      return ResumeRequest::Which::kNewest;
  }
  return ResumeRequest::Which::kNewestFew;
}

}  // namespace

absl::StatusOr<SubmitJob> CheckSubmit(const v1::SubmitRequest& request, v1::JobSpec& spec,
                                      const std::string& checkpoint_root) {
  MUSTER_RETURN_IF_ERROR(CheckFrame(request));
  std::string written = PackSpec(spec);
  // A command that says nothing of checkpoints runs also where their folder is not to be seen.
  const bool counts_on_root = spec.has_train() || spec.has_checkpoint();
  FillDefaults(spec);
  if (spec.checkpoint().url().empty()) spec.mutable_checkpoint()->set_url(checkpoint_root);
  MUSTER_RETURN_IF_ERROR(FaultStatus("spec", ValidateSpec(spec)));
  SubmitJob event;
  if (spec.scheduling().has_array()) {
    MUSTER_ASSIGN_OR_RETURN(const JobArray array, ParseArray(spec.scheduling().array()));
    event.array = {.first = array.first, .last = array.last, .at_a_time = array.at_a_time};
  }
  if (spec.checkpoint().has_resume_from()) {
    MUSTER_ASSIGN_OR_RETURN(const ResumeFrom from,
                            ParseResumeFrom(spec.checkpoint().resume_from()));
    event.resume = {.automatic = from.automatic,
                    .job_id = from.job_id,
                    .task = from.task,
                    .job_name = from.job_name,
                    .which = WhichOf(from.which),
                    .step = from.step};
  }
  JobSettings settings = SettingsOf(spec);
  if (counts_on_root) settings.needs.root = settings.checkpoint_root;
  settings.written_spec = std::move(written);
  event.settings = std::make_shared<const JobSettings>(std::move(settings));
  event.owner = request.owner();
  event.idempotency_key = request.idempotency_key();
  return event;
}

absl::StatusOr<SubmitJob> CheckStreamed(v1::SubmitRequest& request,
                                        const std::string& checkpoint_root) {
  if (request.dry_run()) {
    return absl::InvalidArgumentError("dry_run: a stream has none; use Submit");
  }
  MUSTER_ASSIGN_OR_RETURN(SubmitJob event,
                          CheckSubmit(request, *request.mutable_spec(), checkpoint_root));
  if (!event.settings->upload.empty()) {
    return absl::InvalidArgumentError("command.upload: a stream takes none; use Submit");
  }
  return event;
}

void LetWaitFor(const WorkersToCome& workers, SubmitJob& event) {
  const JobNeeds& needs = event.settings->needs;
  if (needs.wait_for_capacity || !workers.could_hold || !workers.could_hold(needs)) return;
  auto settings = std::make_shared<JobSettings>(*event.settings);
  settings->needs.wait_for_capacity = true;
  event.settings = std::move(settings);
}

v1::JobSpec SpecOf(const JobSettings& settings) {
  v1::JobSpec spec = UnpackSpec(settings.spec);
  if (NeedsOf(spec).pools != settings.needs.pools) {
    v1::Placement& placement = *spec.mutable_placement();
    placement.clear_pool();
    placement.clear_pools();
    for (const JobNeeds::Pool& pool : settings.needs.pools) {
      const bool at_once = pool.after <= absl::ZeroDuration();
      placement.add_pools(
          at_once ? pool.name
                  : absl::StrCat(pool.name, " after ", absl::FormatDuration(pool.after)));
    }
  }
  v1::Scheduling& scheduling = *spec.mutable_scheduling();
  if (PriorityOf(scheduling) != settings.priority) {
    const int32_t steps =
        std::clamp(settings.priority / kPriorityStep, v1::PRIORITY_CLASS_LOW - kNormal,
                   v1::PRIORITY_CLASS_URGENT - kNormal);
    scheduling.set_priority_class(static_cast<v1::PriorityClass>(kNormal + steps));
    scheduling.set_priority(settings.priority - steps * kPriorityStep);
  }
  const SchedulingSettings was = SchedulingOf(scheduling);
  const SchedulingSettings& is = settings.scheduling;
  if (was.max_run_time != is.max_run_time) {
    scheduling.clear_max_run_time();
    if (is.max_run_time != absl::InfiniteDuration()) {
      *scheduling.mutable_max_run_time() = muster::ToProto(is.max_run_time);
    }
  }
  if (was.deadline != is.deadline) {
    scheduling.clear_deadline();
    if (is.deadline != absl::InfiniteFuture()) scheduling.set_deadline(Rfc3339Text(is.deadline));
  }
  if (was.begin != is.begin) {
    scheduling.clear_begin();
    if (is.begin != absl::InfinitePast()) scheduling.set_begin(Rfc3339Text(is.begin));
  }
  return spec;
}

}  // namespace muster::controller
