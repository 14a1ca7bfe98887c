// A CA and what it signs, as files in a folder.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/tls/certificate_authority.h"
#include "common/tls/tls_files.h"

namespace muster::testing {

class TestCertificates {
 public:
  explicit TestCertificates(std::string folder) : folder_(std::move(folder)) {
    Write(folder_ + "/ca.pem", authority_.certificate());
  }

  TlsFiles OfServer(const std::string& name = "server",
                    std::vector<std::string> hosts = {"localhost", "127.0.0.1"}) {
    return Sign(name, {name, std::move(hosts), CertificateSubject::Use::kServer});
  }
  TlsFiles OfWorker(const std::string& name, absl::Time now = absl::Now(),
                    absl::Duration lifetime = absl::Hours(24)) {
    return Sign(name, {.name = name}, now, lifetime);
  }
  // `stem`: of the files' names; what was there is replaced.
  TlsFiles Sign(const std::string& stem, const CertificateSubject& subject,
                absl::Time now = absl::Now(), absl::Duration lifetime = absl::Hours(24)) {
    const std::string key = *MakePrivateKey();
    const auto certificate = authority_.Sign(*MakeSigningRequest(key), subject, now, lifetime);
    EXPECT_TRUE(certificate.ok()) << certificate.status();
    TlsFiles files{folder_ + "/ca.pem", absl::StrCat(folder_, "/", stem, ".pem"),
                   absl::StrCat(folder_, "/", stem, ".key")};
    Write(files.key, key);
    Write(files.cert, *certificate);
    return files;
  }
  const CertificateAuthority& authority() const { return authority_; }

  static void Write(const std::string& path, const std::string& text) {
    std::ofstream(path + ".new") << text;
    ::chmod((path + ".new").c_str(), 0600);
    ASSERT_EQ(::rename((path + ".new").c_str(), path.c_str()), 0) << path;
  }

 private:
  const std::string folder_;
  const CertificateAuthority authority_ =
      *CertificateAuthority::Make("test-ca", absl::Now(), absl::Hours(24 * 30));
};

}  // namespace muster::testing
