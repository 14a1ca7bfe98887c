#include "cli/upload.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "cli/change.h"
#include "common/base/status_macros.h"
#include "common/base/units.h"
#include "common/rpc/channel.h"
#include "muster/v1/upload_service.grpc.pb.h"

namespace muster::cli {
namespace {

constexpr size_t kPieceBytes = 256 << 10;
// Of 64 MiB over a slow line.
constexpr absl::Duration kUploadTimeout = absl::Minutes(10);

absl::StatusOr<bool> IsThere(const PackedFolder& folder, v1::UploadService::Stub& stub,
                             Client& client, absl::Duration timeout) {
  grpc::ClientContext context;
  client.Prepare(context, timeout);
  v1::FindUploadRequest request;
  request.set_sha256(folder.sha256);
  v1::FindUploadResponse response;
  const grpc::Status status = stub.Find(&context, request, &response);
  if (!status.ok()) return client.Explain(status, timeout);
  return response.found();
}

absl::Status Send(const PackedFolder& folder, v1::UploadService::Stub& stub, Client& client,
                  absl::Duration timeout) {
  grpc::ClientContext context;
  client.Prepare(context, timeout);
  v1::UploadResponse response;
  const auto stream = stub.Upload(&context, &response);
  v1::UploadRequest piece;
  piece.set_sha256(folder.sha256);
  piece.set_bytes(folder.archive.size());
  const absl::string_view archive = folder.archive;
  for (size_t at = 0; at < archive.size(); at += kPieceBytes) {
    const absl::string_view data = archive.substr(at, kPieceBytes);
    piece.set_data(data.data(), data.size());
    // What ended the call early, Finish tells.
    if (!stream->Write(piece)) break;
    piece.Clear();
  }
  stream->WritesDone();
  const grpc::Status status = stream->Finish();
  return status.ok() ? absl::OkStatus() : client.Explain(status, timeout);
}

}  // namespace

absl::Status SendUpload(const PackedFolder& folder, Session& session) {
  MUSTER_ASSIGN_OR_RETURN(Client * client, session.Connect());
  const auto stub = v1::UploadService::NewStub(MakeChannel({.address = client->address()}));
  Patience patience(session);
  while (true) {
    absl::StatusOr<bool> there = IsThere(folder, *stub, *client, patience.left());
    absl::Status status = there.status();
    if (there.ok() && *there) return absl::OkStatus();
    if (there.ok()) {
      session.Say(absl::StrCat("uploading ", folder.entries, " files and folders, ",
                               HumanBytes(folder.archive.size())));
      status = Send(folder, *stub, *client, session.timeout(kUploadTimeout));
    }
    if (status.ok() || !patience.Again(status)) return status;
  }
}

}  // namespace muster::cli
