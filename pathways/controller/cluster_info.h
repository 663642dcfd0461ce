// From what workers say in their Hello to what the topology keeps, and from there to what clients are shown. Pure.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "pathways/controller/session.h"
#include "pathways/resource/topology.h"
#include "pathways/v1/worker.pb.h"

namespace pw::controller {

inline constexpr int kWorkerProtocolVersion = 1;

resource::HostDescription DescribeHost(const ::pathways::v1::Hello& hello);

// OK if this worker may join one that has `platform` ("": any) and wants `token` ("": none): UNAUTHENTICATED, INVALID_ARGUMENT,
// FAILED_PRECONDITION with what to do.
absl::Status CheckHello(const ::pathways::v1::Hello& hello, const std::string& platform, const std::string& token);

// `hellos`: of the hosts that are there, in ascending order of their id. The StableHLO version is the oldest of all hosts'.
std::shared_ptr<const ClusterInfo> MakeClusterInfo(const resource::Topology& topology,
                                                   const std::vector<const ::pathways::v1::Hello*>& hellos);

}  // namespace pw::controller
