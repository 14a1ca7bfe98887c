#include "controller/access/method_roles.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace muster::controller {
namespace {

constexpr char kPackage[] = "muster.v1.";

// The role that is needed, what the caller has instead, and the way out.
absl::Status Lacks(const Principal& caller, Role least, absl::string_view project) {
  const bool in_all = project == kAllProjects;
  const std::string where = in_all ? "in all projects" : absl::StrCat("in project ", project);
  const Role has = in_all ? caller.RoleIn(kAllProjects) : caller.RoleIn(project);
  return absl::PermissionDeniedError(absl::StrCat(
      "needs role ", NameOf(least), " ", where, "; you (", caller.user, ") have ",
      has == Role::kNone ? "none there" : NameOf(has), "; ask an admin: muster user grant ",
      caller.user, " ", in_all ? "'*'" : project, " ", NameOf(least)));
}

}  // namespace

const char* NameOf(Role role) {
  switch (role) {
    case Role::kViewer:
      return "viewer";
    case Role::kUser:
      return "user";
    case Role::kOperator:
      return "operator";
    case Role::kAdmin:
      return "admin";
    case Role::kNone:
      break;
  }
  return "none";
}

Role Principal::RoleIn(absl::string_view project) const {
  Role role = Role::kNone;
  if (const auto all = grants.find(kAllProjects); all != grants.end()) role = all->second;
  if (const auto one = grants.find(std::string(project)); one != grants.end()) {
    role = std::max(role, one->second);
  }
  return role;
}

Role Principal::RoleAnywhere() const {
  Role role = Role::kNone;
  for (const auto& [project, has] : grants) role = std::max(role, has);
  return role;
}

const std::vector<MethodRole>& AllMethodRoles() {
  constexpr bool kChanges = true;
  static const std::vector<MethodRole>* rows = new std::vector<MethodRole>{
      {"JobService/GetVersion", Role::kNone, Scope::kSelf},
      {"JobService/Submit", Role::kUser, Scope::kProject, kChanges},
      {"JobService/SubmitJobs", Role::kUser, Scope::kProject, kChanges},
      {"JobService/ListJobs", Role::kViewer, Scope::kAnyProject},
      {"JobService/GetJob", Role::kViewer, Scope::kProject},
      {"JobService/CancelJob", Role::kUser, Scope::kOwnJob, kChanges},
      {"JobService/ControlJob", Role::kUser, Scope::kOwnJob, kChanges},
      {"JobService/UpdateJob", Role::kUser, Scope::kOwnJob, kChanges},
      {"JobService/WatchJob", Role::kViewer, Scope::kProject},
      {"JobService/StreamEvents", Role::kViewer, Scope::kAnyProject},
      {"JobService/StreamLogs", Role::kViewer, Scope::kProject},
      {"JobService/QueryMetrics", Role::kViewer, Scope::kProject},
      {"JobService/ListCheckpoints", Role::kViewer, Scope::kProject},
      {"JobService/GetCheckpoint", Role::kViewer, Scope::kProject},
      {"JobService/VerifyCheckpoint", Role::kUser, Scope::kOwnJob, kChanges},
      {"JobService/ControlCheckpoint", Role::kUser, Scope::kOwnJob, kChanges},
      {"JobService/ListWorkers", Role::kViewer, Scope::kAnyProject},
      {"JobService/CordonWorker", Role::kOperator, Scope::kCluster, kChanges},
      {"JobService/ForgetWorker", Role::kOperator, Scope::kCluster, kChanges},
      {"JobService/ListProjects", Role::kViewer, Scope::kAnyProject},
      // Its weight and quotas are what others lose.
      {"JobService/SetProject", Role::kAdmin, Scope::kCluster, kChanges},
      {"JobService/GetGoodput", Role::kViewer, Scope::kAnyProject},
      {"JobService/ExplainJob", Role::kViewer, Scope::kProject},
      {"ExecService/Exec", Role::kUser, Scope::kOwnJob, kChanges},
      {"PageService/FindJobs", Role::kViewer, Scope::kAnyProject},
      {"PageService/ReadLogs", Role::kViewer, Scope::kProject},
      {"UploadService/Find", Role::kUser, Scope::kAnyProject},
      {"UploadService/Upload", Role::kUser, Scope::kAnyProject},
      {"UploadService/Fetch", Role::kAdmin, Scope::kNobody},
      {"WorkerService/Control", Role::kAdmin, Scope::kNobody},
      {"WorkerService/Bulk", Role::kAdmin, Scope::kNobody},
      {"WorkerService/Exec", Role::kAdmin, Scope::kNobody},
      {"AccessService/WhoAmI", Role::kNone, Scope::kSelf},
      {"AccessService/ListUsers", Role::kAdmin, Scope::kCluster},
      {"AccessService/AddUser", Role::kAdmin, Scope::kCluster, kChanges},
      {"AccessService/RemoveUser", Role::kAdmin, Scope::kCluster, kChanges},
      {"AccessService/GrantRole", Role::kAdmin, Scope::kProject, kChanges},
      {"AccessService/RevokeRole", Role::kAdmin, Scope::kProject, kChanges},
      {"AccessService/CreateToken", Role::kAdmin, Scope::kCluster, kChanges},
      {"AccessService/ListTokens", Role::kNone, Scope::kSelf},
      {"AccessService/RevokeToken", Role::kNone, Scope::kSelf, kChanges},
      {"AccessService/ListAudit", Role::kAdmin, Scope::kCluster},
      {"AccessService/VerifyAudit", Role::kAdmin, Scope::kCluster},
      {"AdminService/Backup", Role::kAdmin, Scope::kCluster, kChanges},
      {"AdminService/GetAdminStatus", Role::kOperator, Scope::kCluster},
      {"EnrollService/CreateJoinToken", Role::kAdmin, Scope::kCluster, kChanges},
      {"EnrollService/ListJoinTokens", Role::kOperator, Scope::kCluster},
      {"EnrollService/RevokeJoinToken", Role::kAdmin, Scope::kCluster, kChanges},
      {"EnrollService/ListCertificates", Role::kOperator, Scope::kCluster},
      {"EnrollService/RevokeCertificate", Role::kOperator, Scope::kCluster, kChanges},
      // Machines call these two without a user's token (EnrollService::IsOpen).
      {"EnrollService/GetAuthority", Role::kAdmin, Scope::kNobody},
      {"EnrollService/Enroll", Role::kAdmin, Scope::kNobody, kChanges},
      {"RenewService/Renew", Role::kAdmin, Scope::kNobody},
      {"grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", Role::kNone, Scope::kSelf},
  };
  return *rows;
}

const MethodRole* FindMethodRole(absl::string_view path) {
  static const auto* by_name = [] {
    auto* map = new std::map<absl::string_view, const MethodRole*>();
    for (const MethodRole& row : AllMethodRoles()) map->emplace(row.method, &row);
    return map;
  }();
  absl::ConsumePrefix(&path, "/");
  absl::ConsumePrefix(&path, kPackage);
  const auto it = by_name->find(path);
  return it == by_name->end() ? nullptr : it->second;
}

absl::Status CheckMethod(const MethodRole& method, const Principal& caller) {
  switch (method.scope) {
    case Scope::kSelf:
      return absl::OkStatus();
    case Scope::kAnyProject:
    case Scope::kProject:
    case Scope::kOwnJob:
      if (caller.RoleAnywhere() >= method.least) return absl::OkStatus();
      return absl::PermissionDeniedError(absl::StrCat(
          "needs role ", NameOf(method.least), " in a project; you (", caller.user, ") have ",
          caller.RoleAnywhere() == Role::kNone
              ? "none in any"
              : absl::StrCat("at most ", NameOf(caller.RoleAnywhere())),
          "; ask an admin: muster user grant ", caller.user, " PROJECT ", NameOf(method.least)));
    case Scope::kCluster:
      return CheckRole(caller, method.least, kAllProjects);
    case Scope::kNobody:
      break;
  }
  return absl::UnimplementedError(absl::StrCat(method.method, ": is for agents, on their port"));
}

absl::Status CheckRole(const Principal& caller, Role least, absl::string_view project) {
  return caller.RoleIn(project) >= least ? absl::OkStatus() : Lacks(caller, least, project);
}

absl::Status CheckInProject(const MethodRole& method, const Principal& caller,
                            absl::string_view project) {
  return CheckRole(caller, method.least, project);
}

absl::Status CheckJobOf(const MethodRole& method, const Principal& caller,
                        absl::string_view project, absl::string_view owner) {
  const bool others = method.scope == Scope::kOwnJob && owner != caller.user;
  return CheckRole(caller, others ? std::max(method.least, Role::kOperator) : method.least,
                   project);
}

}  // namespace muster::controller
