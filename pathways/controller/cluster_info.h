// Converts a worker's Hello into the topology's description of a host, and the topology into the ClusterInfo that clients see. Also checks
// whether a worker may join. Pure.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "pathways/controller/session.h"
#include "pathways/resource/topology.h"
#include "pathways/v1/worker.pb.h"

namespace pw::controller {

inline constexpr int kWorkerProtocolVersion = 1;
// No controller gives a launch a greater number. Leaves room for this one's own numbers.
inline constexpr uint64_t kMostLaunches = uint64_t{1} << 62;

resource::HostDescription DescribeHost(const ::pathways::v1::Hello& hello);
// Returns the place of a host, which the host shows to the next controller (resource::FormerPlace). REQUIRES: it is in the topology.
::pathways::v1::Place PlaceOf(const resource::Topology& topology, const resource::Host& host);

// Returns OK if this worker may join a cluster of `platform` ("": any platform). Errors are INVALID_ARGUMENT or
// FAILED_PRECONDITION, and say what to do.
absl::Status CheckHello(const ::pathways::v1::Hello& hello, const std::string& platform);

// `hellos`: those of the present hosts, in ascending order of host id. The StableHLO version is the oldest of theirs.
std::shared_ptr<const ClusterInfo> MakeClusterInfo(const resource::Topology& topology,
                                                   const std::vector<const ::pathways::v1::Hello*>& hellos);

// The attribute of devices that had no host when the client connected (python/pathways/_jax/virtual_devices.py).
inline constexpr char kEmptySeat[] = "empty_seat";

// Adds the devices of the empty seats to those that a client does not list.
void AddEmptySeats(const resource::Topology& topology, const std::string& platform, SpareDevices& spares);

}  // namespace pw::controller
