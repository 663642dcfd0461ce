// Attributes of the plugin, above all the StableHLO version that the cluster's hosts read. The C API asks the library for them,
// although they belong to a cluster. Hosts ask after they have made a client, so these are the newest client's cluster's.
#pragma once

#include "pathways/session/session.h"
#include "plugins/pathways_pjrt/table.h"

namespace pw::pathways_pjrt {

void SetAttributes(const session::ClusterInfo& cluster, SessionId session, uint64_t number);

PJRT_Error* Attributes(PJRT_Plugin_Attributes_Args* args);

}  // namespace pw::pathways_pjrt
