#include "worker/link/launch.h"

#include "common/base/status_macros.h"
#include "worker/link/link_json.h"

namespace muster::worker {

using nlohmann::json;

std::string EncodeLaunch(const Launch& launch) {
  json resume = json::array();
  for (const ResumeCandidate& candidate : launch.resume) {
    resume.push_back({{"path", candidate.path},
                      {"step", candidate.step},
                      {"manifest_sha256", candidate.manifest_sha256},
                      {"best", candidate.best},
                      {"job_id", candidate.job_id},
                      {"job_name", candidate.job_name}});
  }
  json object = {{"job_id", launch.job_id},
                 {"job_name", launch.job_name},
                 {"attempt", launch.attempt},
                 {"generation", launch.generation},
                 {"term", launch.term},
                 {"rank", launch.rank},
                 {"world_size", launch.world_size},
                 {"local_rank", launch.local_rank},
                 {"local_world_size", launch.local_world_size},
                 {"advertise_address", launch.advertise_address},
                 {"gpu", launch.gpu},
                 {"checkpoint_root", launch.checkpoint_root},
                 {"root", launch.root},
                 {"root_identity", launch.root_identity},
                 {"work_dir", launch.work_dir},
                 {"allow_plugins", launch.allow_plugins},
                 {"resume", std::move(resume)}};
  // A spec that is no object is left out; DecodeLaunch then names it.
  if (auto spec = ParseObject(launch.spec_json); spec.ok()) object["spec"] = *std::move(spec);
  return Dump(object) + "\n";
}

absl::StatusOr<Launch> DecodeLaunch(absl::string_view text) {
  MUSTER_ASSIGN_OR_RETURN(const json object, ParseObject(text));
  Launch launch;
  JsonReader reader(object, "launch");
  reader.Required("job_id", &launch.job_id);
  reader.Required("job_name", &launch.job_name);
  reader.Required("attempt", &launch.attempt);
  reader.Required("generation", &launch.generation);
  reader.Required("term", &launch.term);
  reader.Required("rank", &launch.rank);
  reader.Required("world_size", &launch.world_size);
  reader.Required("local_rank", &launch.local_rank);
  reader.Required("local_world_size", &launch.local_world_size);
  reader.Required("advertise_address", &launch.advertise_address);
  reader.Required("gpu", &launch.gpu);
  reader.Required("checkpoint_root", &launch.checkpoint_root);
  reader.Optional("root", &launch.root);
  reader.Optional("root_identity", &launch.root_identity);
  reader.Required("work_dir", &launch.work_dir);
  reader.Optional("allow_plugins", &launch.allow_plugins);
  if (reader.status().ok() && launch.rank >= launch.world_size) {
    reader.Fail("rank", "is not below world_size");
  }
  const json* spec = reader.Nested("spec");
  if (spec == nullptr || !spec->is_object()) {
    reader.Fail("spec", "is missing or not an object");
  } else {
    launch.spec_json = Dump(*spec);
  }
  const json* resume = reader.Nested("resume");
  if (resume != nullptr && !resume->is_array()) reader.Fail("resume", "is not a list");
  MUSTER_RETURN_IF_ERROR(reader.status());
  if (resume == nullptr) return launch;
  for (const json& item : *resume) {
    if (!item.is_object())
      return absl::InvalidArgumentError("launch: key 'resume' has an item that is not an object");
    ResumeCandidate candidate;
    JsonReader item_reader(item, "launch: resume");
    item_reader.Required("path", &candidate.path);
    item_reader.Required("step", &candidate.step);
    item_reader.Required("manifest_sha256", &candidate.manifest_sha256);
    item_reader.Optional("best", &candidate.best);
    item_reader.Optional("job_id", &candidate.job_id);
    item_reader.Optional("job_name", &candidate.job_name);
    MUSTER_RETURN_IF_ERROR(item_reader.status());
    launch.resume.push_back(std::move(candidate));
  }
  return launch;
}

}  // namespace muster::worker
