// A real musterd with TLS, as docs/SECURITY.md sets it up: a CA, a certificate and a configuration
// by `musterd init`, ports of the system's choice on loopback, unless flags say otherwise. The
// destructor ends it.
//
// One thread. Where something is not as it should be a test fails.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/support/cluster.h"
#include "tests/support/subprocess.h"
#include "tests/support/temp_dir.h"

namespace muster::testing {

class TlsMusterd {
 public:
  // Makes the folder; starts nothing.
  TlsMusterd();
  ~TlsMusterd();

  // `before`: words in front of the command line (prlimit, faketime); `flags`: more of musterd's.
  void Start(const std::vector<std::string>& flags = {}, std::vector<std::string> before = {});
  void Stop();

  // The certificate of a worker of this name, in the folder Path(name).
  void Certify(const std::string& name);
  // An agent called `name` with the certificate in Path(certified), whose log is Path(name).log.
  // `before` as of Start.
  std::unique_ptr<Subprocess> StartAgent(const std::string& name, const std::string& certified,
                                         const std::vector<std::string>& flags = {},
                                         std::vector<std::string> before = {});

  // `muster WORDS` with the administrator's token, or with that in the file.
  ProcessResult Cli(std::vector<std::string> words, const std::string& token_file = "");
  // The output of the same with `-o json`.
  Json CliJson(std::vector<std::string> words);
  // Whether the controller has a worker of this name that is ready.
  bool IsReady(const std::string& worker);
  // `musterd WORDS`.
  ProcessResult Musterd(std::vector<std::string> words);
  // Adds a user with the role in the project; gives the file with their token.
  std::string AddUser(const std::string& user, const std::string& project, const std::string& role);

  std::string Path(const std::string& name) const { return dir_ / name; }
  std::string Folder() const { return dir_ / "controller"; }  // musterd's data
  std::string Read(const std::string& path) const;            // the whole file
  std::string Log(const std::string& name = "musterd") const { return Read(Path(name + ".log")); }
  // "grpc", "worker", "http".
  std::string Address(const std::string& port) const;
  int Port(const std::string& port) const;
  pid_t pid() const { return musterd_->pid(); }
  const Environment& environment() const { return environment_; }

 private:
  TempDir dir_;
  Environment environment_;
  std::unique_ptr<Subprocess> musterd_;
  Json endpoints_;
};

}  // namespace muster::testing
