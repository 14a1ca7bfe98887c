// Every service that is declared in proto/muster/v1, whatever files there are: a test that walks
// them leaves none out.
#pragma once

#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "muster/v1/access_service.pb.h"
#include "muster/v1/admin_service.pb.h"
#include "muster/v1/enroll_service.pb.h"
#include "muster/v1/exec_service.pb.h"
#include "muster/v1/job_service.pb.h"
#include "muster/v1/page_service.pb.h"
#include "muster/v1/upload_service.pb.h"
#include "muster/v1/worker_service.pb.h"

namespace muster::testing {

// A test failure where a file is not linked into the test: name it here.
inline std::vector<const google::protobuf::ServiceDescriptor*> DeclaredServices() {
  // So that all files are linked in.
  (void)v1::WhoAmIRequest::descriptor();
  (void)v1::BackupRequest::descriptor();
  (void)v1::EnrollRequest::descriptor();
  (void)v1::ExecRequest::descriptor();
  (void)v1::SubmitRequest::descriptor();
  (void)v1::FindJobsRequest::descriptor();
  (void)v1::UploadRequest::descriptor();
  (void)v1::WorkerMessage::descriptor();
  const char* root = ::getenv("MUSTER_SOURCE_DIR");
  EXPECT_NE(root, nullptr) << "MUSTER_SOURCE_DIR says where proto/ is";
  std::vector<const google::protobuf::ServiceDescriptor*> services;
  if (root == nullptr) return services;
  std::vector<std::string> names;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(root) + "/proto/muster/v1")) {
    names.push_back("muster/v1/" + entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    const auto* file = google::protobuf::DescriptorPool::generated_pool()->FindFileByName(name);
    EXPECT_NE(file, nullptr) << name << " is not linked into this test";
    for (int s = 0; file != nullptr && s < file->service_count(); ++s) {
      services.push_back(file->service(s));
    }
  }
  return services;
}

}  // namespace muster::testing
