// gRPC handlers of AdminService, on the people's port: backups, and why a restored controller is
// held.
#pragma once

#include "controller/api/calls/service_call.h"
#include "controller/backup/backup_maker.h"
#include "controller/engine/engine.h"
#include "muster/v1/admin_service.grpc.pb.h"

namespace muster::controller {

class AdminService final : public v1::AdminService::CallbackService {
 public:
  // `maker`: null: no backups are made. All references outlive the service.
  AdminService(BackupMaker* maker, const Engine& engine, CallGate& gate)
      : maker_(maker), engine_(engine), gate_(gate) {}

  grpc::ServerUnaryReactor* Backup(grpc::CallbackServerContext* context,
                                   const v1::BackupRequest* request,
                                   v1::BackupResponse* response) override;
  grpc::ServerUnaryReactor* GetAdminStatus(grpc::CallbackServerContext* context,
                                           const v1::GetAdminStatusRequest* request,
                                           v1::GetAdminStatusResponse* response) override;

 private:
  BackupMaker* const maker_;
  const Engine& engine_;
  CallGate& gate_;
};

}  // namespace muster::controller
