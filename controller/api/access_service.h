// What people ask about who may do what (access_service.proto), on gRPC's callback API: check,
// call, convert. Decides nothing.
#pragma once

#include <string>

#include "controller/access/access_control.h"
#include "controller/api/calls/service_call.h"
#include "muster/v1/access_service.grpc.pb.h"

namespace muster::controller {

class AccessService final : public v1::AccessService::CallbackService {
 public:
  // Both references outlive the service. `controller_id`: in hex.
  AccessService(AccessControl& access, CallGate& gate, std::string controller_id)
      : access_(access), gate_(gate), controller_id_(std::move(controller_id)) {}

  grpc::ServerUnaryReactor* WhoAmI(grpc::CallbackServerContext* context,
                                   const v1::WhoAmIRequest* request,
                                   v1::WhoAmIResponse* response) override;
  grpc::ServerUnaryReactor* ListUsers(grpc::CallbackServerContext* context,
                                      const v1::ListUsersRequest* request,
                                      v1::ListUsersResponse* response) override;
  grpc::ServerUnaryReactor* AddUser(grpc::CallbackServerContext* context,
                                    const v1::AddUserRequest* request,
                                    v1::AddUserResponse* response) override;
  grpc::ServerUnaryReactor* RemoveUser(grpc::CallbackServerContext* context,
                                       const v1::RemoveUserRequest* request,
                                       v1::RemoveUserResponse* response) override;
  grpc::ServerUnaryReactor* GrantRole(grpc::CallbackServerContext* context,
                                      const v1::GrantRoleRequest* request,
                                      v1::GrantRoleResponse* response) override;
  grpc::ServerUnaryReactor* RevokeRole(grpc::CallbackServerContext* context,
                                       const v1::RevokeRoleRequest* request,
                                       v1::RevokeRoleResponse* response) override;
  grpc::ServerUnaryReactor* CreateToken(grpc::CallbackServerContext* context,
                                        const v1::CreateTokenRequest* request,
                                        v1::CreateTokenResponse* response) override;
  grpc::ServerUnaryReactor* ListTokens(grpc::CallbackServerContext* context,
                                       const v1::ListTokensRequest* request,
                                       v1::ListTokensResponse* response) override;
  grpc::ServerUnaryReactor* RevokeToken(grpc::CallbackServerContext* context,
                                        const v1::RevokeTokenRequest* request,
                                        v1::RevokeTokenResponse* response) override;
  grpc::ServerUnaryReactor* ListAudit(grpc::CallbackServerContext* context,
                                      const v1::ListAuditRequest* request,
                                      v1::ListAuditResponse* response) override;
  grpc::ServerUnaryReactor* VerifyAudit(grpc::CallbackServerContext* context,
                                        const v1::VerifyAuditRequest* request,
                                        v1::VerifyAuditResponse* response) override;

 private:
  // Makes the change, with its row of the record, and ends the call with its outcome.
  void Change(UnaryCall* call, AccessControl::Edit edit, const std::string& project,
              const std::string& object);
  // Whether the call's caller may give and take roles in the project.
  absl::Status MayGiveRoles(const UnaryCall& call, const std::string& project,
                            const std::string& object);
  absl::Status FillTokens(const Caller& caller, const v1::ListTokensRequest& request,
                          v1::ListTokensResponse& response);

  AccessControl& access_;
  CallGate& gate_;
  const std::string controller_id_;
};

}  // namespace muster::controller
