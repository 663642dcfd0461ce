// Attributes of the plugin. The C API asks the library for them, but they are those of the cluster: which StableHLO its hosts read, above
// all. Hosts ask after they have made a client, so these are the attributes of the newest client's cluster.
#pragma once

#include "pathways/session/session.h"
#include "plugins/pathways_pjrt/table.h"

namespace pw::pathways_pjrt {

void SetAttributes(const session::ClusterInfo& cluster, SessionId session, uint64_t number);

PJRT_Error* Attributes(PJRT_Plugin_Attributes_Args* args);

}  // namespace pw::pathways_pjrt
