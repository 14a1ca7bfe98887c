#include "controller/api/admin_service.h"

#include "absl/strings/str_cat.h"

namespace muster::controller {
namespace {

v1::BackupInfo InfoOf(const BackupMaker::Made& made) {
  v1::BackupInfo info;
  info.set_folder(made.folder);
  info.set_bytes(made.manifest.bytes());
  info.set_term(made.manifest.term);
  info.set_finished_ms(absl::ToUnixMillis(made.manifest.finished));
  info.set_took_seconds(absl::ToDoubleSeconds(made.manifest.took));
  return info;
}

}  // namespace

grpc::ServerUnaryReactor* AdminService::Backup(grpc::CallbackServerContext* context,
                                               const v1::BackupRequest*,
                                               v1::BackupResponse* response) {
  auto* call = new UnaryCall(gate_, "Backup");
  absl::Status allowed = call->Enter(*context, "AdminService/Backup");
  if (allowed.ok() && maker_ == nullptr) {
    allowed = absl::FailedPreconditionError(
        "this controller has no folder for backups: start musterd with --backup-dir DIR, on "
        "another disk than its --data-dir");
  }
  if (!allowed.ok()) {
    call->Done(allowed);
    return call;
  }
  maker_->Ask([call, response](const absl::StatusOr<BackupMaker::Made>& made) {
    if (made.ok()) {
      *response->mutable_backup() = InfoOf(*made);
      call->Changes("", absl::StrCat("backup ", made->folder));
    }
    call->Done(made.status());
  });
  return call;
}

grpc::ServerUnaryReactor* AdminService::GetAdminStatus(grpc::CallbackServerContext* context,
                                                       const v1::GetAdminStatusRequest*,
                                                       v1::GetAdminStatusResponse* response) {
  auto* call = new UnaryCall(gate_, "GetAdminStatus");
  const absl::Status allowed = call->Enter(*context, "AdminService/GetAdminStatus");
  if (allowed.ok()) {
    response->set_held(engine_.held());
    if (maker_ != nullptr) {
      response->set_backup_dir(maker_->options().backup_dir);
      if (const auto newest = maker_->newest(); newest.has_value()) {
        *response->mutable_last_backup() = InfoOf(*newest);
      }
      response->set_last_error(std::string(maker_->last_error().message()));
    }
  }
  call->Done(allowed);
  return call;
}

}  // namespace muster::controller
