#include "common/object_store/folder_page.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_replace.h"

namespace muster {
namespace {

constexpr size_t kMaxEntries = 1'000'000;
constexpr size_t kMaxNameBytes = 4096;

// [{"name": ..., "type": "file" or "directory", "size": ...}, ...], without a tree in memory.
class FolderPageSax final : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::vector<FileInfo> files;
  std::string wrong;  // why it is no such list

  bool start_array(std::size_t) override {
    return depth_++ == 0 || Fail("an array in an entry of the list");
  }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool start_object(std::size_t) override {
    if (depth_++ != 1) return Fail("it is no list of entries");
    entry_ = {};
    type_.clear();
    return true;
  }
  bool end_object() override {
    --depth_;
    return TakeEntry();
  }
  bool key(std::string& name) override {
    key_ = name;
    return true;
  }
  bool string(std::string& value) override {
    if (depth_ != 2) return Fail("it is no list of entries");
    if (key_ == "name") entry_.name = value;
    if (key_ == "type") type_ = value;
    return true;
  }
  bool number_unsigned(uint64_t value) override {
    if (depth_ != 2) return Fail("it is no list of entries");
    if (key_ == "size") entry_.size_bytes = value;
    return true;
  }
  bool null() override { return IsIgnored(); }
  bool boolean(bool) override { return IsIgnored(); }
  bool number_integer(int64_t) override { return IsIgnored(); }
  bool number_float(double, const std::string&) override { return IsIgnored(); }
  bool binary(nlohmann::json::binary_t&) override { return IsIgnored(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) override {
    return Fail("it is no JSON");
  }

 private:
  bool Fail(const char* why) {
    if (wrong.empty()) wrong = why;
    return false;
  }

  bool IsIgnored() {
    if (depth_ != 2 || key_ == "name" || key_ == "type" || key_ == "size") {
      return Fail("an entry has a name, a type or a size of another kind");
    }
    return true;
  }

  bool TakeEntry() {
    const std::string& name = entry_.name;
    const bool is_name = !name.empty() && name != "." && name != ".." &&
                         name.size() <= kMaxNameBytes &&
                         std::none_of(name.begin(), name.end(), [](char c) {
                           return c == '/' || absl::ascii_iscntrl(static_cast<unsigned char>(c));
                         });
    if (!is_name) return Fail("an entry's name is none of a file");
    if (files.size() >= kMaxEntries) return Fail("it has more than a million entries");
    entry_.is_directory = type_ == "directory";
    if (!entry_.is_directory && type_ != "file") return true;  // sockets and the like
    entry_.name = absl::StrReplaceAll(name, {{"%", "%25"}, {"?", "%3F"}, {"#", "%23"}});
    files.push_back(std::move(entry_));
    return true;
  }

  int depth_ = 0;
  std::string key_;
  std::string type_;
  FileInfo entry_;
};

}  // namespace

absl::StatusOr<std::vector<FileInfo>> ParseFolderPage(absl::string_view json) {
  FolderPageSax sax;
  if (!nlohmann::json::sax_parse(json.begin(), json.end(), &sax) || !sax.wrong.empty()) {
    return absl::InvalidArgumentError(sax.wrong.empty() ? "it is no JSON" : sax.wrong);
  }
  std::sort(sax.files.begin(), sax.files.end(),
            [](const FileInfo& a, const FileInfo& b) { return a.name < b.name; });
  return std::move(sax.files);
}

}  // namespace muster
