// Aliases in the controller's namespace for the interface of sessions and clusters (pathways/session).
#pragma once

#include "pathways/controller/reports.h"
#include "pathways/session/session.h"

namespace pw::controller {

using session::Cluster;
using session::ClusterInfo;
using session::CompileRequest;
using session::CopySemantics;
using session::CostAnalysis;
using session::DeviceInfo;
using session::ExecutableInfo;
using session::ExecuteReply;
using session::ExecuteRequest;
using session::Handle;
using session::HostCall;
using session::HostCallHandler;
using session::HostLayout;
using session::HostShard;
using session::kFirstServerHandle;
using session::kNewerThanRuntime;
using session::MemoryInfo;
using session::ResultCallback;
using session::RunResult;
using session::Session;
using session::SpareDevices;
using session::StatusCallback;
using session::ValueInfo;

}  // namespace pw::controller
