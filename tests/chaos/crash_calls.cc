// Makes one of the calls that a crash sweep counts, by its name, in the folder that it is started
// in; crash_counter_test runs it under the counter. The folder holds "old" (a file of some bytes)
// and "dir" (an empty folder). Exits with 0 when the call did what it does.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <map>
#include <string>

namespace {

int Old() { return ::open("old", O_RDWR); }
int Socket() {
  int ends[2] = {-1, -1};
  ::socketpair(AF_UNIX, SOCK_DGRAM, 0, ends);
  return ends[0];
}

}  // namespace

int main(int argc, char** argv) {
  const std::string name = argc == 2 ? argv[1] : "";
  char byte = 'x';
  iovec part = {&byte, 1};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  mmsghdr messages = {message, 0};
  const std::map<std::string, std::function<bool()>> calls = {
      {"write", [&] { return ::write(Old(), &byte, 1) == 1; }},
      {"pwrite", [&] { return ::pwrite(Old(), &byte, 1, 0) == 1; }},
      {"writev", [&] { return ::writev(Old(), &part, 1) == 1; }},
      {"pwritev", [&] { return ::pwritev(Old(), &part, 1, 0) == 1; }},
      {"pwritev2", [&] { return ::pwritev2(Old(), &part, 1, 0, 0) == 1; }},
      {"fsync", [&] { return ::fsync(Old()) == 0; }},
      {"fdatasync", [&] { return ::fdatasync(Old()) == 0; }},
      {"ftruncate", [&] { return ::ftruncate(Old(), 1) == 0; }},
      {"truncate", [&] { return ::truncate("old", 1) == 0; }},
      // Not every file system has it.
      {"fallocate", [&] { return ::fallocate(Old(), 0, 0, 100) == 0 || errno == EOPNOTSUPP; }},
      {"open", [&] { return ::open("new", O_WRONLY | O_CREAT | O_EXCL, 0600) >= 0; }},
      {"openat", [&] { return ::openat(AT_FDCWD, "new", O_WRONLY | O_CREAT, 0600) >= 0; }},
      {"mkdir", [&] { return ::mkdir("new", 0700) == 0; }},
      {"mkdirat", [&] { return ::mkdirat(AT_FDCWD, "new", 0700) == 0; }},
      {"rmdir", [&] { return ::rmdir("dir") == 0; }},
      {"link", [&] { return ::link("old", "new") == 0; }},
      {"linkat", [&] { return ::linkat(AT_FDCWD, "old", AT_FDCWD, "new", 0) == 0; }},
      {"symlink", [&] { return ::symlink("old", "new") == 0; }},
      {"rename", [&] { return ::rename("old", "new") == 0; }},
      {"renameat", [&] { return ::renameat(AT_FDCWD, "old", AT_FDCWD, "new") == 0; }},
      {"renameat2", [&] { return ::renameat2(AT_FDCWD, "old", AT_FDCWD, "new", 0) == 0; }},
      {"unlink", [&] { return ::unlink("old") == 0; }},
      {"unlinkat", [&] { return ::unlinkat(AT_FDCWD, "old", 0) == 0; }},
      {"copy_file_range",
       [&] { return ::copy_file_range(Old(), nullptr, Old(), nullptr, 0, 0) == 0; }},
      {"sendfile", [&] { return ::sendfile(Old(), Old(), nullptr, 0) == 0; }},
      {"send", [&] { return ::send(Socket(), &byte, 1, 0) == 1; }},
      {"sendto", [&] { return ::sendto(Socket(), &byte, 1, 0, nullptr, 0) == 1; }},
      {"sendmsg", [&] { return ::sendmsg(Socket(), &message, 0) == 1; }},
      {"sendmmsg", [&] { return ::sendmmsg(Socket(), &messages, 1, 0) == 1; }},
  };
  const auto call = calls.find(name);
  if (call == calls.end()) {
    ::fprintf(stderr, "crash_calls: does not know %s\n", name.c_str());
    return 2;
  }
  if (call->second()) return 0;
  ::fprintf(stderr, "crash_calls: %s: %s\n", name.c_str(), ::strerror(errno));
  return 1;
}
