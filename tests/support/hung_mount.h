// A mount whose server never answers, as NFS whose server is gone: whoever touches a path in it
// waits in the kernel, until it is released. It is FUSE without a server, so it needs the right to
// mount.
#pragma once

#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/unique_fd.h"

namespace muster::testing {

class HungMount {
 public:
  // At `path`, which is made. Null: nothing can be mounted here.
  static std::unique_ptr<HungMount> Make(const std::string& path) {
    std::filesystem::create_directories(path);
    std::unique_ptr<HungMount> mount(new HungMount(path));
    mount->server_ = UniqueFd(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
    if (!mount->server_.valid()) return nullptr;
    const std::string options =
        absl::StrCat("fd=", mount->server_.get(), ",rootmode=40000,user_id=0,group_id=0");
    mount->mounted_ = ::mount("hung", path.c_str(), "fuse", 0, options.c_str()) == 0;
    return mount->mounted_ ? std::move(mount) : nullptr;
  }
  ~HungMount() { Release(); }

  // Ends all waiting by errors.
  void Release() {
    server_.Reset();
    if (std::exchange(mounted_, false)) ::umount2(path_.c_str(), MNT_DETACH);
  }

 private:
  explicit HungMount(std::string path) : path_(std::move(path)) {}

  const std::string path_;
  UniqueFd server_;
  bool mounted_ = false;
};

}  // namespace muster::testing
