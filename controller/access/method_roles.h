// Which role each method needs: one table. A method that has no row is denied to everybody; a test
// walks the methods of all services of muster.v1 and fails for one without a row. Pure.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "controller/access/access_types.h"

namespace muster::controller {

// Where the role must be held.
enum class Scope : uint8_t {
  kSelf,        // nowhere: a valid token will do; the handler bounds it to what is the caller's own
  kAnyProject,  // in any project; the answer holds what the caller may read
  kProject,     // in the project that the request, or its job, is of
  kOwnJob,      // likewise, for one's own jobs; others' need kOperator there
  kCluster,     // in kAllProjects
  kNobody,      // not for people: of the workers' port
};

struct MethodRole {
  absl::string_view method;  // "JobService/Submit"; of another package than muster.v1 in full
  Role least = Role::kAdmin;
  Scope scope = Scope::kNobody;
  bool changes = false;  // what it did is recorded
};

const std::vector<MethodRole>& AllMethodRoles();

// `path` as gRPC has it: "/muster.v1.JobService/Submit". Null: there is none, so that nobody may.
const MethodRole* FindMethodRole(absl::string_view path);

// What can be told before the request is read: PERMISSION_DENIED, with what is lacking and who can
// give it. UNIMPLEMENTED: it is for nobody on the people's port.
absl::Status CheckMethod(const MethodRole& method, const Principal& caller);
// Requires kProject, or kOwnJob for who does not own it.
absl::Status CheckInProject(const MethodRole& method, const Principal& caller,
                            absl::string_view project);
// Of a job in `project` that `owner` submitted.
absl::Status CheckJobOf(const MethodRole& method, const Principal& caller,
                        absl::string_view project, absl::string_view owner);
// Any other role, in one project.
absl::Status CheckRole(const Principal& caller, Role least, absl::string_view project);

}  // namespace muster::controller
