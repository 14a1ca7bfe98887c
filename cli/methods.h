// The controller's methods that the CLI calls: what gRPC's generated stubs would say. A test
// compares each with the protocol's own description.
#pragma once

#include "common/call/call.h"
#include "muster/v1/job_service.pb.h"
#include "muster/v1/upload_service.pb.h"

namespace muster::cli::rpc {

inline constexpr bool kOnlyReads = true;

inline constexpr Method<v1::GetVersionRequest, v1::GetVersionResponse> kGetVersion{
    "/muster.v1.JobService/GetVersion", kOnlyReads};
inline constexpr Method<v1::SubmitRequest, v1::SubmitResponse> kSubmit{
    "/muster.v1.JobService/Submit"};
inline constexpr Method<v1::ListJobsRequest, v1::ListJobsResponse> kListJobs{
    "/muster.v1.JobService/ListJobs", kOnlyReads};
inline constexpr Method<v1::GetJobRequest, v1::GetJobResponse> kGetJob{
    "/muster.v1.JobService/GetJob", kOnlyReads};
inline constexpr Method<v1::CancelJobRequest, v1::CancelJobResponse> kCancelJob{
    "/muster.v1.JobService/CancelJob"};
inline constexpr Method<v1::ControlJobRequest, v1::ControlJobResponse> kControlJob{
    "/muster.v1.JobService/ControlJob"};
inline constexpr Method<v1::UpdateJobRequest, v1::UpdateJobResponse> kUpdateJob{
    "/muster.v1.JobService/UpdateJob"};
inline constexpr Method<v1::WatchJobRequest, v1::WatchJobResponse> kWatchJob{
    "/muster.v1.JobService/WatchJob"};
inline constexpr Method<v1::StreamEventsRequest, v1::StreamEventsResponse> kStreamEvents{
    "/muster.v1.JobService/StreamEvents"};
inline constexpr Method<v1::StreamLogsRequest, v1::StreamLogsResponse> kStreamLogs{
    "/muster.v1.JobService/StreamLogs"};
inline constexpr Method<v1::QueryMetricsRequest, v1::QueryMetricsResponse> kQueryMetrics{
    "/muster.v1.JobService/QueryMetrics", kOnlyReads};
inline constexpr Method<v1::ListCheckpointsRequest, v1::ListCheckpointsResponse> kListCheckpoints{
    "/muster.v1.JobService/ListCheckpoints", kOnlyReads};
inline constexpr Method<v1::GetCheckpointRequest, v1::GetCheckpointResponse> kGetCheckpoint{
    "/muster.v1.JobService/GetCheckpoint", kOnlyReads};
inline constexpr Method<v1::VerifyCheckpointRequest, v1::VerifyCheckpointResponse>
    kVerifyCheckpoint{"/muster.v1.JobService/VerifyCheckpoint"};
inline constexpr Method<v1::ListWorkersRequest, v1::ListWorkersResponse> kListWorkers{
    "/muster.v1.JobService/ListWorkers", kOnlyReads};
inline constexpr Method<v1::CordonWorkerRequest, v1::CordonWorkerResponse> kCordonWorker{
    "/muster.v1.JobService/CordonWorker"};
inline constexpr Method<v1::ForgetWorkerRequest, v1::ForgetWorkerResponse> kForgetWorker{
    "/muster.v1.JobService/ForgetWorker"};
inline constexpr Method<v1::ListProjectsRequest, v1::ListProjectsResponse> kListProjects{
    "/muster.v1.JobService/ListProjects", kOnlyReads};
inline constexpr Method<v1::SetProjectRequest, v1::SetProjectResponse> kSetProject{
    "/muster.v1.JobService/SetProject"};
inline constexpr Method<v1::GetGoodputRequest, v1::GetGoodputResponse> kGetGoodput{
    "/muster.v1.JobService/GetGoodput", kOnlyReads};
inline constexpr Method<v1::ExplainJobRequest, v1::ExplainJobResponse> kExplainJob{
    "/muster.v1.JobService/ExplainJob", kOnlyReads};
inline constexpr Method<v1::FindUploadRequest, v1::FindUploadResponse> kFindUpload{
    "/muster.v1.UploadService/Find", kOnlyReads};
inline constexpr Method<v1::UploadRequest, v1::UploadResponse> kUpload{
    "/muster.v1.UploadService/Upload"};

}  // namespace muster::cli::rpc
