// What the benchmarks start as a job's process: sends the moment of its main() (steady clock, in
// nanoseconds, which all processes of a machine share) to a Unix datagram socket and ends. Links
// nothing, so that its own start costs next to nothing.
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

int main(int argc, char** argv) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  if (argc != 2) return 2;
  struct sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (strlen(argv[1]) >= sizeof(address.sun_path)) return 2;
  strcpy(address.sun_path, argv[1]);
  char text[32];
  const int size = snprintf(text, sizeof(text), "%lld",
                            static_cast<long long>(now.tv_sec) * 1000000000ll + now.tv_nsec);
  const int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
  const bool sent =
      fd >= 0 && sendto(fd, text, size, 0, reinterpret_cast<struct sockaddr*>(&address),
                        sizeof(address)) == size;
  return sent ? 0 : 1;
}
