// Questions that the Python package asks a cluster on its session's own connection. Requests and answers are JSON.
//
// {"sliceRequest": {"add": {"count": n, ...}}}: adds a virtual slice; answers its state. "add" also takes shape (then count is
// optional), platform, kind, island, beside (a slice), memory_per_device, hosts ("any", "spread", "pack") and exclusive.
// {"sliceRequest": {"await": {"slice": n, "seconds": s}}}: answers the state when the slice no longer waits, or after s seconds.
// {"sliceRequest": {"release": {"slice": n}}}: answers {}.
// {"publishedRequest": {"claim": {"name": n}}}, {"await": {"name": n, "above": v, "seconds": s}}, {"withdraw": {"name": n}}:
// see PublishedQuestion (session.proto).
// {"profilerRequest": {"start": {"merged": b}}}: answers {} when all hosts record a profile for this session. {"stop": {}}: ends it; answers
// {"hosts": [{"name", "bytes", "missing"}, ...]}. {"read": {"host": position, "offset": n}}: answers {"piece": base64} of that host's XSpace,
// which is empty at its end. {"drop": {}}: the hosts need not keep it any more; answers {}. The profile shows all that the client may see
// (Profiles::StartProfile).
// {"statusRequest": {}}: answers the status report (docs/status.md), with Session::array_bytes as client_array_bytes.
// {"effectsRequest": {}}: answers {} when all earlier runs with effects have ended, or fails with their first unreported failure.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "pathways/session/json.h"
#include "pathways/session/session.h"

namespace pw::session {

bool IsQuestion(absl::string_view kind);

// Asks a question, on the cluster's strand. `kind`: its key; `request`: its value. `done` gets JSON text, maybe inside the call.
void Ask(Cluster& cluster, Session& session, absl::string_view kind, const JsonObject& request, ResultCallback<std::string> done);

}  // namespace pw::session
