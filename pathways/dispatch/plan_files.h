// Planners for arrays in files (worker.proto, StoredArray): which host writes and which hosts read which tiles. Each adds one command per host
// concerned.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "pathways/base/ids.h"
#include "pathways/buffers/array_spec.h"
#include "pathways/dispatch/outbox.h"
#include "pathways/dispatch/plan_execute.h"
#include "pathways/resource/topology.h"

namespace pw::dispatch {

struct FileCall {
  SessionId session;
  ArrayId array;
  const buffers::ArraySpec* spec;
  const std::string* location;
  const std::string* name;  // of the array, below the location
  const std::string* user;  // the client's
};

// Returns the description of an array that is saved in the tiles of its sharding.
::pathways::v1::StoredArray DescribeStored(const std::string& name, const buffers::ArraySpec& spec);

// The number of bytes that each host has to write for a save so far.
using WriteLoad = std::map<HostId, int64_t>;

// Plans the writing of an array. Every tile with elements is written by one host: of those that hold it, the one with the least to write. Returns
// the hosts that write. REQUIRES: the topology has the devices.
std::vector<HostId> PlanSave(const resource::Topology& topology, const FileCall& call, const std::string& save, WriteLoad* load,
                             NameOp name_op, Outbox& outbox);

// Plans the reading of an array: every host reads each tile of its own devices once. REQUIRES: the topology has the devices.
void PlanLoad(const resource::Topology& topology, const FileCall& call, NameOp name_op, Outbox& outbox);

}  // namespace pw::dispatch
