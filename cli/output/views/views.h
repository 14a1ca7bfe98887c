// The controller's answers as tables and pages for people. Pure: `now` is an argument.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "cli/output/table.h"
#include "muster/v1/job_service.pb.h"

namespace muster::cli {

// "450/1000"; "450" while the total is not known; "-" before the first step.
std::string StepText(const v1::JobSummary& job);

// "7", or "42_3" of a task of an array (`array_id` is 0 otherwise): as people name the job.
std::string JobIdText(uint64_t id, uint64_t array_id, uint32_t array_index);
std::string JobIdText(const v1::JobSummary& job);

// "7 digits"
std::string JobName(const v1::JobSummary& job);

// "job 7 (digits), step 500, else 400, 300".
std::string ResumeSourceText(const v1::ResumeSource& source);

Table JobTable(const std::vector<v1::JobSummary>& jobs, absl::Time now, bool wide);
// Jobs that have ended: how long they waited and ran, and what they held.
Table HistoryTable(const std::vector<v1::JobSummary>& jobs, bool wide);
// `job_names`, by id, where they are of many jobs: null for those of one.
Table CheckpointTable(const std::vector<v1::CheckpointInfo>& checkpoints, absl::Time now, bool wide,
                      const std::map<uint64_t, std::string>* job_names = nullptr);
Table WorkerTable(const std::vector<v1::WorkerInfo>& workers, absl::Time now, bool wide);

// All that `show` tells: the job, its attempts with their ranks, its checkpoints, its events, and
// its spec in YAML.
// What `show` prints of a job. `artifacts`: a line on the files that it left for people.
struct JobPageParts {
  std::string spec_title;  // "spec"
  std::string spec_yaml;
  std::string artifacts;
};
std::string JobPage(const v1::GetJobResponse& job, const JobPageParts& parts, absl::Time now);

// "VERIFIED (pinned)"
std::string CheckpointStateText(const v1::CheckpointInfo& checkpoint);
std::string CheckpointPage(const v1::CheckpointInfo& checkpoint, absl::Time now);

}  // namespace muster::cli
