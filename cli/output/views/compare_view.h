// Two jobs beside each other: where their specs differ, how they trained, what their slots were
// good for. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/output/metric_fold.h"
#include "cli/output/proto_json.h"
#include "muster/v1/job_service.pb.h"

namespace muster::cli {

struct ComparedJob {
  v1::JobSummary summary;
  Json spec;  // with every default
  std::map<std::string, MetricFold> metrics;
  v1::Ledger ledger;
};

// A value that one of them has otherwise, or alone: null stands for what is not there.
struct SpecDifference {
  std::string path;  // train.optimizer.lr
  Json first;
  Json second;
};
// By path. Lists are compared as wholes.
std::vector<SpecDifference> SpecDifferences(const Json& first, const Json& second);

std::string ComparePage(const ComparedJob& first, const ComparedJob& second, bool unicode);
Json CompareJson(const ComparedJob& first, const ComparedJob& second);

}  // namespace muster::cli
