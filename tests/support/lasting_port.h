// Ports for programs that a test ends and starts again in the same place.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"

namespace muster::testing {

// "127.0.0.1:PORT" where nobody listens now, and which the kernel gives to no connection of others
// while the program is away, as it may the ports that it picks itself.
inline std::string LastingAddress() {
  int first_picked = 32768;
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> first_picked;
  std::random_device random;
  std::uniform_int_distribution<int> ports(10000, first_picked - 1);
  for (;;) {
    const int port = ports(random);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
    address.sin_port = ::htons(static_cast<uint16_t>(port));
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool free = ::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    ::close(fd);
    if (free) return absl::StrCat("127.0.0.1:", port);
  }
}

}  // namespace muster::testing
