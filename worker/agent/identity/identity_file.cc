#include "worker/agent/identity/identity_file.h"

#include <optional>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/log.h"

namespace muster::worker {
namespace {

constexpr uint64_t kMaxIdentityBytes = 64 << 10;

std::optional<IdentityRecord> Read(FileSystem& fs, const std::string& path) {
  const absl::StatusOr<std::string> text = fs.ReadFile(path, kMaxIdentityBytes);
  if (absl::IsNotFound(text.status())) return std::nullopt;
  absl::StatusOr<IdentityRecord> record =
      text.ok() ? DecodeIdentity(*text) : absl::StatusOr<IdentityRecord>(text.status());
  if (record.ok()) return *std::move(record);
  Log(LogLevel::kWarning, "identity_unreadable",
      {{"path", path}, {"error", record.status().ToString()}});
  return std::nullopt;
}

}  // namespace

IdentityFile IdentityFile::Begin(FileSystem& fs, const std::string& data_dir,
                                 const Surroundings& here, const std::string& incarnation,
                                 const std::string& fresh) {
  const std::string path = absl::StrCat(data_dir, "/identity.json");
  const std::optional<IdentityRecord> before = Read(fs, path);
  BegunLife begun = BeginLife(before, here, incarnation, fresh);
  if (before.has_value() && begun.is_new_identity) {
    Log(LogLevel::kWarning, "identity_renewed",
        {{"reason", "the data folder was another machine's"},
         {"data_dir", data_dir},
         {"identity", absl::BytesToHexString(begun.record.identity)}});
  }
  IdentityFile file(fs, path, std::move(begun));
  file.Write();
  return file;
}

void IdentityFile::OnWelcome(const KnownController& controller) {
  const IdentityRecord before = record_;
  NoteWelcome(controller, record_);
  if (record_ != before) Write();
}

void IdentityFile::Write() const {
  const absl::Status written = WriteFileAtomically(*fs_, path_, EncodeIdentity(record_), 0600);
  if (written.ok()) return;
  Log(LogLevel::kWarning, "identity_not_written", {{"path", path_}, {"error", written.ToString()}});
}

}  // namespace muster::worker
