// A KeyValue over a folder, with what shared memory and Gloo call: for tests and benchmarks whose
// ranks are processes. A key is a file, renamed into place.
#pragma once

#include <sched.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "worker/dist/base/key_value.h"

namespace muster::testing {

class FolderKeyValue final : public worker::KeyValue {
 public:
  explicit FolderKeyValue(std::string folder) : folder_(std::move(folder)) {}

  absl::Status Set(const std::string& key, const std::string& value) override {
    const std::string path = Path(key);
    std::ofstream(path + ".new") << value;
    std::filesystem::rename(path + ".new", path);
    return absl::OkStatus();
  }
  absl::StatusOr<std::string> Get(const std::string& key, absl::Duration timeout) override {
    const absl::Time deadline = absl::Now() + timeout;
    while (!std::filesystem::exists(Path(key))) {
      if (absl::Now() > deadline) return absl::DeadlineExceededError(key);
      ::sched_yield();
    }
    std::stringstream value;
    value << std::ifstream(Path(key)).rdbuf();
    return value.str();
  }
  absl::StatusOr<int64_t> Add(const std::string&, int64_t) override { return Unused(); }
  absl::StatusOr<bool> Check(const std::vector<std::string>&) override { return Unused(); }
  absl::StatusOr<bool> Delete(const std::string&) override { return Unused(); }
  absl::Status Wait(const std::vector<std::string>& keys, absl::Duration timeout) override {
    for (const std::string& key : keys) {
      const absl::Status came = Get(key, timeout).status();
      if (!came.ok()) return came;
    }
    return absl::OkStatus();
  }
  absl::StatusOr<int64_t> Count() override { return Unused(); }

 private:
  static absl::Status Unused() { return absl::UnimplementedError("no test needs it"); }
  std::string Path(const std::string& key) const {
    return absl::StrCat(folder_, "/", absl::StrReplaceAll(key, {{"/", "-"}}));
  }
  const std::string folder_;
};

}  // namespace muster::testing
