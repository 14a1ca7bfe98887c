// Maps, lists and times as they stand in the columns of state.db. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "controller/model/types/worker_types.h"
#include "controller/store/sqlite.h"

namespace muster::controller {

std::string EncodeTexts(const std::map<std::string, std::string>& texts);
std::string EncodeNumbers(
    const std::map<std::string, double>& numbers);  // what is not finite becomes null
std::string EncodeIds(const std::vector<uint64_t>& ids);
std::string EncodeHexList(const std::vector<std::string>& blobs);
std::string EncodeSlots(const std::vector<Slot>& slots);
std::string EncodeWorkerFailures(const std::vector<WorkerFailure>& failures);
std::string EncodeCharged(const std::map<FailureClass, uint32_t>& charged);

// DATA_LOSS for anything that the encoder cannot have written.
absl::StatusOr<std::map<std::string, std::string>> DecodeTexts(absl::string_view json);
absl::StatusOr<std::map<std::string, double>> DecodeNumbers(absl::string_view json);
absl::StatusOr<std::vector<uint64_t>> DecodeIds(absl::string_view json);
absl::StatusOr<std::vector<std::string>> DecodeHexList(absl::string_view json);
absl::StatusOr<std::vector<Slot>> DecodeSlots(absl::string_view json);
absl::StatusOr<std::vector<WorkerFailure>> DecodeWorkerFailures(absl::string_view json);
absl::StatusOr<std::map<FailureClass, uint32_t>> DecodeCharged(absl::string_view json);

// What people and programs said. An older Muster may have cut it inside a character.
std::string FreeText(const SqliteStatement& row, int column);

// Infinite times are NULL in the table.
void BindTime(SqliteStatement& statement, absl::Time time);
absl::Time ReadTime(const SqliteStatement& statement, int column, absl::Time when_null);
// Likewise, to the nanosecond.
void BindNanos(SqliteStatement& statement, absl::Time time);
absl::Time ReadNanos(const SqliteStatement& statement, int column, absl::Time when_null);

}  // namespace muster::controller
