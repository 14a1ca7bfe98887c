// The only program of the tests' container image: static, and it does what its words say, one after
// the other. Prints what it sees, so that a test can compare it.
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace {

volatile sig_atomic_t asked = 0;
void OnTerm(int) { asked = 1; }

bool Is(const char* word, const char* name, const char** rest) {
  const size_t length = ::strlen(name);
  if (::strncmp(word, name, length) != 0) return false;
  *rest = word + length;
  return true;
}

const char* Variable(const char* name) {
  const char* value = ::getenv(name);
  return value == nullptr ? "(none)" : value;
}

void Print(const char* name) { ::printf("%s=%s\n", name, Variable(name)); }

void PrintFirstLine(const char* path) {
  char line[256] = {};
  FILE* file = ::fopen(path, "r");
  if (file == nullptr || ::fgets(line, sizeof line, file) == nullptr) {
    ::printf("cannot read %s: %s\n", path, ::strerror(errno));
  } else {
    ::fputs(line, stdout);
  }
  if (file != nullptr) ::fclose(file);
}

void WriteFile(const char* variable) {
  char path[4096];
  ::snprintf(path, sizeof path, "%s/probe", Variable(variable));
  FILE* file = ::fopen(path, "w");
  ::printf("write %s\n", file == nullptr ? ::strerror(errno) : "done");
  if (file != nullptr) ::fclose(file);
}

void Report() {
  constexpr char kLine[] = "{\"type\":\"metrics\",\"step\":7,\"values\":{\"loss\":0.5}}\n";
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  ::snprintf(address.sun_path, sizeof address.sun_path, "%s", Variable("MUSTER_SOCKET"));
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  char answer[256] = {};
  const bool good =
      ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      ::send(fd, kLine, sizeof kLine - 1, 0) > 0 && ::recv(fd, answer, sizeof answer - 1, 0) > 0 &&
      ::strstr(answer, "ack") != nullptr;
  ::printf("report %s\n", good ? "acked" : ::strerror(errno));
  ::close(fd);
}

// A process that nothing but the container's border holds: a session and an environment of its own.
void LeaveOneBehind() {
  const pid_t pid = ::fork();
  if (pid != 0) return;
  ::setsid();
  ::signal(SIGTERM, SIG_IGN);
  char name[] = "/muster-test-program";
  char word[] = "hang";
  char* argv[] = {name, word, nullptr};
  char* envp[] = {nullptr};
  ::execve(name, argv, envp);
  ::_exit(1);
}

void Hold(const char* mebibytes) {
  const size_t bytes = static_cast<size_t>(::atol(mebibytes)) << 20;
  char* memory = static_cast<char*>(::malloc(bytes));
  if (memory != nullptr) ::memset(memory, 1, bytes);
  ::printf("held %p\n", static_cast<void*>(memory));
}

void Do(const char* word) {
  const char* rest = nullptr;
  if (Is(word, "print:", &rest)) return Print(rest);
  if (Is(word, "cat:", &rest)) return PrintFirstLine(rest);
  if (Is(word, "write:", &rest)) return WriteFile(rest);
  if (Is(word, "hold:", &rest)) return Hold(rest);
  if (Is(word, "report", &rest)) return Report();
  if (Is(word, "leave", &rest)) return LeaveOneBehind();
  if (Is(word, "say:", &rest)) return static_cast<void>(::puts(rest));
  if (Is(word, "cwd", &rest)) {
    char path[4096];
    ::printf("cwd %s\n", ::getcwd(path, sizeof path));
    return;
  }
  if (Is(word, "await_term", &rest)) {
    struct sigaction action = {};
    action.sa_handler = OnTerm;
    ::sigaction(SIGTERM, &action, nullptr);
    ::puts("waiting");
    ::fflush(stdout);
    while (asked == 0) ::usleep(10'000);
    ::puts("asked");
    return;
  }
  if (Is(word, "hang", &rest)) {
    while (true) ::pause();
  }
  if (Is(word, "die:", &rest)) ::raise(::atoi(rest));
  if (Is(word, "exit:", &rest)) {
    ::fflush(stdout);
    ::_exit(::atoi(rest));
  }
  ::fprintf(stderr, "no such word: %s\n", word);
  ::exit(99);
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    Do(argv[i]);
    ::fflush(stdout);
  }
  return 0;
}
