// Why a job waits, and when and where it could start, for people. Pure: `now` is an argument.
#pragma once

#include <string>

#include "absl/time/time.h"
#include "muster/v1/job_service.pb.h"

namespace muster::cli {

// All of `explain`: the job, what is in its way, who comes first, when and where it could start.
std::string ExplainPage(const v1::ExplainJobResponse& response, absl::Time now);

// What an outlook says besides its reason, for `explain` and dry runs.
std::string OutlookPage(const v1::Outlook& outlook, absl::Time now);

}  // namespace muster::cli
