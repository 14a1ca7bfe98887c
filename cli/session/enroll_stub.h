// The stub of EnrollService, for Client::Call and CallOnce.
#pragma once

#include "muster/v1/enroll_service.grpc.pb.h"

namespace muster::cli {

using Enrollments = v1::EnrollService::Stub;

}  // namespace muster::cli
