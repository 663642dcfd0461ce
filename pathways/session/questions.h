// Questions that the Python package asks a cluster on its session's own connection, in JSON.
//
// {"sliceRequest": {"add": {"count": n, ...}}}, {"await": {"slice": n, "seconds": s}} or {"release": {"slice": n}} instead of "add". The answer is
// the slice's state, of "release" {}. "await" is answered when the slice no longer waits, or after so many seconds. "add" understands count, shape,
// platform, kind, island, beside (a slice), memory_per_device, hosts ("any", "spread", "pack") and exclusive. All but count are optional, and so
// is count if there is a shape.
// {"publishedRequest": {"claim": {"name": n}}}, {"await": {"name": n, "above": version, "seconds": s}} or {"withdraw": {"name": n}}: session.proto,
// PublishedQuestion, says what they do and how they are answered.
// {"statusRequest": {}}: the status report (docs/status.md), with client_array_bytes: the bytes of arrays that have passed the session's own end.
// {"effectsRequest": {}}: answered with {} when all earlier runs with effects have ended. Fails with the first failure among them that was not
// reported yet.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "pathways/session/json.h"
#include "pathways/session/session.h"

namespace pw::session {

bool IsQuestion(absl::string_view kind);

// Asks, on the cluster's strand. `kind`: the question's key; `request`: its value. `done` gets JSON text, maybe inside the call.
void Ask(Cluster& cluster, Session& session, absl::string_view kind, const JsonObject& request, ResultCallback<std::string> done);

}  // namespace pw::session
